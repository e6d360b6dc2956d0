"""All ranks from one sweep, against enumeration and against one exposure per rank."""

import itertools

import numpy as np
import pytest
from plackett_luce_oracle import enumerated_ranks

from saferank._core.threads import use_threads
from saferank.plackett_luce import exposure, rank_probabilities
from saferank.plackett_luce.exact import sorted_rank_probabilities

SPREADS = [0.0, 1e-12, 1.0, 3.0, 10.0, 40.0]


def one_pass_per_rank(scores, k, offsets, tol=1e-10):
    columns = [exposure(scores, np.eye(k)[rank], offsets, tol=tol) for rank in range(k)]
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("documents", range(1, 8))
@pytest.mark.parametrize("spread", SPREADS)
def test_ranks_are_those_of_all_rankings(documents, spread):
    scores = spread * np.random.default_rng(documents).normal(size=documents)
    for k in (1, 2, documents, documents + 3):
        got = rank_probabilities(scores, k, [0, documents])
        np.testing.assert_allclose(got, enumerated_ranks(scores, k), rtol=0, atol=1e-10)


@pytest.mark.parametrize(("documents", "k"), [(120, 10), (120, 50), (60, 60), (2000, 7)])
@pytest.mark.parametrize("spread", SPREADS)
def test_ranks_are_the_exposures_of_single_ranks(documents, k, spread):
    scores = spread * np.random.default_rng(k).normal(size=documents)
    got = rank_probabilities(scores, k, [0, documents])
    expected = one_pass_per_rank(scores, k, [0, documents])
    np.testing.assert_allclose(got, expected, rtol=0, atol=2e-10)
    assert got.min() >= 0


def test_hard_scores_at_every_tolerance():
    """A leader far ahead, ties in bunches, a long tail: no cancellation beyond the tolerance."""
    scores = np.concatenate([[60.0], np.full(30, 2.0), np.linspace(0, -300, 200), [0.0] * 50])
    exact = one_pass_per_rank(scores, 12, [0, scores.size], tol=1e-12)
    for tol in (1e-4, 1e-8, 1e-12):
        got = rank_probabilities(scores, 12, [0, scores.size], tol=tol)
        np.testing.assert_allclose(got, exact, rtol=0, atol=2 * tol)


def test_rare_documents_keep_their_relative_precision():
    """Propensities are divided by: those of documents far behind must be right, too."""
    scores = np.concatenate([np.zeros(20), [-12.0]])
    got = rank_probabilities(scores, 3, [0, 21], tol=1e-13)[-1]
    rate = np.exp(-12.0)
    # before rank r there are 21 - r equal documents left, and it
    left = [rate / (20 + rate)]
    left.append((1 - left[0]) * rate / (19 + rate))
    left.append((1 - left[0] - left[1]) * rate / (18 + rate))
    np.testing.assert_allclose(got, left, rtol=1e-7)


def test_queries_side_by_side_and_threads_change_no_bit():
    rng = np.random.default_rng(0)
    sizes = np.array([3, 0, 40, 1, 200, 5])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    scores = 3 * rng.normal(size=offsets[-1])
    with use_threads(1):
        alone = rank_probabilities(scores, 9, offsets)
    with use_threads(2):
        np.testing.assert_array_equal(rank_probabilities(scores, 9, offsets), alone)
    for first, last in itertools.pairwise(offsets):
        if last > first:
            own = rank_probabilities(scores[first:last], 9, [0, last - first])
            np.testing.assert_array_equal(alone[first:last], own)


def test_sorted_ranks_are_ones_where_documents_stand():
    rng = np.random.default_rng(0)
    offsets = [0, 4, 4, 5, 12]
    scores = rng.integers(0, 3, size=12).astype(float)
    expected = np.zeros((12, 5))
    for first, last in itertools.pairwise(offsets):
        ranked = sorted(range(first, last), key=lambda d: (-scores[d], d))
        for rank, document in enumerate(ranked[:5]):
            expected[document, rank] = 1
    np.testing.assert_array_equal(sorted_rank_probabilities(scores, 5, offsets), expected)
