"""Fairness terms: plain loops, finite differences, and what learning with them does."""

from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from saferank._core.flat import gather
from saferank.clicks import simulate, trust_bias
from saferank.data import RankingData, synthetic
from saferank.data.groups import Groups
from saferank.errors import InputError
from saferank.learning import Settings, learn
from saferank.objectives import OBJECTIVES, Context, Terms
from saferank.objectives.fair_goals import Fairness, units_of
from saferank.objectives.fairness import TERMS, Units, disparity, ideal_exposure
from saferank.objectives.goals import QueryBlock
from saferank.objectives.in_exposures import Queries
from saferank.plackett_luce import exposure
from saferank.testing import check_objective

USERS = trust_bias()
WEIGHTS = USERS.exposure_weights
OFFSETS = np.array([0, 6, 7, 15])
RNG = np.random.default_rng(7)
GAIN, MERIT, PRODUCTION = RNG.normal(size=15), RNG.random(15), RNG.normal(size=15)
GROUPS = RNG.integers(0, 3, 15)
SHARE = np.array([0.5, 0.2, 0.3])
PLACE = QueryBlock(np.arange(3), slice(0, 15), OFFSETS)


def goal_of(term, over="queries", groups=None, base="prpo", weight=0.7):
    omega0 = exposure(PRODUCTION, WEIGHTS, OFFSETS)
    context = Context(1000, 0.5, WEIGHTS, USERS, 3.0)
    objective = Fairness(term, weight, over).on(OBJECTIVES[base].build)(context)
    terms = Terms(GAIN, omega0, np.full(15, WEIGHTS.sum()))
    return objective.on(
        Queries(OFFSETS, terms, WEIGHTS, SHARE, PRODUCTION, merit=MERIT, groups=groups, samples=30)
    )


def value(goal, scores):
    judged = goal.value_and_gradient(scores, PLACE, None)
    return goal.value(float(judged.reward.sum()), judged.risk.sum(axis=0))


def plain_term(name, exposed, merit, size, ideal):
    total, units = sum(ideal), range(len(exposed))
    if name == "disparity":
        pairs = [(exposed[u] * merit[v] - exposed[v] * merit[u]) ** 2
                 for u in units for v in units if u != v]  # fmt: skip
        return sum(pairs) / len(pairs) if pairs else 0.0
    target = {"parity": size, "treatment": merit, "expected-exposure": ideal}[name]
    wanted = [total * t / sum(target) for t in target]
    return sum((e - w) ** 2 for e, w in zip(exposed, wanted, strict=True)) / total**2


CASES = [("queries", None), ("queries", GROUPS), ("traffic", GROUPS), ("traffic", 2 * GROUPS + 1)]
IDS = ["documents", "groups", "traffic", "traffic without some groups"]


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize(("over", "groups"), CASES, ids=IDS)
def test_the_term_is_that_of_plain_loops(term, over, groups):
    scores = RNG.normal(size=15)
    omega, ideal = exposure(scores, WEIGHTS, OFFSETS), ideal_exposure(MERIT, WEIGHTS, OFFSETS)
    expected = 0.0
    sums: dict[Any, Any] = {}
    for query, share in enumerate(SHARE):
        units = sums if over == "traffic" else {}
        for d in range(OFFSETS[query], OFFSETS[query + 1]):
            visits = share if over == "traffic" else 1.0
            unit = units.setdefault(d if groups is None else groups[d], np.zeros(4))
            unit += visits * np.array([omega[d], MERIT[d], 1.0, ideal[d]])
        if over == "queries":
            expected += share * plain_term(term, *np.array(list(units.values())).T)
    if over == "traffic":
        expected = plain_term(term, *np.array(list(sums.values())).T)
    with_it, without = goal_of(term, over, groups), goal_of(term, over, groups, weight=0.0)
    assert value(without, scores) - value(with_it, scores) == pytest.approx(0.7 * expected)
    assert expected > 1e-4


@pytest.mark.parametrize("base", ["utility", "prpo", "keep", "safe-dr", "ppo"])
@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize(("over", "groups"), CASES, ids=IDS)
def test_slopes_are_those_of_finite_differences(base, term, over, groups):
    goal, scores = goal_of(term, over, groups, base, weight=3.0), PRODUCTION + RNG.normal(size=15)
    direction, step = RNG.normal(size=15), 1e-5
    rise = value(goal, scores + step * direction) - value(goal, scores - step * direction)
    slope = goal.value_and_gradient(scores, PLACE, None).gradient @ direction
    assert slope == pytest.approx(rise / (2 * step), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(("over", "groups"), CASES, ids=IDS)
def test_batches_add_up_to_the_whole(over, groups):
    goal, scores = goal_of("treatment", over, groups), RNG.normal(size=15)
    whole = goal.value_and_gradient(scores, PLACE, None)
    risk = whole.risk.sum(axis=0)
    for queries in (np.array([2, 0]), np.array([1])):
        positions, offsets = gather(OFFSETS, queries)
        block = QueryBlock(queries, positions, offsets)
        part = goal.value_and_gradient(scores[positions], block, risk)
        assert part.reward == pytest.approx(whole.reward[queries])
        assert part.risk == pytest.approx(whole.risk[queries])
        assert part.gradient == pytest.approx(whole.gradient[positions], abs=1e-12)


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("over", ["queries", "traffic"])
@pytest.mark.parametrize("base", ["prpo", "safe-dr", "lambda-prpo"])
def test_every_fair_objective_keeps_the_contract(term, over, base):
    build = Fairness(term, 0.5, over).on(OBJECTIVES[base].build)
    if base == "lambda-prpo":  # pushes are no slope; they are finite
        omega0 = exposure(PRODUCTION, WEIGHTS, OFFSETS)
        terms = Terms(GAIN, omega0, np.ones(15))
        queries = Queries(OFFSETS, terms, WEIGHTS, SHARE, PRODUCTION, groups=GROUPS)
        judged = build(Context(9, 0.5, WEIGHTS, USERS)).on(queries).value_and_gradient(
            PRODUCTION, PLACE, None
        )  # fmt: skip
        assert np.isfinite(judged.gradient).all()
        assert (judged.curvature >= 0).all()
    else:
        check_objective(build)


def test_the_ideal_is_the_mean_over_all_orders_that_sort_by_merit():
    merit = np.array([0.5, 1.0, 0.5, 0.0, 0.5])
    orders = [o for o in permutations(range(5)) if (np.diff(merit[list(o)]) <= 0).all()]
    wanted = np.zeros(5)
    for order in orders:
        wanted[list(order[:3])] += WEIGHTS[:3] / len(orders)
    assert ideal_exposure(merit, WEIGHTS[:3], np.array([0, 5])) == pytest.approx(wanted)
    assert ideal_exposure(np.zeros(0), WEIGHTS, np.array([0, 0])).size == 0


def test_exposure_as_merit_has_no_disparity():
    units = Units(MERIT, np.ones(15), np.ones(15), OFFSETS)
    assert disparity(3 * MERIT, units).value == pytest.approx(np.zeros(3), abs=1e-12)
    assert disparity(3 * MERIT, units).slope == pytest.approx(np.zeros(15), abs=1e-12)


def test_units_of_groups_are_numbered_query_by_query():
    unit, cuts = units_of(np.array([1, 1, 0, 2]), np.array([0, 2, 2, 4]))
    assert unit.tolist() == [0, 0, 1, 2]
    assert cuts.tolist() == [0, 1, 1, 3]


def test_bad_fairness_is_one_sentence():
    with pytest.raises(InputError, match="`fairness` must be one of disparity"):
        Fairness("nice", 0.1)
    with pytest.raises(InputError, match="`fairness_weight` must be finite and at least 0"):
        Fairness("parity", -1.0)
    with pytest.raises(InputError, match="`group` must be given: over traffic"):
        goal_of("parity", "traffic", None)


@pytest.mark.parametrize("scorer", ["linear", "trees"])
@pytest.mark.parametrize("over", ["queries", "traffic"])
def test_learning_with_a_term_lowers_it(scorer, over):
    world = synthetic("small", queries=60, seed=0).train
    # a group that users like less, and that a feature gives away
    group = (world.features[:, 0] > np.median(world.features[:, 0])).astype(int)
    world = replace(world, groups=Groups(group, ("few", "many"), "side"))
    assert world.subset([3]).groups.codes.tolist() == group[slice(*world.offsets[3:5])].tolist()
    shown = np.zeros(world.documents)
    counts = simulate(world, shown, USERS, sessions=10**5, seed=0, judge=0)
    settings = Settings(steps=60, learning_rate=0.05, rounds=20, leaves=7, shrinkage=0.3)
    share = counts.sessions / counts.total

    def unfair(weight):
        ranker = learn(world, counts, USERS, method="prpo", production=shown, scorer=scorer,
                       settings=settings, fairness="parity", fairness_weight=weight,
                       fairness_over=over)  # fmt: skip
        scores = ranker.scores(world)
        omega = exposure(scores, WEIGHTS, world.offsets) * np.repeat(share, world.sizes)
        sums = np.bincount(group, omega) / omega.sum()
        visits = np.bincount(group, np.repeat(share, world.sizes))
        if over == "traffic":
            return ((sums - visits / visits.sum()) ** 2).sum()
        gaps = []
        for first, last in zip(world.offsets[:-1], world.offsets[1:], strict=True):
            own = np.bincount(group[first:last], omega[first:last], minlength=2)
            size = np.bincount(group[first:last], minlength=2)
            gaps.append(((own / own.sum() - size / size.sum()) ** 2).sum())
        return share @ gaps

    assert unfair(100.0) < 0.6 * unfair(0.0)


def test_groups_are_checked():
    with pytest.raises(InputError, match="`groups` must be of 2 documents"):
        RankingData(np.eye(2), [0, 2], groups=Groups.of(["a"]))
    with pytest.raises(InputError, match=r"`groups` must be in 0..0"):
        Groups(np.array([0, 1]), ("a",))
