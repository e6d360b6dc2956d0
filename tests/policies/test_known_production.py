"""When production's policy is taken for known, and when what is said of it is refused."""

from itertools import permutations

import numpy as np
import pytest

from saferank._core.flat import Floats
from saferank.counts import Counts
from saferank.errors import InputError
from saferank.plackett_luce import rank_probabilities
from saferank.policies import PolicyFinding, known_policy
from saferank.policies.random_order import _surprise, random_order_p_value


def drawn(scores: Floats, seed: int = 0) -> Counts:
    """Lists drawn by Plackett-Luce, each seen once; nobody clicks."""
    noise = np.random.default_rng(seed).gumbel(size=scores.shape)
    order = np.argsort(-(scores + noise), axis=1)
    size = scores.shape[1]
    shown = np.eye(size, dtype=np.int64)[np.argsort(order, axis=1)].reshape(-1, size)
    return Counts(np.arange(len(scores) + 1) * size, shown, 0 * shown)


def test_random_order_is_believed_when_said_and_refused_when_a_feature_tells_it() -> None:
    x = np.random.default_rng(1).normal(size=(2000, 5))
    even, sorted_by_x = drawn(np.zeros_like(x)), drawn(x)
    features = np.column_stack([np.random.default_rng(2).normal(size=x.size), x.ravel()])
    assert known_policy(even) is None
    known = known_policy(even, said="uniform", features=features)
    assert known is not None
    assert "no feature tells the order" in known.why
    np.testing.assert_allclose(known.propensity, 0.2, atol=1e-9)
    with pytest.raises(InputError, match="lists are not in random order"):
        known_policy(sorted_by_x, said="uniform", features=features)
    assert known_policy(even, said="none") is None


def test_a_score_that_was_drawn_from_is_known_by_the_log() -> None:
    x = np.random.default_rng(1).normal(size=(2000, 5))
    counts = drawn(x)
    known = known_policy(counts, x.ravel())
    assert known is not None
    expected = rank_probabilities(x.ravel(), 5, counts.offsets)
    np.testing.assert_allclose(known.propensity, expected, atol=0.02)
    with pytest.raises(InputError, match="must be what made the log"):
        known_policy(counts, -x.ravel(), said="score")


def test_recorded_propensities_of_lists_seen_once() -> None:
    x = np.random.default_rng(1).normal(size=(500, 5))
    counts = drawn(x)
    chance = rank_probabilities(x.ravel(), 5, counts.offsets)
    recorded = Counts(
        counts.offsets,
        counts.impressions,
        counts.clicks,
        propensity=np.where(counts.impressions > 0, chance, 0.0),
    )
    known = known_policy(recorded)
    assert known is not None
    assert not known.complete
    with pytest.raises(InputError, match="needs propensities"):
        known_policy(counts, said="recorded")
    twice = Counts(counts.offsets, counts.impressions, counts.clicks, propensity=0 * chance + 0.5)
    with pytest.raises(InputError, match=r"add up to 2\.5"):
        known_policy(twice, said="recorded")


def test_the_variance_of_a_feature_in_random_order_is_exact() -> None:
    """Over all orders of one list, t has mean 0 and the stated variance."""
    x = np.array([3.0, -1.0, 0.5, 7.0])
    query = np.zeros(4, dtype=np.int64)
    each = [_surprise(x, np.array(p) - 1.5, query) for p in permutations(range(4))]
    assert np.mean(np.square(each)) == pytest.approx(1.0)


def test_p_values_of_random_order_are_those_of_chance() -> None:
    rng = np.random.default_rng(3)
    features = rng.lognormal(sigma=2, size=(200 * 6, 3))
    found = [
        random_order_p_value(drawn(np.zeros((200, 6)), seed), features)
        for seed in range(1000, 1400)
    ]
    assert np.mean(np.array(found, dtype=float) < 0.1) < 0.16
    assert random_order_p_value(drawn(np.zeros((20, 6))), features[:120]) is None


def test_the_finding_of_a_contradiction_is_a_problem() -> None:
    x = np.random.default_rng(1).normal(size=(2000, 5))
    finding = PolicyFinding("uniform")(drawn(x), None, x.reshape(-1, 1))
    assert finding is not None
    assert finding.severity == "problem"
