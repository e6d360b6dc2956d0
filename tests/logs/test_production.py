"""The check of a log against production's claimed scores."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare

from saferank.counts import Counts
from saferank.errors import InputError
from saferank.plackett_luce import rank_probabilities
from saferank.policies import check_production


def shown(scores: np.ndarray, offsets: np.ndarray, k: int, sessions: int, seed: int) -> Counts:
    """Sessions of a Plackett-Luce policy, drawn one by one by sorting perturbed scores."""
    rng = np.random.default_rng(seed)
    impressions = np.zeros((scores.size, k), dtype=np.int64)
    for first, last in itertools.pairwise(offsets):
        noisy = scores[first:last] + rng.gumbel(size=(sessions, last - first))
        order = np.argsort(-noisy, axis=1)[:, :k]
        for rank in range(order.shape[1]):
            np.add.at(impressions[:, rank], first + order[:, rank], 1)
    return Counts(offsets, impressions, np.zeros_like(impressions))


@pytest.fixture(scope="module")
def world() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(2, 12, 300))])
    return rng.normal(size=offsets[-1]), offsets


def test_the_true_scores_fit(world: tuple[np.ndarray, np.ndarray]) -> None:
    scores, offsets = world
    check = check_production(shown(scores, offsets, 4, 400, seed=0), scores)
    assert check.fits
    assert check.tested == 300
    assert check.rejected <= 12, "of 300 about 3 by chance, less by Bonferroni"
    assert np.mean(check.p_values < 0.2) < 0.25, "p-values are no smaller than they should be"
    assert check.mean_distance < 0.1
    assert check.impossible == 0
    assert "The log fits production's scores" in check.sentence()


def test_other_scores_do_not(world: tuple[np.ndarray, np.ndarray]) -> None:
    scores, offsets = world
    counts = shown(scores, offsets, 4, 400, seed=0)
    wrong = check_production(counts, scores[::-1])
    assert not wrong.fits
    assert wrong.rejected > 200
    assert "does not fit" in wrong.sentence()
    assert not check_production(counts, scores, temperature=2.0).fits


def test_temperature_divides_the_scores(world: tuple[np.ndarray, np.ndarray]) -> None:
    scores, offsets = world
    counts = shown(scores, offsets, 3, 300, seed=1)
    one, other = (
        check_production(counts, scores),
        check_production(counts, 7 * scores, temperature=7),
    )
    np.testing.assert_allclose(one.p_values, other.p_values, rtol=1e-6)


def test_a_query_equals_scipy() -> None:
    """One rank of one query is the textbook test."""
    scores = np.log([5.0, 3.0, 2.0])
    observed = np.array([[30], [40], [30]])
    check = check_production(Counts([0, 3], observed, 0 * observed), scores)
    assert check.p_values[0] == pytest.approx(chisquare([30, 40, 30], [50, 30, 20]).pvalue)
    assert check.distance[0] == pytest.approx(0.2)


def test_rare_documents_share_a_cell() -> None:
    scores = np.log([90.0, 4.0, 3.0, 3.0])
    observed = np.array([[80], [8], [6], [6]])
    check = check_production(Counts([0, 4], observed, 0 * observed), scores)
    assert check.p_values[0] == pytest.approx(chisquare([80, 20], [90, 10]).pvalue)


def test_very_rare_documents_have_a_test_of_their_own() -> None:
    """Expected 2 of 100, seen 12: the others are compared among themselves."""
    scores = np.log([50.0, 48.0, 2.0])
    observed = np.array([[44], [44], [12]])
    check = check_production(Counts([0, 3], observed, 0 * observed), scores)
    rare = binomtest(12, 100, 0.02, alternative="greater").pvalue
    others = chisquare([44, 44], [88 * 50 / 98, 88 * 48 / 98]).pvalue
    assert check.p_values[0] == pytest.approx(min(1, 2 * min(rare, others)))


def test_bonferroni_over_the_ranks_that_are_tested() -> None:
    scores, offsets = np.array([0.3, 0.0, -0.5]), np.array([0, 3])
    counts = shown(scores, offsets, 2, 200, seed=5)
    claimed = rank_probabilities(scores, 2, offsets) * 200
    each = [chisquare(counts.impressions[:, k], claimed[:, k]).pvalue for k in range(2)]
    assert check_production(counts, scores).p_values[0] == pytest.approx(min(1, 2 * min(each)))


def test_production_that_sorts() -> None:
    scores = np.arange(30.0) % 3
    offsets = np.arange(0, 31, 3)
    impressions = np.tile(100 * np.eye(3, dtype=np.int64)[::-1], (10, 1))
    check = check_production(Counts(offsets, impressions, 0 * impressions), scores)
    assert not check.fits
    assert check.one_list == 1
    assert "seems to sort rather than to draw" in check.sentence()


def test_the_impossible_is_told_even_when_rare() -> None:
    impressions = np.array([[1], [0]])
    check = check_production(Counts([0, 2], impressions, 0 * impressions), [-50.0, 0.0])
    assert check.tested == 0
    assert check.impossible == 1
    assert not check.fits


def test_nothing_to_test() -> None:
    check = check_production(Counts.zeros([0, 2, 3], 2), [0.0, 1.0, 0.0])
    assert check.fits is None
    assert np.isnan(check.mean_distance)
    assert "No query was shown often enough" in check.sentence()
    assert check.to_dict()["tested"] == 0


@pytest.mark.parametrize(("options", "name"), [({"temperature": 0.0}, "temperature"),
                                               ({"level": 1.0}, "level")])  # fmt: skip
def test_bad_options(options: dict[str, float], name: str) -> None:
    with pytest.raises(InputError, match=f"`{name}` must be"):
        check_production(Counts.zeros([0, 1], 1), [0.0], **options)
