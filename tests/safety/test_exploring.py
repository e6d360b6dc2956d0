"""Exploring: the promise for any production, exact propensities, and what is gained."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saferank.clicks import ClickModel
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.errors import InputError
from saferank.policies import ProductionPolicy
from saferank.safety import Promise
from saferank.safety.examination import Examination
from saferank.safety.exploring import Aim, ExplorationPlan, Explorer, Moves, explore
from saferank.safety.exploring.assumed_clicks import relevance_by_counts
from saferank.safety.exploring.best_moves import Room, _Curve, best_moves
from saferank.safety.exploring.plan import FILE

QUERIES, SIZE, K = 12, 8, 5


def shop(seed=0):
    """Items of a production that sorts."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=QUERIES * SIZE)
    offsets = np.arange(QUERIES + 1) * SIZE
    return RankingData(rng.normal(size=(QUERIES * SIZE, 2)), offsets, production=scores)


def fixed_lists(data, sessions=500, seed=0):
    """Counts of a log that always shows the same lists."""
    rng = np.random.default_rng(seed)
    shown = ProductionPolicy.sorted(data.production, data.offsets).rank_probabilities(K)
    shown = (sessions * shown).astype(np.int64)
    rate = rng.random((data.documents, 1)) / np.arange(1, K + 1)
    return Counts(data.offsets, shown, rng.binomial(shown, rate))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10**6), st.floats(0.3, 1.0), st.floats(0.0, 0.1), st.integers(2, 5),
    st.integers(0, 3), st.booleans(),
)  # fmt: skip
def test_whatever_production_does_no_relevance_breaks_the_promise(
    seed, keep, slack, k, more, every
):
    rng = np.random.default_rng(seed)
    weights = np.sort(rng.random(k) + 0.05)[::-1]
    looking, promise = Examination.of("any" if every else weights, weights), Promise(keep, slack)
    room = Room.of(looking, promise, k + more)
    moves = room.moves(room.largest(rng.random(room.pairs()[0].size)))
    assert moves.losses(looking, promise)[2] <= 0
    size = int(rng.integers(1, k + more + 3))  # also lists shorter than the moves
    places = min(size, moves.places)
    lists = np.array([rng.permutation(size)[:places] for _ in range(3)])
    table0 = np.zeros((size, places))
    for share, ranking in zip(rng.dirichlet(np.ones(3)), lists, strict=True):
        table0[ranking, np.arange(places)] += share
    table = moves.table(table0, np.full(size, size))
    shown = min(k, size)
    np.testing.assert_allclose(table[:, :shown].sum(axis=0), 1)
    assert table.sum(axis=1).max() <= 1 + 1e-9
    if every:
        weights = np.sort(rng.random(k))[::-1]
    total = weights[:shown].sum()
    before = table0[:, :shown] @ weights[:shown]
    after = table[:, :shown] @ weights[:shown]
    for relevance in (rng.random(size), rng.random(size) < 0.5, keep * before > after):
        assert relevance @ after >= keep * (relevance @ before) - slack * total - 1e-8


def test_the_derivative_of_the_mean_variance_is_that_of_finite_differences():
    rng = np.random.default_rng(1)
    room = Room.of(Examination.of("any", np.ones(4)), Promise(0.8, 0.02), 6)
    curve = _Curve(room, rng.random(6), np.array([1.0, 0.6, 0.4, 0.3]))
    swaps = 0.5 * room.largest(rng.random(room.pairs()[0].size) + 0.1)
    slope, step = curve.slope(swaps), 1e-6
    for index in range(swaps.size):
        ahead, behind = swaps.copy(), swaps.copy()
        ahead[index] += step
        behind[index] -= step
        by_hand = (curve.value(ahead) - curve.value(behind)) / (2 * step)
        np.testing.assert_allclose(slope[index], by_hand, rtol=1e-4, atol=1e-6 * abs(slope).max())


def test_no_moves_within_the_promise_are_much_better_than_the_best():
    rng = np.random.default_rng(2)
    room = Room.of(Examination.of("any", np.ones(4)), Promise(0.9, 0.0), 4)
    curve = _Curve(room, np.ones(4), 1 / np.arange(1.0, 5))
    moves, gap = best_moves(room, curve.mass, curve.alpha)
    best = curve.value(moves.matrix[room.pairs()])
    assert gap < 0.02
    for _ in range(300):
        other = room.largest(rng.random(6) ** rng.choice([0.3, 1, 4]))
        assert curve.value(other) >= best * (1 - 0.06)  # the gap, and the share for every swap


def test_rankings_are_drawn_with_the_propensities_that_are_logged():
    data = shop().subset([0])
    explorer = plan_of(data=data, sessions=1000).policy(None)
    assert isinstance(explorer, Explorer)
    sessions = 6000
    seen = np.zeros((SIZE, K))
    for session in range(sessions):
        ranking = explorer.rank(data, K, session)[0]
        assert len(set(ranking.tolist())) == K
        seen[ranking, np.arange(K)] += 1
    said = explorer.propensities(data)
    error = np.sqrt(np.maximum(said * (1 - said) * sessions, 1))
    assert np.abs((seen - said * sessions) / error).max() < 4.5
    np.testing.assert_array_equal(explorer.rank(data, K, "a"), explorer.rank(data, K, "a"))


def plan_of(data=None, sessions=50_000, **options):
    data = shop() if data is None else data
    return explore(data, k=K, sessions=sessions, **{"aim": Aim("position"), **options})


def test_the_best_moves_need_fewer_sessions_than_uniform_rankings_at_the_same_cost():
    data = shop()
    plan = plan_of(data, counts=fixed_lists(data))
    ways = {one.name: one for one in plan.outlooks}
    assert set(ways) == {"production", "moves", "shuffle", "neighbours", "temperature",
                         "optimistic", "uniform"}  # fmt: skip
    assert plan.chosen == "moves"
    assert all(one.keeps for one in ways.values())
    assert ways["moves"].largest_loss <= ways["uniform"].largest_loss + 1e-9
    assert ways["moves"].worst("position") < ways["uniform"].worst("position")
    assert ways["production"].worst("position") == np.inf
    assert ways["production"].sessions_needed is None


def test_where_more_documents_matter_they_are_shown():
    plan = plan_of(aim=Aim("position", depth=SIZE, coverage=0.5))
    ways = {one.name: one for one in plan.outlooks}
    assert ways[plan.chosen].never_shown == 0
    assert ways["coverage"].coverage > ways["moves"].coverage > 0
    most = 5 * 0.11 / 3 * 50_000 / QUERIES  # K places give up 0.11 each to three documents
    np.testing.assert_allclose(ways["coverage"].coverage, most, rtol=1e-6)
    assert ways["moves"].coverage >= 0.5 * most - 1e-6


@pytest.mark.parametrize("way", ["moves", "optimistic", "temperature", "uniform", "production"])
def test_a_saved_plan_serves_the_same(way, tmp_path):
    data = shop()
    plan = plan_of(data, counts=fixed_lists(data), choose=way)
    plan.save(tmp_path / "plan")
    again = ExplorationPlan.load(tmp_path / "plan")
    first, second = (one.policy(None, data) for one in (plan, again))
    np.testing.assert_allclose(first.propensities(data), second.propensities(data), atol=1e-12)
    assert again.to_dict() == plan.to_dict()
    table = first.propensities(data)
    np.testing.assert_allclose(table.reshape(QUERIES, SIZE, K).sum(axis=1), 1)


@pytest.mark.parametrize(
    "change",
    [
        {"moves": [[2.0]]}, {"moves": [[0.5, 0.4], [0.4, 0.5]]}, {"moves": None}, {"weights": []},
        {"chosen": "nothing"}, {"format": 2}, {"sessions": "many"}, {"moves": [[1.0], [1.0, 0]]},
    ],
)  # fmt: skip
def test_a_plan_that_was_tampered_with_is_refused(change, tmp_path):
    plan_of().save(tmp_path / "plan")
    place = tmp_path / "plan" / FILE
    place.write_text(json.dumps({**json.loads(place.read_text()), **change}))
    with pytest.raises(InputError):
        ExplorationPlan.load(tmp_path / "plan")


def test_relevance_by_counts_has_the_mean_and_the_spread_of_the_truth():
    rng = np.random.default_rng(0)
    documents, shown = 4000, 60
    model = ClickModel([0.5], [0.1])
    truth = rng.beta(2, 6, documents)
    clicks = rng.binomial(shown, model.probability(truth)[:, 0])
    counts = Counts([0, documents], np.full((documents, 1), shown), clicks[:, None],
                    sessions=[documents * shown])  # fmt: skip
    taken = relevance_by_counts(counts, model, np.zeros(documents, dtype=np.int64))
    np.testing.assert_allclose([taken.mean(), taken.std()], [truth.mean(), truth.std()], rtol=0.05)


def test_what_cannot_be_explored_is_refused():
    data = shop()
    with pytest.raises(InputError, match="sorted or sampled"):
        explore(data, ProductionPolicy.uniform(data.offsets), k=K, sessions=10)
    with pytest.raises(InputError, match="one of production, moves"):
        plan_of(choose="magic")
    with pytest.raises(InputError, match="no production_score"):
        explore(RankingData(np.zeros((2, 1)), [0, 2]), k=2, sessions=10)
    with pytest.raises(InputError, match="symmetric"):
        Moves(np.array([[0.5, 0.5], [0.4, 0.6]]), 2)
