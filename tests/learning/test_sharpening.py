"""A sharper start: the factor by plain loops, what is learned from it, and where there is none."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from saferank.clicks import simulate, trust_bias
from saferank.data import synthetic
from saferank.errors import InputError
from saferank.learning import Settings, learn
from saferank.learning.problem import Log
from saferank.learning.sharpening import CAUTION, FACTORS, sharpen
from saferank.plackett_luce import rank_probabilities
from saferank.policies import ProductionPolicy

USERS = trust_bias()
W = USERS.exposure_weights
QUICK = Settings(steps=30, min_validation_interval=10)
WORLD = synthetic("small", queries=90, seed=5).train
FEW = WORLD.subset(np.arange(8))


@pytest.fixture(scope="module")
def production():
    return learn(
        FEW, method="skyline", scorer="linear", settings=QUICK, validation=(FEW, None), k=5
    )


def by_loops(scores, counts):
    """The factor of the largest estimate less the error, query by query and cell by cell."""
    best = (0.0, 1.0)
    for factor in FACTORS:
        gains = []
        for query in range(WORLD.queries):
            own = slice(WORLD.offsets[query], WORLD.offsets[query + 1])
            cut = [0, own.stop - own.start]
            old, new = (rank_probabilities(f * scores[own], 5, cut) for f in (1.0, factor))
            total = 0.0
            for d in range(cut[1]):
                rho = old[d] @ USERS.alpha
                for k in range(5):
                    seen = counts.impressions[own][d, k] * USERS.beta[k]
                    total += (new[d] - old[d]) @ W * (counts.clicks[own][d, k] - seen) / rho
            gains.append(total)
        sessions = counts.sessions / counts.total
        gain = sum(gains) / counts.total
        error = np.sqrt(
            sum((g / counts.total - s * gain) ** 2 for g, s in zip(gains, sessions, strict=True))
        )
        best = max(best, (gain - CAUTION * error, factor))
    return best[1]


@pytest.mark.parametrize("sessions", [40, 400])
def test_the_factor_is_that_of_plain_loops(production, sessions):
    factors = set()
    for seed, sign in ((0, 1.0), (1, 1.0), (2, -1.0)):
        scores = sign * production.scores(WORLD)
        counts = simulate(WORLD, scores, USERS, sessions=sessions, seed=seed, judge=0)
        log = Log(replace(WORLD, production=scores), counts).seen()
        found = sharpen(log, USERS, W).factor
        assert found == by_loops(scores, counts)
        factors.add(found)
    assert factors <= {1.0, *FACTORS}


def taught(production, counts, **options):
    start: dict[str, Any] = {
        "method": "prpo-sharpened",
        "production_kind": "sampled",
        "settings": QUICK,
    }
    start |= options
    return learn(WORLD, counts, USERS, production=production, scorer="linear", **start)


def test_a_hundred_sessions_sharpen_production_and_do_no_more(production):
    """With delta = 100/N PRPO cannot move: what is learned is the factor, on any documents."""
    scores = production.scores(WORLD)
    counts = simulate(WORLD, scores, USERS, sessions=100, seed=0, judge=0)
    ranker = taught(production, counts)
    factor = ranker.provenance.sharper
    assert factor in FACTORS
    assert ranker.scores(WORLD) == pytest.approx(factor * scores, rel=1e-12)
    by_scores = taught(scores, counts)  # no model to start from: a scorer is fitted to the scores
    assert by_scores.provenance.sharper == factor
    assert np.corrcoef(by_scores.scores(WORLD), scores)[0, 1] > 0.9
    plain = taught(production, counts, method="prpo")
    assert plain.provenance.sharper == 1
    assert plain.scores(WORLD) == pytest.approx(scores, rel=1e-12)


def test_a_bad_production_or_one_that_sorts_is_left_as_it_is(production):
    bad = -2 * WORLD.labels
    counts = simulate(WORLD, bad, USERS, sessions=3000, seed=0, judge=0)
    assert taught(bad, counts, delta=1.0, settings=Settings(steps=1)).provenance.sharper == 1
    scores = production.scores(WORLD)
    fixed = simulate(WORLD, scores, USERS, sessions=3000, seed=0, judge=0, deterministic=True)
    one = {"delta": 1.0, "settings": Settings(steps=1)}
    assert taught(scores, fixed, production_kind="sorted", **one).provenance.sharper == 1


def test_where_prpo_can_move_it_starts_at_production_itself(production):
    counts = simulate(WORLD, production.scores(WORLD), USERS, sessions=400, seed=0, judge=0)
    sharp, plain = (taught(production, counts, method=name) for name in ("prpo-sharpened", "prpo"))
    assert sharp.provenance.sharper == 1
    assert np.array_equal(sharp.scores(WORLD), plain.scores(WORLD))
    good = 0.3 * WORLD.labels
    counts = simulate(WORLD, good, USERS, sessions=2000, seed=0, judge=0)
    told = [taught(good, counts, delta=delta, settings=Settings(steps=1)) for delta in (1.0, 0.99)]
    assert [ranker.provenance.sharper for ranker in told] == [2, 1]


def test_a_promise_starts_at_production_itself(production):
    counts = simulate(WORLD, production.scores(WORLD), USERS, sessions=100, seed=0, judge=0)
    with pytest.raises(InputError, match="start"):
        taught(production, counts, method="keep", start="sharpened", keep=0.9)
    made = ProductionPolicy.sampled(production.scores(WORLD), WORLD.offsets)
    with pytest.raises(InputError, match="start"):
        taught(production, counts, production_kind="auto", logged_by=made)
