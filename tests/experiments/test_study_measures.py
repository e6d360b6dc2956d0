"""What the study measures, against the package's certificate and loops over rankings' chances."""

import numpy as np
import pytest

from saferank.clicks import trust_bias
from saferank.data import synthetic
from saferank.experiments.study_measures import MEASURES, Measuring
from saferank.learning import Settings, learn
from saferank.metrics import dcg_weights
from saferank.plackett_luce import rank_probabilities
from saferank.safety import certify


@pytest.fixture(scope="module")
def measured():
    world = synthetic("small", queries=30, seed=0)
    rankers = [
        learn(world.train, method="skyline", k=5, seed=seed, settings=Settings(steps=steps))
        for seed, steps in ((1, 3), (2, 60))
    ]
    made = Measuring(rankers[0], world, trust_bias(5)).measure(rankers[1])
    return world, rankers, made


def test_the_bound_is_that_of_the_certificate(measured):
    world, (production, ranker), made = measured
    weights = trust_bias(5).exposure_weights
    certificate = certify(ranker, world.test, production=production, weights=weights)
    assert made["bound"] == pytest.approx(certificate.curve.loss(1.0), rel=1e-9)
    assert made["bound"] >= made["production_utility"] - made["utility"]


def test_utility_distance_and_ndcg_are_sums_over_documents_and_ranks(measured):
    world, rankers, made = measured
    test, weights = world.test, trust_bias(5).exposure_weights
    chances = [rank_probabilities(it.scores(test), 5, test.offsets) for it in rankers]
    sums: dict[str, list[float]] = {
        name: [] for name in ("expected", "utility", "production_utility", "distance")
    }
    for first, last in zip(test.offsets[:-1], test.offsets[1:], strict=True):
        labels = test.labels[first:last].astype(float)
        old, new = (chance[first:last] for chance in chances)
        sums["utility"].append(new @ weights @ labels / 4)
        sums["production_utility"].append(old @ weights @ labels / 4)
        shown, now = old @ weights, new @ weights
        sums["distance"].append(np.abs(now - shown).sum() / (2 * shown.sum()))
        best = np.sort(labels)[::-1][:5] @ dcg_weights(5)[: labels.size]
        if best > 0:
            sums["expected"].append(new @ dcg_weights(5) @ labels / best)
    for name, values in sums.items():
        assert made[name] == pytest.approx(np.mean(values), abs=1e-8)


def test_production_is_what_it_is_measured_against(measured):
    world, (production, _), _ = measured
    made = Measuring(production, world, trust_bias(5)).measure(production)
    assert set(made) == set(MEASURES)
    assert made["utility"] == made["production_utility"]
    assert made["bound"] == made["distance"] == 0
