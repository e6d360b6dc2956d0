"""What is made for some queries at a time is what it would be for all of them at once."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from saferank._core import flat
from saferank.clicks import simulate, trust_bias
from saferank.counts import Counts
from saferank.data import synthetic
from saferank.estimators import Evidence, by_policy
from saferank.evaluation import Contrast
from saferank.evaluation.bias_set import BiasSet
from saferank.evaluation.click_weights import choose_weights
from saferank.evaluation.clipped import promised
from saferank.evaluation.document_weights import Prospect
from saferank.evaluation.lower_bound import CLIPS, choose_clip, clipped_interval, lower_bound
from saferank.evaluation.off_policy import evaluate_exposures
from saferank.plackett_luce import exposure
from saferank.policies import ProductionPolicy
from saferank.policies.choosing import pooled_p_value

MODEL = trust_bias(4)
DATA = synthetic("small", queries=60, seed=2).train
OLD = np.random.default_rng(1).normal(size=DATA.documents)


def logged(sessions: int) -> Counts:
    return simulate(DATA, OLD, MODEL, sessions=sessions, seed=3, judge=0, progress=False)


def contrast(sessions: int) -> Contrast:
    """A better ranker than production, on queries of which some have no session."""
    policy, weights = ProductionPolicy.sampled(OLD, DATA.offsets), MODEL.exposure_weights
    guess = np.clip(DATA.known_labels / 4 + 0.1 * np.sin(OLD), 0, 1)
    evidence = Evidence(
        logged(sessions), MODEL, by_policy(policy, MODEL, weights), guess,
        policy.rank_probabilities(MODEL.ranks),
    )  # fmt: skip
    better = exposure(2.0 * DATA.known_labels, weights, DATA.offsets)
    return Contrast(better, policy.exposure(weights), evidence)


CALLS: dict[str, Callable[[Contrast], Any]] = {
    "estimates": lambda it: evaluate_exposures(it, estimator="dr", control="none").record(),
    "support": lambda it: it.support(),
    "bound": lower_bound,
    "interval": lambda it: clipped_interval(it, clip=2.0),
    "unpredicted": lambda it: lower_bound(
        replace(it, evidence=replace(it.evidence, predictions=None, shown=None))
    ),
    "promised": lambda it: promised(it, CLIPS, 1.6),
    "places": lambda it: pooled_p_value(it.evidence.counts, OLD),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("sessions", [40, 4000])
def test_the_same_bits_however_many_queries_are_looked_at_together(
    name: str, sessions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = contrast(sessions)
    said = []
    for cells in (1, 500, 1 << 17):
        monkeypatch.setattr(flat, "CELLS", cells)
        said.append(CALLS[name](given))
    assert said[0] == said[1] == said[2]


@pytest.mark.parametrize("clip", [1.5, 10.0])
def test_the_largest_weight_promises_what_its_formula_says(clip: float) -> None:
    given = contrast(500)
    evidence, total = given.evidence, given.evidence.counts.total
    known, shown = evidence.predictions, evidence.shown
    assert known is not None
    assert shown is not None
    centre = variance = 0.0
    share = flat.repeat_per_document(evidence.counts.sessions / total, DATA.offsets)
    for d in range(DATA.documents):
        lost, rho = given.omega0[d] - given.omega[d], evidence.propensities.rho[d]
        v = min(max(lost / rho, -clip), clip)
        centre -= share[d] * (max(0.0, lost - rho * v) + rho * v * known[d])
        worst = []
        for relevance in (0, 1):
            spread = 0.0
            for k in range(MODEL.ranks):
                m = MODEL.alpha[k] * known[d] + MODEL.beta[k]
                p = MODEL.alpha[k] * relevance + MODEL.beta[k]
                spread += shown[d, k] * (p * (1 - m) ** 2 + (1 - p) * m**2)
            worst.append(spread)
        variance += share[d] * v**2 * max(worst)
    expected = centre - 1.6 * np.sqrt(variance / total)
    assert promised(given, [clip], 1.6)[0] == pytest.approx(expected, rel=1e-9)


def test_the_chosen_weight_promises_most() -> None:
    given = contrast(500)
    bounds = promised(given, CLIPS, 1.6448536269514722)
    assert choose_clip(given, 0.05) == CLIPS[int(np.argmax(bounds))]


def test_weights_of_clicks_do_not_depend_on_what_lay_in_their_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("saferank.evaluation.click_weights.FEW", 0)
    given = contrast(500)
    shown = given.evidence.shown
    assert shown is not None
    rng = np.random.default_rng(0)
    prospect = Prospect(
        shown, np.full(DATA.documents, 1 / DATA.documents), rng.random(DATA.documents),
        0.1 + 0.1 * rng.random(shown.shape), 500,
    )  # fmt: skip
    bias = BiasSet.around(MODEL, 0.1)
    fresh, _ = choose_weights(given.loss, prospect, bias, 1.64)
    place = rng.normal(size=shown.shape)
    again, _ = choose_weights(given.loss, prospect, bias, 1.64, out=place)
    assert again is place
    assert fresh.any()
    np.testing.assert_array_equal(again, fresh)
