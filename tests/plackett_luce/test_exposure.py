"""Exposures and their gradient against enumeration, closed forms and on hard inputs."""

import itertools

import numpy as np
import pytest
from plackett_luce_oracle import (
    all_rankings,
    central_differences,
    enumerated_exposure,
    enumerated_ranks,
    ranking_probabilities,
    two_ranks,
)

from saferank._core.threads import use_threads
from saferank.errors import InputError
from saferank.metrics import Empty, dcg_weights, ndcg
from saferank.plackett_luce import (
    deterministic_exposure,
    expected_ndcg,
    exposure,
    exposure_gradient,
    rank_probabilities,
)

SPREADS = [0.0, 1e-12, 1.0, 3.0, 10.0, 40.0]


def one(scores):
    return [0, len(scores)]


@pytest.mark.parametrize("documents", range(1, 8))
@pytest.mark.parametrize("spread", SPREADS)
def test_exposure_is_that_of_all_rankings(documents, spread):
    rng = np.random.default_rng(documents)
    scores = spread * rng.normal(size=documents)
    for k in range(1, documents + 3):
        for weights in (dcg_weights(k), rng.normal(size=k)):
            expected = enumerated_exposure(scores, weights)
            got = exposure(scores, weights, one(scores))
            np.testing.assert_allclose(got, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("documents", range(1, 7))
@pytest.mark.parametrize("spread", SPREADS)
def test_gradient_is_that_of_all_rankings(documents, spread):
    rng = np.random.default_rng(documents)
    scores = spread * rng.normal(size=documents)
    for k in range(1, documents + 2):
        weights, slope = dcg_weights(k), rng.normal(size=documents)
        expected = central_differences(
            lambda s, w=weights, g=slope: g @ enumerated_exposure(s, w), scores
        )
        got = exposure_gradient(scores, weights, one(scores), slope)
        np.testing.assert_allclose(got, expected, rtol=0, atol=2e-9)


@pytest.mark.parametrize("documents", [2, 30, 1500, 4000])
@pytest.mark.parametrize("spread", [0.0, 1.0, 8.0, 50.0, 200.0])
def test_two_ranks_have_a_closed_form(documents, spread):
    scores = spread * np.random.default_rng(documents).normal(size=documents)
    weights = np.array([1.0, 0.7])
    expected = two_ranks(scores, weights)
    np.testing.assert_allclose(exposure(scores, weights, one(scores)), expected, rtol=0, atol=1e-10)


def test_small_exposures_are_right_too():
    scores = np.array([0.0, -1.0, -20.0, -60.0, -90.0])
    weights = np.array([1.0, 0.7])
    expected = two_ranks(scores, weights)
    np.testing.assert_allclose(exposure(scores, weights, one(scores)), expected, rtol=1e-8)


@pytest.mark.parametrize("k", [1, 3, 5, 7])
@pytest.mark.parametrize("seed", range(4))
def test_small_exposures_are_right_at_any_number_of_ranks(k, seed):
    scores = 25.0 * np.random.default_rng(seed).normal(size=7)
    expected = enumerated_exposure(scores, dcg_weights(k))
    np.testing.assert_allclose(
        exposure(scores, dcg_weights(k), one(scores)), expected, rtol=1e-8, atol=1e-30
    )


@pytest.mark.parametrize("apart", [23.9, 24.1, 90.0, 400.0])
def test_the_order_of_documents_far_apart_does_not_matter(apart):
    rng = np.random.default_rng(0)
    scores, slope = apart * rng.random(203), rng.normal(size=203)
    mixed, weights = rng.permutation(203), dcg_weights(5)
    for values, again in (
        (exposure(scores, weights, one(scores)), exposure(scores[mixed], weights, one(scores))),
        (
            exposure_gradient(scores, weights, one(scores), slope),
            exposure_gradient(scores[mixed], weights, one(scores), slope[mixed]),
        ),
    ):
        np.testing.assert_allclose(again, values[mixed], rtol=0, atol=1e-12)


@pytest.mark.parametrize("k", [1, 5, 10])
@pytest.mark.parametrize("spread", [1.0, 8.0])
def test_gradient_of_a_long_query_is_that_of_differences(k, spread):
    rng = np.random.default_rng(k)
    scores, slope = spread * rng.normal(size=2000), rng.normal(size=2000)
    weights = dcg_weights(k)
    gradient = exposure_gradient(scores, weights, one(scores), slope)
    for direction in (rng.normal(size=2000) / spread, np.eye(2000)[scores.argmax()]):
        differences = central_differences(
            lambda step, along=direction: (
                slope @ exposure(scores + step * along, weights, one(scores), tol=1e-13)
            ),
            np.zeros(1),
            step=1e-2 / np.abs(direction).max(),
        )
        assert gradient @ direction == pytest.approx(differences[0], abs=3e-7)


@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("k", [1, 2, 4, 9, 25])
def test_error_stays_below_the_tolerance_asked_for(tol, k):
    rng = np.random.default_rng(0)
    weights, last = np.ones(k), np.eye(k)[-1]
    for scores in (
        np.zeros(1),
        np.zeros(40),
        rng.normal(size=300),
        5 * rng.normal(size=60),
        30 * rng.normal(size=60),
        rng.choice([0.0, 9.0], size=50),
        np.log(rng.pareto(1.0, size=100)),
        np.r_[25.0, np.zeros(30)],
    ):
        slope = rng.choice([-0.5, 0.5], size=scores.size)
        for w in (weights, last):
            exact = exposure(scores, w, one(scores), tol=1e-13)
            assert np.abs(exposure(scores, w, one(scores), tol=tol) - exact).max() < tol
            exact = exposure_gradient(scores, w, one(scores), slope, tol=1e-13)
            got = exposure_gradient(scores, w, one(scores), slope, tol=tol)
            assert np.abs(got - exact).max() < tol


def test_equal_scores_share_equally():
    for scores in (np.zeros(1000), 1e-12 * np.random.default_rng(0).normal(size=1000)):
        weights = dcg_weights(10)
        got = exposure(scores, weights, one(scores))
        np.testing.assert_allclose(got, weights.sum() / 1000, rtol=0, atol=1e-10)


def test_far_apart_scores_are_sorted():
    rng = np.random.default_rng(0)
    for gap in (100.0, 1e3, 1e6, 1e300):
        scores = gap * rng.permutation(12)
        for k in (1, 5, 12, 15):
            weights = dcg_weights(k)
            expected = deterministic_exposure(scores, weights, one(scores))
            got = exposure(scores, weights, one(scores))
            np.testing.assert_allclose(got, expected, rtol=0, atol=1e-10)
            slope = rng.normal(size=12)
            gradient = exposure_gradient(scores, weights, one(scores), slope)
            np.testing.assert_allclose(gradient, 0, atol=1e-9)


def test_the_largest_floats_are_no_special_case():
    scores = np.array([-1.7e308, 1.7e308, 0.0])
    np.testing.assert_allclose(exposure(scores, [3.0, 2.0, 1.0], [0, 3]), [1, 3, 2], atol=1e-9)


def test_one_huge_score_leaves_the_others_as_they_were():
    scores = np.random.default_rng(0).normal(size=50)
    weights = dcg_weights(6)
    alone = exposure(scores, weights[1:], one(scores))
    got = exposure(np.r_[900.0, scores], weights, [0, 51])
    np.testing.assert_allclose(got, np.r_[weights[0], alone], rtol=0, atol=2e-10)


def test_a_hundred_thousand_documents_in_one_query():
    scores = np.random.default_rng(0).normal(size=100_000)
    weights = dcg_weights(5)
    got = exposure(scores, weights, one(scores))
    assert got.sum() == pytest.approx(weights.sum(), abs=1e-9)
    first = np.exp(scores) / np.exp(scores).sum()
    np.testing.assert_allclose(exposure(scores, [1.0], one(scores)), first, rtol=1e-8)


def test_a_spread_of_a_thousand_over_many_documents():
    scores = np.linspace(0, 1000, 3001)  # a geometric race: rank 1 of the last is 1 - e^(-1/3)
    got = exposure(scores, [1.0, 0.7], one(scores))
    np.testing.assert_allclose(got, two_ranks(scores, [1.0, 0.7]), rtol=0, atol=1e-10)
    assert rank_probabilities(scores, 1, one(scores))[-1, 0] == pytest.approx(1 - np.exp(-1 / 3))


def test_queries_do_not_touch_each_other_and_may_be_empty():
    rng = np.random.default_rng(0)
    sizes = [0, 3, 1, 0, 700, 12, 0]
    offsets = np.r_[0, np.cumsum(sizes)]
    scores, slope = rng.normal(size=offsets[-1]), rng.normal(size=offsets[-1])
    weights = dcg_weights(4)
    omega = exposure(scores, weights, offsets)
    gradient = exposure_gradient(scores, weights, offsets, slope)
    for first, last in itertools.pairwise(offsets):
        own, cuts = scores[first:last], [0, last - first]
        np.testing.assert_array_equal(omega[first:last], exposure(own, weights, cuts))
        alone = exposure_gradient(own, weights, cuts, slope[first:last])
        np.testing.assert_array_equal(gradient[first:last], alone)


def test_no_queries_at_all():
    assert exposure([], [1.0], [0]).shape == (0,)
    assert exposure_gradient([], [1.0], [0, 0], []).shape == (0,)
    assert rank_probabilities([], 3, [0]).shape == (0, 3)


def test_the_bits_do_not_depend_on_threads():
    rng = np.random.default_rng(0)
    offsets = np.r_[0, np.cumsum(rng.integers(0, 200, size=64))]
    scores, slope = rng.normal(size=offsets[-1]), rng.normal(size=offsets[-1])
    results = []
    for count in (1, 4):
        with use_threads(count):
            omega = exposure(scores, dcg_weights(5), offsets)
            results.append((omega, exposure_gradient(scores, dcg_weights(5), offsets, slope)))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])


def test_equal_slopes_have_no_gradient():
    scores = np.random.default_rng(0).normal(size=30)
    assert not exposure_gradient(scores, dcg_weights(5), [0, 30], np.full(30, 0.1)).any()


def test_single_precision_is_computed_in_double():
    scores = np.random.default_rng(0).normal(size=20).astype(np.float32)
    got = exposure(scores, np.array([1, 0.5], np.float32), np.array([0, 20], np.int32))
    assert got.dtype == np.float64
    np.testing.assert_array_equal(got, exposure(scores.astype(float), [1, 0.5], [0, 20]))


def test_bad_input_is_told_in_one_sentence():
    with pytest.raises(InputError, match=r"`scores` must be finite; got nan in query 1"):
        exposure([0.0, np.nan], [1.0], [0, 1, 2])
    with pytest.raises(InputError, match=r"`scores` must be finite; got inf in query 0"):
        exposure_gradient([np.inf, 0.0], [1.0], [0, 1, 2], [0.0, 0.0])
    with pytest.raises(InputError, match=r"`slope` must be finite; got -inf in query 1"):
        exposure_gradient([0.0, 0.0], [1.0], [0, 1, 2], [0.0, -np.inf])
    with pytest.raises(InputError, match=r"`weights` must be finite"):
        exposure([0.0], [np.nan], [0, 1])
    with pytest.raises(InputError, match=r"`weights` must be one value per rank"):
        exposure([0.0], [], [0, 1])
    with pytest.raises(InputError, match=r"`tol` must be in \[1e-13, 0.1\]; got 0"):
        exposure([0.0], [1.0], [0, 1], tol=0)
    with pytest.raises(InputError, match=r"`k` must be at least 1"):
        rank_probabilities([0.0], 0, [0, 1])


def test_deterministic_exposure_sorts_stably():
    rng = np.random.default_rng(0)
    offsets = [0, 4, 4, 5, 40]
    scores = rng.integers(0, 5, size=40).astype(float)
    weights = dcg_weights(6)
    expected = np.zeros(40)
    for first, last in itertools.pairwise(offsets):
        ranked = sorted(range(first, last), key=lambda d: (-scores[d], d))
        for weight, document in zip(weights, ranked, strict=False):
            expected[document] = weight
    np.testing.assert_array_equal(deterministic_exposure(scores, weights, offsets), expected)


@pytest.mark.parametrize("documents", [1, 3, 6])
def test_rank_probabilities_are_those_of_all_rankings(documents):
    scores = np.random.default_rng(documents).normal(size=documents)
    got = rank_probabilities(scores, 5, one(scores))
    np.testing.assert_allclose(got, enumerated_ranks(scores, 5), rtol=0, atol=1e-10)


@pytest.mark.parametrize("gain", ["linear", "exponential"])
def test_expected_ndcg_is_the_mean_over_all_rankings(gain):
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=6), np.array([0, 3, 1, 0, 2, 0])
    rankings = all_rankings(6)
    order = np.argsort(rankings, axis=1)  # the rank of each document, as a score
    values = ndcg(-order.ravel(), np.tile(labels, 720), np.arange(0, 4321, 6), 3, gain=gain)
    expected = ranking_probabilities(scores, rankings) @ values
    assert expected_ndcg(scores, labels, [0, 6], 3, gain=gain)[0] == pytest.approx(expected)


def test_expected_ndcg_of_a_query_without_relevant_documents():
    values: dict[Empty, float] = {"skip": np.nan, "zero": 0.0, "one": 1.0}
    for empty, value in values.items():
        got = expected_ndcg([1.0, 2.0, 0.0], [0, 0, 1], [0, 2, 3], 5, empty=empty)
        np.testing.assert_allclose(got, [value, 1.0])
