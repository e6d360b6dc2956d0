"""Sampled rankings and log-probabilities against all rankings."""

import numpy as np
import pytest
from plackett_luce_oracle import all_rankings, ranking_probabilities

from saferank._core.threads import use_threads
from saferank.errors import InputError
from saferank.metrics import dcg_weights
from saferank.plackett_luce import exposure, log_probability, sample


def test_every_ranking_comes_as_often_as_it_should():
    scores = np.array([0.3, -1.0, 1.2, 0.0])
    rankings = all_rankings(4)
    expected = 40_000 * ranking_probabilities(scores, rankings)
    drawn = sample(scores, 4, 40_000, seed=3)[0]
    code = 4 ** np.arange(4)
    counts = [np.sum(drawn @ code == ranking @ code) for ranking in rankings]
    assert np.sum(counts) == 40_000
    assert np.sum((counts - expected) ** 2 / expected) < 49.7  # 0.999 of chi-square, 23 free


def test_shapes_and_short_queries():
    offsets = [0, 2, 2, 7]
    drawn = sample(np.zeros(7), 3, 11, seed=0, offsets=offsets)
    assert drawn.shape == (3, 11, 3)
    assert set(drawn[0].ravel()) == {-1, 0, 1}
    assert np.all(drawn[0, :, 2] == -1)
    assert np.all(drawn[1] == -1)
    assert np.all((drawn[2] >= 2) & (drawn[2] < 7))
    assert all(len(set(row)) == 3 for row in drawn[2].tolist())


def test_the_same_seed_draws_the_same_whatever_the_threads_and_the_other_queries():
    scores = np.random.default_rng(0).normal(size=60)
    with use_threads(1):
        one = sample(scores, 5, 500, seed=7, offsets=[0, 20, 60])
    with use_threads(4):
        many = sample(scores, 5, 500, seed=7, offsets=[0, 20, 60])
    np.testing.assert_array_equal(one, many)
    np.testing.assert_array_equal(one[0], sample(scores[:20], 5, 500, seed=7)[0])
    assert np.any(one != sample(scores, 5, 500, seed=8, offsets=[0, 20, 60]))


def sampled_exposure_is_within_its_error(documents, size):
    scores = np.random.default_rng(1).normal(size=documents)
    weights = dcg_weights(5)
    drawn = sample(scores, 5, size, seed=2)[0]
    paid = np.broadcast_to(weights, drawn.shape).ravel()
    mean = np.bincount(drawn.ravel(), paid, minlength=documents) / size
    square = np.bincount(drawn.ravel(), paid**2, minlength=documents) / size
    omega = exposure(scores, weights, [0, documents])
    error = np.sqrt((square - mean**2) / size)
    seen = mean * size > 30
    assert np.abs((mean - omega)[seen] / error[seen]).max() < 5


def test_exposure_is_the_mean_of_samples():
    sampled_exposure_is_within_its_error(documents=200, size=50_000)


@pytest.mark.slow
def test_exposure_of_a_thousand_documents_is_the_mean_of_a_million_samples():
    sampled_exposure_is_within_its_error(documents=1000, size=1_000_000)


@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_log_probability_is_that_of_the_definition(spread):
    scores = spread * np.random.default_rng(0).normal(size=5)
    rankings = all_rankings(5)
    with np.errstate(divide="ignore"):
        expected = np.log(ranking_probabilities(scores, rankings))
    np.testing.assert_allclose(log_probability(rankings[None], scores)[0], expected, rtol=1e-12)


def test_log_probability_of_all_first_pairs_sums_to_one():
    scores = np.random.default_rng(0).normal(size=9)
    pairs = np.array([[i, j] for i in range(4, 9) for j in range(4, 9) if i != j])
    others = np.tile([0, 1], (len(pairs), 1))
    chances = np.exp(log_probability(np.stack([others, pairs]), scores, [0, 4, 9]))
    assert chances[1].sum() == pytest.approx(1, abs=1e-14)
    rates = np.exp(scores[:4])
    expected = rates[0] / rates.sum() * rates[1] / rates[1:].sum()
    np.testing.assert_allclose(chances[0], expected)


def test_log_probability_survives_any_spread():
    scores = np.array([0.0, 1000.0, -1000.0, 3.0])
    first = 0.0 - 1000.0  # document 0 against a field led by 1000
    second = -1000.0 - 1000.0  # then document 2
    got = log_probability([[[0, 2]]], scores)
    assert got[0, 0] == pytest.approx(first + second)
    got = log_probability([[[1, 3, 0, 2]]], scores)
    assert got[0, 0] == pytest.approx(-np.log1p(np.exp(-3.0)), rel=1e-12)


def test_documents_beyond_a_query_count_nothing():
    assert log_probability([[[0, -1, -1]]], [5.0])[0, 0] == 0
    assert log_probability(np.full((1, 4, 2), -1), []).tolist() == [[0.0] * 4]


def test_bad_input_is_told_in_one_sentence():
    with pytest.raises(InputError, match="`k` must be at least 1"):
        sample([0.0], 0, 1, seed=0)
    with pytest.raises(InputError, match="`size` must be at least 0"):
        sample([0.0], 1, -1, seed=0)
    with pytest.raises(InputError, match="`scores` must be finite"):
        sample([np.nan], 1, 1, seed=0)
    for rankings, rule in (
        ([[0, 1]], "of shape"),
        ([[[0, 2]]], "positions of the query"),
        ([[[-2, 0]]], "positions of the query"),
        ([[[-1, 0]]], "documents first"),
        ([[[1, 1]]], "without repeats"),
        ([[[0.5, 1]]], "whole numbers"),
        ([[[0, 1]]] * 2, "of 1 queries"),
    ):
        with pytest.raises(InputError, match=rule):
            log_probability(rankings, [0.0, 1.0])
