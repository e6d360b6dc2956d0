"""Sampled gradients: exactly right over all rankings, and within their error over samples."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from saferank.errors import InputError
from saferank.plackett_luce import GRADIENTS, exposure_gradient, sampled_gradients

SAMPLED = ["pl-rank", "reinforce"]


def rankings_in_proportion(rates, k, copies):
    """Every ranking of the first k, as many times as its probability times `copies`."""
    rows = []
    for ranking in itertools.permutations(range(len(rates)), k):
        chance, left = Fraction(1), sum(rates)
        for document in ranking:
            chance, left = chance * Fraction(rates[document], left), left - rates[document]
        count = chance * copies
        assert count.denominator == 1
        rows += [ranking] * int(count)
    return np.array(rows)


@pytest.mark.parametrize("method", SAMPLED)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_mean_over_all_rankings_is_the_gradient(monkeypatch, method, k):
    rates = [1, 2, 3]
    rows = rankings_in_proportion(rates, k, copies=360)

    def all_of_them(scores, rankings, rng):
        rankings[:] = rows

    monkeypatch.setattr(sampled_gradients, "sample_query", all_of_them)
    weights, slope = np.array([1.0, 0.5, 0.25])[:k], np.array([0.3, -1.0, 2.0])
    got = GRADIENTS[method](np.log(rates), weights, [0, 3], slope, samples=360)
    if method == "reinforce":  # n - 1 makes it unbiased for draws; these are not draws
        got = got * 359 / 360
    expected = exposure_gradient(np.log(rates), weights, [0, 3], slope, tol=1e-12)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("method", SAMPLED)
def test_the_mean_of_many_estimates_is_the_gradient(method):
    rng = np.random.default_rng(0)
    offsets = [0, 3, 3, 15]
    scores, slope = rng.normal(size=15), rng.normal(size=15)
    weights = [1.0, 0.6, 0.5, 0.4]
    draws = np.array(
        [GRADIENTS[method](scores, weights, offsets, slope, samples=50, seed=i) for i in range(200)]
    )
    exact = GRADIENTS["exact"](scores, weights, offsets, slope)
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    assert np.abs((draws.mean(axis=0) - exact) / error).max() < 4.5
    assert np.all(error > 0)


@pytest.mark.parametrize("method", GRADIENTS)
def test_the_same_seed_gives_the_same_gradient(method):
    given = np.arange(4.0), [1.0, 0.5], [0, 4], [1.0, 0.0, 2.0, -1.0]
    one, other = (GRADIENTS[method](*given, samples=50, seed=3) for _ in range(2))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("method", GRADIENTS)
def test_few_documents_and_none(method):
    assert GRADIENTS[method]([], [1.0], [0, 0], [], samples=10).shape == (0,)
    alone = GRADIENTS[method]([3.0], [1.0, 0.5], [0, 1], [2.0], samples=10)
    np.testing.assert_allclose(alone, 0, atol=1e-12)


def test_bad_input_is_told_in_one_sentence():
    with pytest.raises(InputError, match="`samples` must be at least 2"):
        GRADIENTS["reinforce"]([0.0], [1.0], [0, 1], [0.0], samples=1)
    with pytest.raises(InputError, match="`samples` must be at least 1"):
        GRADIENTS["pl-rank"]([0.0], [1.0], [0, 1], [0.0], samples=0)
