"""Recorded propensities: believed where the log agrees with them, and no further."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from saferank.clicks import position_bias, simulate
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.errors import InputError
from saferank.plackett_luce import rank_probabilities
from saferank.policies import ProductionPolicy, choose_production

QUERIES, SIZE, RANKS = 30, 6, 3
OFFSETS = np.arange(0, QUERIES * SIZE + 1, SIZE)


def world(seed=0, sessions=30_000):
    """A log that production drew, and its true propensities."""
    rng = np.random.default_rng(seed)
    documents = QUERIES * SIZE
    items = RankingData(
        rng.normal(size=(documents, 1)), OFFSETS, labels=rng.integers(0, 5, documents)
    )
    scores = rng.normal(size=documents)
    counts = simulate(items, scores, position_bias(RANKS), sessions=sessions, seed=seed)
    return counts.part("all"), rank_probabilities(scores, RANKS, OFFSETS)


def test_true_propensities_are_believed_in_nearly_all_worlds():
    kinds = []
    for seed in range(40):
        counts, chance = world(seed)
        kinds.append(choose_production(replace(counts, propensity=chance))[1].kind)
    assert kinds.count("recorded") >= 38


def test_the_policy_is_what_was_recorded():
    counts, chance = world()
    policy, fit = choose_production(replace(counts, propensity=chance))
    assert (fit.kind, fit.fits) == ("recorded", True)
    np.testing.assert_allclose(policy.rank_probabilities(RANKS), chance)
    assert policy.exact
    np.testing.assert_array_equal(policy.shortfall(np.ones(RANKS), 0.05), 0)


@pytest.mark.parametrize(
    "wrong", ["shuffled", "flattened", "examination", "too large", "too small"]
)
def test_wrong_propensities_are_found_and_the_log_is_taken_instead(wrong):
    counts, chance = world()
    recorded = {
        "shuffled": np.random.default_rng(0).permuted(chance.reshape(QUERIES, SIZE, RANKS), axis=1),
        "flattened": 0.8 * chance + 0.2 / SIZE,
        "examination": np.broadcast_to(1 / np.arange(1, RANKS + 1), chance.shape),
        "too large": np.minimum(1.2 * chance, 1),
        "too small": 0.8 * chance,
    }[wrong].reshape(chance.shape)
    told = replace(counts, propensity=recorded)
    policy, fit = choose_production(told)
    assert policy.kind == "observed"
    assert "not shown to fit" in fit.sentence
    insisted = choose_production(told, kind="recorded")[1]
    assert (insisted.kind, insisted.fits, insisted.asked_for) == ("recorded", False, True)


@pytest.mark.parametrize("sessions", [28, 60])
def test_propensities_of_another_policy_are_found_where_each_cell_was_seen_a_few_times(sessions):
    """Those of a random order, in a log that a score made: no cell was seen ten times."""
    found = []
    for seed in range(10):
        counts, chance = world(seed, sessions=sessions * QUERIES)
        even = np.where(counts.impressions > 0, 1 / SIZE, 0)
        found.append(choose_production(replace(counts, propensity=even))[0].kind)
        right = np.where(counts.impressions > 0, chance, 0)
        _, fit = choose_production(replace(counts, propensity=right))
        assert "not shown as often" not in fit.sentence
    assert "recorded" not in found


def test_of_queries_seen_once_propensities_of_what_was_shown_tell_too_little():
    counts, chance = world(sessions=QUERIES)
    seen = np.where(counts.impressions > 0, chance, 0)
    policy, fit = choose_production(replace(counts, propensity=seen))
    assert policy.kind != "recorded"
    assert "of what production may show" in fit.sentence


def test_what_was_never_shown_widens_the_certificate_and_no_exposure_is_made_up():
    chance = np.array([[0.6, 0.3], [0.35, 0.6], [0.0, 0.08]])
    policy = ProductionPolicy.recorded(chance, [0, 3])
    assert not policy.exact
    np.testing.assert_allclose(policy.shortfall(np.array([1.0, 0.5]), 0.05), 0.05 + 0.5 * 0.02)
    alone = ProductionPolicy.recorded([[1.0, 0.0]], [0, 1])
    assert alone.exact, "a query of one document shows nothing at rank 2"


def test_without_propensities_recorded_is_refused_with_what_to_do():
    with pytest.raises(InputError, match="--column propensity=NAME"):
        choose_production(Counts([0, 2], [[3, 1], [1, 3]], [[1, 0], [0, 1]]), kind="recorded")


def test_what_was_never_shown_has_its_share_of_a_rank():
    """A rank's propensities are recorded of what it showed: they add up to less than 1."""
    rng = np.random.default_rng(5)
    seldom, documents, sessions = 0.0004, 30, 1000
    offsets = np.arange(101) * documents
    own = np.full((100, documents), seldom)
    own[:, 0] = 1 - seldom * (documents - 1)
    shown = np.array([rng.multinomial(sessions, chance) for chance in own]).reshape(-1, 1)
    recorded = np.where(shown > 0, own.reshape(-1, 1), 0.0)
    counts = Counts(offsets, shown, np.zeros_like(shown), propensity=recorded)
    assert choose_production(counts, kind="recorded")[1].fits
