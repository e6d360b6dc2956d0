"""Ranks compared through documents with like features, against users whose curve is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from saferank._core.flat import Floats
from saferank.clicks import ClickModel, FittedBias, LikeDocuments, canonical, fit_position_bias
from saferank.clicks.bias.em import Cells
from saferank.clicks.bias.like_documents import FeatureOverlap, group_sums, place_groups, solve
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.errors import InputError
from saferank.learning import fit_bias

RANKS = 6
POSITION = ClickModel(np.arange(1, RANKS + 1) ** -0.7, np.zeros(RANKS))
TRUST = ClickModel(0.3 + 0.6 * np.arange(1, RANKS + 1) ** -0.7, 0.1 / np.arange(1, RANKS + 1))


def shop(users: ClickModel, *, tiers: bool = False, seed: int = 0) -> tuple[RankingData, Counts]:
    """Fixed lists of ten, each document at one rank; relevance is no linear function of features.

    Production knows relevance and adds its own taste, which is a feature too; with `tiers` one kind
    of documents always stands above the other.
    """
    rng = np.random.default_rng(seed)
    queries, size, sessions = 1200, 10, 15
    x = rng.normal(size=(queries * size, 4))
    logit = -1.0 + 1.5 * (np.abs(x[:, 0]) > 1) * np.sign(x[:, 1]) + 0.8 * x[:, 2] * (x[:, 3] > 0)
    score = logit + x[:, 3]
    if tiers:
        x[:, 3] = np.tile(np.arange(size) < RANKS // 2, queries) + 0.1 * x[:, 3]
        score = score + 100 * (x[:, 3] > 0.5)
    order = np.argsort(-score.reshape(queries, size), axis=1)[:, :RANKS]
    document = order + np.arange(queries)[:, None] * size
    shown = np.zeros((queries * size, RANKS), dtype=np.int64)
    shown[document, np.arange(RANKS)] = sessions
    clicks = rng.binomial(shown, np.outer(expit(logit), users.alpha) + users.beta)
    offsets = np.arange(queries + 1) * size
    return RankingData(x, offsets), Counts(offsets, shown, clicks * (shown > 0))


def off(fit: FittedBias, users: ClickModel) -> Floats:
    """How far slopes are off, as shares of the truth."""
    true = canonical(users).slope
    return np.abs(fit.canonical.slope / true - 1)


@pytest.mark.parametrize(("kind", "users"), [("position", POSITION), ("trust", TRUST)])
def test_trees_find_users_where_a_logistic_model_is_misled(kind: str, users: ClickModel) -> None:
    data, counts = shop(users)
    fit = fit_bias(counts, data, kind=kind)
    assert (fit.route, fit.method) == ("features", "matching")
    assert off(fit, users).max() < 0.1
    errors = (fit.canonical.slope - canonical(users).slope)[1:] / fit.slope_error[1:]
    assert np.abs(errors).max() < 3.5
    assert off(fit_bias(counts, data, kind=kind, method="em", folds=0), users).max() > 0.15
    said = " ".join(fit.sentences())
    assert "Features overlap across ranks" in said
    assert "trees, which beats linear" in said
    assert fit.to_dict()["identifiability"]["identified"]


@pytest.mark.parametrize("scorer", ["trees", "linear"])
def test_features_that_tell_ranks_apart_are_refused(scorer: str) -> None:
    data, counts = shop(POSITION, tiers=True)
    with pytest.raises(InputError, match=r"ranks 1 to 3 show other documents than ranks 4 to 6"):
        fit_bias(counts, data, kind="position", scorer=scorer)


def test_a_group_for_each_document_is_what_the_same_documents_say() -> None:
    """One document at two ranks: the ratio of its click rates, whatever is predicted of it."""
    cells = Cells(np.array([[40.0, 60.0]]), np.array([[20.0, 15.0]]), np.ones(1))
    for rate in (0.0, 0.3):
        sums = group_sums(cells, np.zeros(1, dtype=np.int64), np.array([rate]), None).whole()
        slope, _ = solve(sums, trust=False, reference=1)
        np.testing.assert_allclose(slope, [1.0, 0.5])


def test_either_groups_or_predictions_are_enough() -> None:
    """Expected clicks in place of clicks: exact if one of the two is right, by plain arithmetic."""
    rng = np.random.default_rng(1)
    kind = np.repeat([0, 1], 400)
    relevance = np.where(kind == 0, 0.6, 0.2)
    rank = np.where(rng.random(800) < np.where(kind == 0, 0.7, 0.3), 0, 1)
    shown = np.eye(2)[rank]
    curve = np.array([1.0, 0.4])
    cells = Cells(shown, shown * relevance[:, None] * curve, np.ones(800))
    for group, rate in (
        (kind, rng.random(800)),  # wrong predictions
        (np.zeros(800, dtype=np.int64), relevance),  # one group for all
    ):
        slope, _ = solve(group_sums(cells, group, rate, None).whole(), trust=False, reference=1)
        if rate is relevance:
            np.testing.assert_allclose(slope, curve, rtol=1e-12)
        else:
            assert abs(slope[1] - 0.4) < 0.05
    neither = group_sums(cells, np.zeros(800, dtype=np.int64), np.zeros(800), None).whole()
    assert solve(neither, trust=False, reference=1)[0][1] < 0.3


def test_groups_end_where_ranks_change_and_chance_makes_none() -> None:
    place = np.random.default_rng(2).permutation(5000).astype(np.float64)
    shown = np.zeros((5000, 3))
    shown[np.arange(5000), np.where(place < 1234, 0, 1)] = 1
    group = place_groups(place, shown)
    assert np.unique(group[place < 1234]).size == np.unique(group[place >= 1234]).size == 1
    assert np.unique(group).size == 2
    random = np.eye(3)[np.random.default_rng(3).integers(3, size=5000)]
    assert np.unique(place_groups(place, random)).size == 1


def test_overlap_is_one_for_the_same_documents_and_none_for_others() -> None:
    overlap = FeatureOverlap.of(np.array([[400.0, 100.0, 0.0], [400.0, 100.0, 0.0], [0, 0, 90.0]]))
    np.testing.assert_allclose(overlap.share[:2, :2], 1.0)
    np.testing.assert_allclose(overlap.worth[0, 1], 2 * 400 * 100 / 500)
    assert overlap.components() == [[1, 2], [3]]
    with pytest.raises(InputError, match="ranks 1 to 2 show other documents than rank 3"):
        overlap.check()


def test_predictions_of_other_documents_are_refused() -> None:
    counts = Counts([0, 2], [[9, 0], [0, 9]], [[3, 0], [0, 1]])
    with pytest.raises(InputError, match="like"):
        fit_position_bias(counts, like=LikeDocuments(np.zeros(3), np.zeros(3)))
    with pytest.raises(InputError, match="matching"):
        fit_position_bias(counts, method="matching")
