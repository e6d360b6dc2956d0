"""The study of rounds: sessions follow what is served, and promises hold where they are made."""

from __future__ import annotations

import math
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest

import saferank as sr
from saferank.experiments.online_learners import (
    _interleave,
    _log_chance,
    _log_rate,
    _preferences,
)
from saferank.experiments.rounds_figure import LOOKS, RoundsPlan, run_rounds, summarise
from saferank.experiments.rounds_study import HALF, METHODS, PROMISE, RoundMeasure, make_world
from saferank.policies.agreement import check_table
from saferank.rounds.promised import promise_after

GUARDED = (
    "DR, certified and guarded", "keep, certified and guarded",
    "DR, certified, guarded and explored",
)  # fmt: skip
"""Methods whose promise is against the first production."""


@pytest.fixture(scope="module")
def collection() -> sr.data.Collection:
    return sr.data.synthetic("small", queries=30, seed=1)


@pytest.mark.parametrize("users", ["trust", "cascade"])
def test_sessions_are_those_of_the_policy_and_the_users(
    collection: sr.data.Collection, users: str
) -> None:
    world = make_world(collection, users, sessions=20_000, rounds=2, seed=0)
    counts = world.simulate(world.production, 1).part("all")
    assert check_table(counts, world.production.rank_probabilities(5)).fits
    reference = sr.clicks.simulate(
        world.items, world.scores, world.users, sessions=200_000, seed=3, judge=0,
        highest_grade=collection.highest_grade,
    )  # fmt: skip
    ours, theirs = (
        own.clicks.sum(axis=0) / own.impressions.sum(axis=0) for own in (counts, reference)
    )
    np.testing.assert_allclose(ours, theirs, atol=0.02)


def test_relevance_drifts_half_way(collection: sr.data.Collection) -> None:
    world = make_world(collection, "drift", sessions=10, rounds=4, seed=0)
    before, after = world.truth(2), world.truth(3)
    np.testing.assert_array_equal(before, world.relevance)
    moved = np.add.reduceat(np.abs(before - after), world.items.offsets[:-1]) > 0
    assert 0.2 < moved.mean() < 0.8
    sums = [np.add.reduceat(own, world.items.offsets[:-1]) for own in (before, after)]
    np.testing.assert_allclose(sums[0], sums[1])


def test_with_the_promise_no_query_is_ever_below_it(
    collection: sr.data.Collection, tmp_path: Path
) -> None:
    del collection
    plan = RoundsPlan(
        "synthetic:small:30", seeds=1, rounds=3, sessions=3000, users=("trust", "adversarial"),
        methods=("DR", *GUARDED),
    )  # fmt: skip
    measures = run_rounds(plan, tmp_path)
    rows = {(row.users, row.method): row for row in summarise(measures)}
    for users, method in product(plan.users, GUARDED):
        guarded = rows[users, method]
        assert guarded.broken == guarded.below == 0
        assert guarded.worst >= PROMISE.keep - PROMISE.slack
    assert rows["trust", "DR, certified and guarded"].last > 1
    assert rows["adversarial", "DR"].worst < 0.8
    assert run_rounds(plan, tmp_path) == measures  # read again, not run again


def test_candidate_and_exploration_together_keep_the_promise() -> None:
    both = promise_after(HALF, 2, "last")
    assert both.keep >= PROMISE.keep
    assert both.slack <= PROMISE.slack


def test_the_skylines_level_is_told_where_it_was_reached() -> None:
    utilities = {0: (1.0, 1.3, 1.1), 1: (1.3, 1.0, 1.4), 2: (1.0, 1.1, 1.1)}
    measures = [
        RoundMeasure("DR", "trust", seed, number, utility, 1.2, 0, True)
        for seed, own in utilities.items()
        for number, utility in enumerate(own, start=1)
    ]
    (row,) = summarise(measures)
    assert (row.level, row.level_at) == (2, 1.5)


def test_every_method_has_a_line_of_its_own() -> None:
    assert set(LOOKS) == {*METHODS, "skyline"}
    assert len({colour for colour, _ in LOOKS.values()}) == len(LOOKS)


def log_chance(scores: np.ndarray, ranking: np.ndarray) -> float:
    return _log_chance(scores[ranking], _log_rate(scores, ranking))


def test_pdgd_prefers_what_was_clicked_and_weighs_pairs_fairly() -> None:
    scores, ranking = np.array([0.3, -0.2, 0.9, 0.0]), np.array([2, 0, 1])
    clicked = np.array([False, True, False])
    slope = _preferences(scores, ranking, clicked)
    assert slope[0] > 0
    assert slope[2] < 0
    assert slope[1] < 0
    assert slope.sum() == pytest.approx(0)
    chance = np.exp(log_chance(scores, ranking))
    left, by_hand = [0, 1, 2, 3], 1.0
    for document in ranking:
        by_hand *= np.exp(scores[document]) / np.exp(scores[left]).sum()
        left.remove(int(document))
    assert chance == pytest.approx(by_hand)


def test_chances_of_rankings_are_right_however_far_scores_spread() -> None:
    # behind a rate of e^40 those of e^0 and e^-1 decide the rest: by hand, -log(1 + e)
    scores = np.array([40.0, 0.0, -1.0])
    assert log_chance(scores, np.array([0, 2, 1])) == pytest.approx(-math.log(1 + math.e))
    everything = [log_chance(30 * scores, np.array(order)) for order in permutations(range(3))]
    assert np.logaddexp.reduce(everything) == pytest.approx(0, abs=1e-12)


def test_team_draft_interleaving_is_fair() -> None:
    rng = np.random.default_rng(0)
    one, other = np.array([0, 1, 2, 3]), np.array([3, 2, 1, 0])
    first = []
    for _ in range(400):
        ranking, team = _interleave(one, other, 3, rng)
        assert len(set(ranking.tolist())) == 3
        assert abs(int((team == 0).sum()) - int((team == 1).sum())) <= 1
        first.append(ranking[0])
    assert 0.4 < np.mean(np.array(first) == 0) < 0.6
