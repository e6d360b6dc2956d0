"""Sampled gradients: exactly right over all rankings, and within their error over samples."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr

from saferank.errors import InputError
from saferank.plackett_luce import GRADIENTS, exposure_gradient, sampled_gradients
from saferank.plackett_luce.coordinate_gradients import SIGMA

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


@pytest.mark.parametrize("method", [*SAMPLED, "stochastic-rank-gumbel"])
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
    with pytest.raises(InputError, match="`samples` must be at least 1"):
        GRADIENTS["stochastic-rank"]([0.0], [1.0], [0, 1], [0.0], samples=0)


def gaussian_exposure(scores, weights):
    """Exposures of lists sorted by scores with Gaussian noise, by quadrature over a score.

    Given that a document's noisy score is z, the others are above z independently of each other.
    """
    z = np.linspace(scores.min() - 11, scores.max() + 11, 4001)
    above = 1 - ndtr((z - scores[:, None]) / SIGMA)
    density = np.exp(-0.5 * ((z - scores[:, None]) / SIGMA) ** 2) / (SIGMA * np.sqrt(2 * np.pi))
    omega = np.zeros(scores.size)
    for d in range(scores.size):
        chances = np.zeros((len(weights), z.size))  # of so many others above
        chances[0] = 1
        for other in set(range(scores.size)) - {d}:
            below = np.vstack([np.zeros(z.size), chances[:-1]])
            chances = chances * (1 - above[other]) + below * above[other]
        omega[d] = np.trapezoid(density[d] * (weights @ chances), z)
    return omega


@pytest.mark.parametrize("weights", [[1.0, 0.6, 0.5], [1.0], [0.2, 1.0, 0.3, 0.1, 0.1, 0.1]])
def test_stochastic_rank_is_the_gradient_of_lists_with_gaussian_noise(weights):
    rng = np.random.default_rng(5)
    scores, slope, weights = rng.normal(size=5), rng.normal(size=5), np.array(weights)
    assert gaussian_exposure(scores, weights).sum() == pytest.approx(weights[:5].sum(), abs=1e-9)
    wanted = [
        slope @ (gaussian_exposure(scores + step, weights)
                 - gaussian_exposure(scores - step, weights)) / 2e-4
        for step in 1e-4 * np.eye(5)
    ]  # fmt: skip
    draws = np.array(
        [GRADIENTS["stochastic-rank"](scores, weights, [0, 5], slope, samples=100, seed=i)
         for i in range(200)]
    )  # fmt: skip
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    assert np.abs((draws.mean(axis=0) - wanted) / error).max() < 4.5
    assert np.all(error < 0.1 * np.linalg.norm(wanted))


def test_given_the_other_score_two_documents_have_a_closed_form():
    # the first is above with probability Phi((s1 - s2) / (sigma sqrt 2))
    scores, slope = np.array([0.3, -0.4]), np.array([1.5, 0.5])
    apart = 0.7 / (SIGMA * np.sqrt(2))
    wanted = np.exp(-0.5 * apart**2) / np.sqrt(2 * np.pi) / (SIGMA * np.sqrt(2))
    got = GRADIENTS["stochastic-rank"](scores, [1.0], [0, 2], slope, samples=200_000)
    assert got == pytest.approx([wanted, -wanted], rel=0.01)
