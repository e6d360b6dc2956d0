"""Floors for groups: kept on every random query, and near the optimum by a linear programme."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from saferank.data import RankingData
from saferank.data.groups import Groups
from saferank.errors import InputError
from saferank.plackett_luce import exposure
from saferank.policies.production import chances_of_lists, total_weights
from saferank.safety import Guard, Promise, certify
from saferank.safety.decomposition import decomposed_tables
from saferank.safety.examination import Examination
from saferank.safety.floor_transfers import Claims, transfer_to_floors
from saferank.safety.floored_policy import best_with_floors
from saferank.safety.guarded import GuardRule

WEIGHTS = np.array([1.0, 0.7, 0.5, 0.4, 0.35])


def random_world(queries, seed, most=9):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, most, queries)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    new, old = (s * rng.normal(size=offsets[-1]) for s in rng.choice([0.3, 1.0, 4.0], 2))
    return offsets, new, old, rng.integers(0, 4, offsets[-1])


def broken(omega, omega0, offsets, groups, promise):
    """How many (query, group) fall below their floors, by plain sums, and of how many."""
    query = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    key = query * 10 + groups
    new, old = (np.bincount(key, values) for values in (omega, omega0))
    total = np.repeat(np.bincount(query, omega0, minlength=offsets.size - 1), 10)[: old.size]
    floor = np.maximum(promise.floor * old, np.minimum(promise.floor_of_all * total, old))
    return int((new < floor - 1e-8).sum()), int((old > 0).sum())


PROMISES = [
    Promise(0.5, 0.02, floor=0.9),
    Promise(0.0, 1.0, floor=0.5),
    Promise(0.8, 0.01, floor_of_all=0.1),
    Promise(0.3, 0.0, floor=0.3, floor_of_all=0.05),
]


@pytest.mark.parametrize("promise", PROMISES, ids=str)
@pytest.mark.parametrize("mode", ["best", "mix"])
@pytest.mark.parametrize("looking", ["fitted", "any"])
def test_floors_and_promise_are_kept_on_random_queries(promise, mode, looking):
    """400 queries for each of 16 cases; 10^5 in test_floors_are_kept_on_many_queries."""
    check_floors(promise, mode, looking, queries=400, seed=3)


def check_floors(promise, mode, looking, queries, seed):
    offsets, new, old, groups = random_world(queries, seed)
    examination = Examination.of(looking, WEIGHTS)
    rule = GuardRule(promise, examination, mode)
    after, before = (chances_of_lists(s, 5, offsets, in_order=False) for s in (new, old))
    served = rule.serve(after, before, offsets, groups=groups)
    for view in [WEIGHTS] if looking == "fitted" else np.tri(5):
        omega, omega0 = served.table @ view, before @ view
        assert broken(omega, omega0, offsets, groups, promise)[0] == 0
        loss = np.add.reduceat(np.maximum(0, promise.keep * omega0 - omega), offsets[:-1])
        total = total_weights(offsets, view)
        assert (loss <= promise.slack * total + 1e-8).all()
    unguarded = broken(after @ WEIGHTS, before @ WEIGHTS, offsets, groups, promise)
    assert unguarded[0] > 0  # there was something to keep


RANK_WEIGHTS = {
    "falling": WEIGHTS,
    "rising": WEIGHTS[::-1],
    "in no order": np.array([0.5, 1.0, 0.2, 0.7, 0.7]),
    "with plateaus": np.array([1.0, 1.0, 1.0, 0.5, 0.5]),
    "with zeros": np.array([1.0, 0.0, 0.5, 0.0, 0.0]),
    "of tiny ones": np.array([1e-12, 1.0, 1e-6, 1e-12, 1e-9]),
}


def count_misplaced(promise, weights, queries, seed):
    """Queries whose mixture of rankings has other exposures than were planned."""
    offsets, new, old, groups = random_world(queries, seed)
    gains, omega0 = (exposure(scores, weights, offsets) for scores in (new, old))
    rule = GuardRule(promise, Examination.of("fitted", weights), "best")
    planned = rule.best(gains, omega0, offsets, groups)
    served = decomposed_tables(planned, gains, offsets, weights) @ weights
    off_by = np.maximum.reduceat(np.abs(served - planned), offsets[:-1])
    return int((off_by > 1e-9 * weights.max()).sum())


@pytest.mark.parametrize("promise", PROMISES, ids=str)
@pytest.mark.parametrize("weights", RANK_WEIGHTS.values(), ids=RANK_WEIGHTS)
def test_what_is_served_has_the_planned_exposures(weights, promise):
    assert count_misplaced(promise, weights, queries=1000, seed=5) == 0


@pytest.mark.slow
@pytest.mark.parametrize("weights", RANK_WEIGHTS.values(), ids=RANK_WEIGHTS)
def test_what_is_served_has_the_planned_exposures_on_many_queries(weights):
    """0 of 10^5 queries differ, with the promise that asks for most hand-overs."""
    assert count_misplaced(PROMISES[0], weights, queries=100_000, seed=10) == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_floors_are_kept_on_many_queries(seed):
    """0 of 10^5 queries fall below a floor, with each of two promises."""
    check_floors(PROMISES[seed], "best", "fitted", queries=100_000, seed=10 + seed)


def optimum(gains, omega0, groups, weights, promise, allowed):
    """The best distribution over all rankings, by a linear programme."""
    size = gains.size
    orders = np.array(list(permutations(range(size))))
    shown = np.zeros((len(orders), size))
    for rank in range(min(size, weights.size)):
        shown[np.arange(len(orders)), orders[:, rank]] = weights[rank]
    costs = np.concatenate([-shown @ gains, np.zeros(size)])
    lacks = np.hstack([-shown.T, -np.eye(size)])
    rows, limits = [*lacks], [*(-promise.keep * omega0)]
    rows.append(np.concatenate([np.zeros(len(orders)), np.ones(size)]))
    limits.append(allowed)
    total = omega0.sum()
    for group in np.unique(groups):
        own = (groups == group).astype(float)
        floor = max(promise.floor * own @ omega0, min(promise.floor_of_all * total, own @ omega0))
        rows.append(np.concatenate([-shown @ own, np.zeros(size)]))
        limits.append(-floor)
    best = linprog(
        costs, A_ub=rows, b_ub=limits, A_eq=[[1.0] * len(orders) + [0.0] * size], b_eq=[1.0]
    )
    return -best.fun


FLOORS = {
    "a share of its own": lambda rng: {"floor": float(rng.uniform(0.5, 1))},
    "all of its own": lambda _: {"floor": 1.0},
    "a share of all": lambda rng: {"floor_of_all": float(rng.uniform(0.05, 0.3))},
}


def gaps(floor, first=100, count=60):
    """Share of the optimum's gain over production that is left behind, of random small queries."""
    left = []
    for seed in range(first, first + count):
        rng = np.random.default_rng(seed)
        size = int(rng.integers(3, 6))
        groups, gains = rng.integers(0, 3, size), rng.normal(size=size)
        cuts, weights = np.array([0, size]), WEIGHTS[:size]
        omega0 = exposure(2 * rng.normal(size=size), weights, cuts)
        promise = Promise(float(rng.choice([0.0, 0.5, 0.8])), 0.05, **floor(rng))
        allowed = promise.slack * weights.sum()
        omega = best_with_floors(gains, omega0, cuts, groups, weights, promise, np.array([allowed]))
        assert broken(omega, omega0, cuts, groups, promise)[0] == 0
        assert np.maximum(0, promise.keep * omega0 - omega).sum() <= allowed + 1e-8
        most = optimum(gains, omega0, groups, weights, promise, allowed) - gains @ omega0
        gained = gains @ omega - gains @ omega0
        assert gained <= most + 1e-7
        if most > 1e-3:
            left.append(1 - gained / most)
    return np.array(left)


@pytest.mark.parametrize("floor", FLOORS.values(), ids=FLOORS)
def test_little_of_the_best_gain_is_left_behind(floor):
    lost = gaps(floor)
    assert np.median(lost) < 0.002
    assert lost.mean() < 0.03
    assert (lost > 0.5).mean() < 0.03  # hardly a query is left with production


@given(
    st.integers(1, 8).flatmap(
        lambda size: st.tuples(
            st.permutations([1.0, 0.7, 0.5, 0.4, 0.35, 0.0, 0.0, 0.0][:size]),
            *(st.lists(values, min_size=size, max_size=size) for values in (
                st.integers(0, 2), st.floats(-1, 1), st.floats(0, 1), st.floats(0, 1),
            )),
        )
    ),
    st.floats(0, 0.5),
)  # fmt: skip
def test_handing_over_keeps_what_is_to_be_kept(world, allowed):
    ranking, groups, gains, least, floors = map(np.array, world)
    unit = np.unique(groups, return_inverse=True)[1]
    exposed = np.bincount(unit, ranking).astype(np.float64)
    floor = floors[: exposed.size] * exposed.sum() / exposed.size
    lost = np.maximum(0, least - ranking).sum()
    left = max(0.0, allowed - lost)
    claims = Claims(gains, least, unit, floor, np.sort(ranking)[::-1].copy())
    moved = transfer_to_floors(
        ranking, np.array([0, ranking.size]), claims, exposed, np.array([left])
    )
    assert moved.sum() == pytest.approx(ranking.sum())
    # majorised by the weights: some rankings give it
    assert (np.cumsum(np.sort(moved)[::-1]) <= np.cumsum(np.sort(ranking)[::-1]) + 1e-9).all()
    now = np.bincount(unit, moved)
    assert (now >= np.minimum(exposed, floor) - 1e-9).all()
    assert np.maximum(0, least - moved).sum() <= max(allowed, lost) + 1e-9


def test_the_certificate_counts_floors():
    items = RankingData(np.eye(4), [0, 4], groups=Groups.of(["a", "a", "b", "b"], "brand"))
    new, old = [0.0, 0.0, 3.0, 3.0], [1.0, 1.0, 0.0, 0.0]
    loose = Promise(0.0, 1.0)
    assert certify(new, items, production=old, promise=loose).holds
    certificate = certify(new, items, production=old, promise=Promise(0.0, 1.0, floor=0.9))
    assert not certificate.holds
    facts = certificate.floors
    omega, omega0 = (exposure(s, certificate.weights, [0, 4]) for s in (new, old))
    assert facts.lowest == pytest.approx(omega[:2].sum() / omega0[:2].sum())
    assert (facts.worst_group, facts.column) == ("a", "brand")
    assert facts.guarded_lowest == pytest.approx(0.9, abs=1e-6)
    assert facts.guarded_missing == pytest.approx(0, abs=1e-8)
    assert certify(old, items, production=old, promise=Promise(0.0, 1.0, floor=0.9)).holds


def test_a_guard_serves_what_keeps_the_floors():
    rng = np.random.default_rng(0)
    items = RankingData(
        np.eye(6), [0, 6], query_ids=np.array(["q"]), groups=Groups.of(["a", "b"] * 3, "brand")
    )
    new, old = 2 * rng.normal(size=(2, 6))
    for mode in ("best", "mix"):
        promise = Promise(0.5, 0.02, floor=0.95)
        guard = Guard(new, old, promise, mode=mode, weights=WEIGHTS)
        omega, omega0 = guard.exposure(items), exposure(old, WEIGHTS, [0, 6])
        assert broken(omega, omega0, items.offsets, items.groups.codes, promise)[0] == 0
        for session in range(40):
            ranking = guard.rank(items, 5, session)[0]
            alone = guard.rank_query(new, old, 5, session, "q", items.groups.codes)
            assert ranking.tolist() == alone.tolist()
        served = guard.serve_query(new, old, 5, 1, "q", items.groups.codes)
        table = guard.propensities(items)
        assert served.propensities == pytest.approx(table[served.positions, np.arange(5)])


def test_a_floor_needs_groups():
    items = RankingData(np.eye(2), [0, 2])
    with pytest.raises(InputError, match="`group` must be given with a floor"):
        certify([0.0, 1.0], items, production=[1.0, 0.0], promise=Promise(floor=0.5))
    with pytest.raises(InputError, match=r"`floor` must be in \[0, 1\]"):
        Promise(floor=2.0)


def test_where_production_is_known_by_its_log_alone_the_constant_share_keeps_floors():
    rule = GuardRule(Promise(0.5, 0.1, floor=0.9), Examination.of("fitted", WEIGHTS), "constant")
    assert rule.least_share == pytest.approx(0.1)
    of_all = GuardRule(Promise(0.5, 0.1, floor_of_all=0.1), rule.examination, "constant")
    assert of_all.least_share == 0
