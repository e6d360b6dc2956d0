"""Curvatures and lambdas against finite differences, plain loops and the laws they rest on."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saferank.clicks import simulate, trust_bias
from saferank.data import synthetic
from saferank.estimators import Evidence
from saferank.estimators.regression import LOSSES
from saferank.learning import Settings, learn
from saferank.learning.curvature import CURVATURES, curvature
from saferank.learning.pointwise_goals import ImitationGoal, PointwiseGoal
from saferank.learning.problem import Log
from saferank.objectives import OBJECTIVES, Context, Terms
from saferank.objectives.goals import QueryBlock, ValueGradient
from saferank.objectives.in_exposures import ExposureGoal
from saferank.objectives.in_pairs import LambdaGoal
from saferank.plackett_luce import expected_ndcg, exposure

USERS = trust_bias()
WORLD = synthetic("small", queries=6, seed=1).train
PLACE = QueryBlock(np.arange(WORLD.queries), slice(0, WORLD.documents), WORLD.offsets)
RNG = np.random.default_rng(0)
PRODUCTION = RNG.normal(size=WORLD.documents)
GAIN = RNG.normal(size=WORLD.documents)
SHARE = np.full(WORLD.queries, 1 / WORLD.queries)


def goal_of(name, weights, delta=1.0, kind=ExposureGoal):
    weights = np.asarray(weights, dtype=np.float64)
    terms = Terms(GAIN, exposure(PRODUCTION, weights, WORLD.offsets), np.ones(GAIN.size))
    context = Context(sessions=100, delta=delta, weights=weights, click_model=USERS)
    return kind(WORLD.queries, OBJECTIVES[name].build(context), terms, weights, SHARE)


def value(goal, scores):
    return float(goal.value_and_gradient(scores, PLACE, None).reward.sum())


def second_difference(goal, scores, direction, step=1e-3):
    ends = value(goal, scores + step * direction) + value(goal, scores - step * direction)
    return (ends - 2 * value(goal, scores)) / step**2


def softmax(scores):
    rates = np.exp(scores)
    return rates / np.repeat(np.add.reduceat(rates, WORLD.offsets[:-1]), WORLD.sizes)


@pytest.mark.parametrize("seed", range(3))
def test_with_one_rank_the_gradient_is_the_second_derivative(seed):
    rng = np.random.default_rng(seed)
    goal, scores, u = goal_of("utility", [1.0]), rng.normal(size=GAIN.size), rng.normal(size=36)
    u = np.resize(u, GAIN.size)
    judged = goal.value_and_gradient(scores, PLACE, None)
    mean = np.add.reduceat(softmax(scores) * u, WORLD.offsets[:-1])
    centred = u - np.repeat(mean, WORLD.sizes)
    bent = second_difference(goal, scores, u)
    assert bent == pytest.approx(judged.gradient @ centred**2, rel=1e-4, abs=1e-7)
    bound = curvature(goal, scores, PLACE, judged, "gradient") @ centred**2
    assert abs(bent) <= bound


def test_with_one_rank_the_second_derivative_in_one_score():
    goal, scores = goal_of("utility", [1.0]), PRODUCTION * 0.7
    gradient, p = goal.value_and_gradient(scores, PLACE, None).gradient, softmax(scores)
    for document in range(0, GAIN.size, 7):
        bent = second_difference(goal, scores, np.eye(1, GAIN.size, document)[0])
        assert bent == pytest.approx(gradient[document] * (1 - 2 * p[document]), abs=1e-7)


@pytest.mark.parametrize("rule", CURVATURES)
def test_curvatures_are_positive_scale_with_the_goal_and_share_their_total(rule):
    goal, scores = goal_of("utility", [1.0, 0.5, 0.3]), PRODUCTION * 0.5
    judged = goal.value_and_gradient(scores, PLACE, None)
    bent = curvature(goal, scores, PLACE, judged, rule)
    assert (bent > 0).all()
    assert bent.sum() == pytest.approx(1.001 * np.abs(judged.gradient).sum())
    doubled = judged._replace(gradient=2 * judged.gradient)
    assert curvature(goal, scores, PLACE, doubled, rule) == pytest.approx(2 * bent)
    still = judged._replace(gradient=0 * judged.gradient)
    assert not curvature(goal, scores, PLACE, still, rule).any()


@pytest.mark.parametrize("loss", LOSSES)
def test_the_regressions_curvature_is_its_second_derivative_in_expectation(loss):
    counts = simulate(WORLD, PRODUCTION, USERS, sessions=500, seed=0, judge=0)
    scores = PRODUCTION * 0.3
    evidence = Evidence(counts, USERS, Log(WORLD, counts).propensities(USERS, USERS.alpha))
    # clicks exactly as expected under these scores: the observed information is then Fisher's
    relevance = 1 / (1 + np.exp(-scores))
    chance = relevance[:, None] * USERS.alpha + USERS.beta
    expected = replace(evidence.counts)
    object.__setattr__(expected, "clicks", counts.impressions * chance)
    known = replace(evidence, counts=expected)
    judge = LOSSES[loss](known)
    step = 1e-5
    up, down = (judge(scores + s, slice(None)).slope for s in (step, -step))
    found = judge(scores, slice(None)).curvature
    assert found == pytest.approx(-(up - down) / (2 * step), rel=1e-5, abs=1e-6)
    goal = PointwiseGoal(WORLD.queries, judge, 0.5)
    assert goal.value_and_gradient(scores, PLACE, None).curvature == pytest.approx(found / 2)


def test_imitation_is_bounded_by_its_curvature():
    goal, u = ImitationGoal(WORLD.queries, PRODUCTION), RNG.normal(size=GAIN.size)
    bent = goal.value_and_gradient(PRODUCTION * 0, PLACE, None).curvature
    assert 0 < -second_difference(goal, PRODUCTION * 0, u) <= bent @ u**2


def test_all_queries_together_need_no_risk_from_outside():
    goal = goal_of("safe-dr", USERS.alpha + USERS.beta, delta=0.5)
    goal = replace(goal, risk_weight=goal.objective.risk_weight)
    scores = PRODUCTION * 0.5
    risk = goal.value_and_gradient(scores, PLACE, 1.0).risk.sum()
    told, own = (goal.value_and_gradient(scores, PLACE, r).gradient for r in (float(risk), None))
    assert np.array_equal(told, own)


# -- pairs -----------------------------------------------------------------------------------------

WEIGHTS = np.array([1.0, 0.6, 0.3])


def plain_lambdas(scores, weights, omega, gain, low, high):
    """One query, every ordered pair, by the definition."""

    def paid(d, x):
        return gain[d] * min(x, high[d]) if gain[d] >= 0 else gain[d] * max(x, low[d])

    order = sorted(range(len(scores)), key=lambda d: -scores[d])
    weight = {d: weights[r] if r < len(weights) else 0.0 for r, d in enumerate(order)}
    push = [0.0] * len(scores)
    for i in range(len(scores)):
        for j in range(len(scores)):
            w = abs(weight[i] - weight[j])
            change = paid(i, omega[i] + w) - paid(i, omega[i])
            change += paid(j, omega[j] - w) - paid(j, omega[j])
            if i != j and w > 0 and change > 1e-15:
                push[i] += change / (1 + math.exp(scores[i] - scores[j]))
                push[j] -= change / (1 + math.exp(scores[i] - scores[j]))
    return push


@pytest.mark.parametrize(("name", "delta"), [("lambda", 1.0), ("lambda-prpo", 0.6)])
def test_lambdas_are_those_of_the_definition(name, delta):
    goal = goal_of(name, WEIGHTS, delta, LambdaGoal)
    scores = PRODUCTION + RNG.normal(size=GAIN.size)
    judged = goal.value_and_gradient(scores, PLACE, None)
    omega = exposure(scores, WEIGHTS, WORLD.offsets)
    low, high = goal.objective.limits(goal.terms)
    for first, last in zip(WORLD.offsets[:-1], WORLD.offsets[1:], strict=True):
        part = slice(first, last)
        wanted = plain_lambdas(scores[part], WEIGHTS, omega[part], GAIN[part],
                               low[part], high[part])  # fmt: skip
        assert judged.gradient[part] * WORLD.queries == pytest.approx(wanted, abs=1e-12)
    assert (judged.curvature >= 0).all()
    assert np.add.reduceat(judged.gradient, WORLD.offsets[:-1]) == pytest.approx(0, abs=1e-12)


def test_the_unbounded_lambda_is_lambdaranks():
    goal = goal_of("lambda", WEIGHTS, kind=LambdaGoal)
    gradient = goal.value_and_gradient(PRODUCTION, PLACE, None).gradient * WORLD.queries
    first, last = WORLD.offsets[0], WORLD.offsets[1]
    scores, gain = PRODUCTION[first:last], GAIN[first:last]
    rank = np.argsort(np.argsort(-scores))
    weight = np.where(rank < 3, np.append(WEIGHTS, 0)[np.minimum(rank, 3)], 0)
    wanted = np.zeros(scores.size)
    for i in range(scores.size):
        for j in range(scores.size):
            if gain[i] > gain[j]:
                delta = (gain[i] - gain[j]) * abs(weight[i] - weight[j])
                push = delta / (1 + np.exp(scores[i] - scores[j]))
                wanted[i] += push
                wanted[j] -= push
    assert gradient[first:last] == pytest.approx(wanted, abs=1e-12)


def lambda_loss(scores, gain, weights, at, name):
    """Wang et al.'s weighted logistic loss of one query, with the ranks of the scores `at`."""
    rank = np.argsort(np.argsort(-at))  # from 0
    w = lambda r: weights[r] if r < len(weights) else 0.0  # noqa: E731
    total = 0.0
    for i in range(scores.size):
        for j in range(scores.size):
            if gain[i] > gain[j] and min(rank[i], rank[j]) < len(weights):
                apart, between = abs(rank[i] - rank[j]), gain[i] - gain[j]
                near = abs(w(apart - 1) - w(apart))
                weight = {
                    "ndcg-loss1": (gain[i] - gain.min()) * w(rank[i]),
                    "ndcg-loss2": near * between,
                    "ndcg-loss2++": (abs(w(rank[i]) - w(rank[j])) + 10 * near) * between,
                }[name]
                total += weight * np.log1p(np.exp(scores[j] - scores[i]))
    return total


@pytest.mark.parametrize("name", ["ndcg-loss1", "ndcg-loss2", "ndcg-loss2++"])
def test_lambda_loss_pushes_down_its_weighted_logistic_loss(name):
    judged = goal_of(name, WEIGHTS, kind=LambdaGoal).value_and_gradient(PRODUCTION, PLACE, None)
    first, last = WORLD.offsets[1], WORLD.offsets[2]
    scores, gain = PRODUCTION[first:last], GAIN[first:last]
    for d in range(last - first):
        step = 1e-5 * np.eye(last - first)[d]
        down = lambda_loss(scores - step, gain, WEIGHTS, scores, name)
        down -= lambda_loss(scores + step, gain, WEIGHTS, scores, name)
        got = judged.gradient[first + d] * WORLD.queries
        assert got == pytest.approx(down / 2e-5, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("scorer", ["linear", "trees"])
@pytest.mark.parametrize(
    "changes",
    [
        {"method": "prpo", "gradient": "stochastic-rank", "samples": 50, "delta": 0.2},
        {"method": "dr", "objective": "ndcg-loss1"},
        {"method": "dr", "objective": "ndcg-loss2"},
        {"method": "dr", "objective": "ndcg-loss2++"},
    ],
    ids=["stochastic-rank", "loss1", "loss2", "loss2++"],
)
def test_the_optimisers_named_by_the_paper_learn_for_nets_and_for_trees(scorer, changes):
    world = synthetic("small", queries=60, seed=0)
    settings = Settings(
        steps=40, learning_rate=0.05, min_validation_interval=20, rounds=15, leaves=7, shrinkage=0.3
    )
    shown = np.zeros(world.train.documents)
    counts = simulate(world.train, shown, USERS, sessions=10**6, seed=0, judge=0)
    ranker = learn(world.train, counts, USERS, production=shown, scorer=scorer, settings=settings,
                   start="scratch", **changes)  # fmt: skip
    ndcg = [
        expected_ndcg(scores, world.test.labels, world.test.offsets, 5).mean()
        for scores in (ranker.scores(world.test), np.zeros(world.test.documents))
    ]
    assert ndcg[0] > ndcg[1] + 0.05


def test_production_is_the_fixed_point_of_bounded_lambdas_at_delta_one():
    judged = goal_of("lambda-prpo", WEIGHTS, 1.0, LambdaGoal).value_and_gradient(
        PRODUCTION, PLACE, None
    )
    assert not judged.gradient.any()


@given(st.floats(0.05, 1.0), st.integers(0, 100))
def test_bounds_only_ever_weaken_lambdas_and_wide_ones_do_nothing(delta, seed):
    scores = PRODUCTION + np.random.default_rng(seed).normal(size=GAIN.size)
    goals = [
        goal_of(name, WEIGHTS, width, LambdaGoal)
        for name, width in (("lambda", 1.0), ("lambda-prpo", delta), ("lambda-prpo", 1e-12))
    ]
    # a floor of 0 still bounds a document with a negative gain: it cannot have less than nothing
    goals = [replace(g, terms=g.terms._replace(gain=np.abs(GAIN))) for g in goals]
    free, tight, loose = (goal.value_and_gradient(scores, PLACE, None) for goal in goals)
    assert tight.curvature.sum() <= free.curvature.sum() + 1e-12
    assert loose.gradient == pytest.approx(free.gradient, abs=1e-12)


@pytest.mark.parametrize("scorer", ["linear", "trees"])
def test_lambdas_learn_for_nets_and_for_trees(scorer):
    world = synthetic("small", queries=60, seed=0)
    settings = Settings(steps=60, min_validation_interval=20, rounds=15, leaves=7)
    shown = np.zeros(world.train.documents)
    counts = simulate(world.train, shown, USERS, sessions=10**6, seed=0, judge=0)
    shared = {"production": shown, "scorer": scorer, "settings": settings}
    ranker = learn(world.train, counts, USERS, method="lambda", **shared)
    bounded = learn(world.train, counts, USERS, method="lambda-prpo", delta=0.5, start="add",
                    **shared)  # fmt: skip
    kept = learn(world.train, counts, USERS, method="lambda-prpo", delta=1.0, start="add", **shared)
    for found in (ranker, bounded):
        values = found.provenance.history["values"]
        assert max(values) > values[0]
    assert not kept.scorer.scores(world.test.features).any()


def test_a_goal_may_have_no_curvature_of_its_own():
    assert ValueGradient(GAIN, GAIN, GAIN).curvature is None
