"""Every goal's gradient against finite differences of its value, down to the parameters."""

import numpy as np
import pytest
import torch

from saferank._core.flat import gather
from saferank.clicks import simulate, trust_bias
from saferank.data import synthetic
from saferank.estimators import Evidence
from saferank.estimators.regression import LOSSES
from saferank.learning.descent import GoalQueries, evaluate
from saferank.learning.pointwise_goals import ImitationGoal, PointwiseGoal
from saferank.learning.problem import Log
from saferank.learning.recipe import METHODS
from saferank.learning.training_run import TrainingRun
from saferank.objectives import OBJECTIVES
from saferank.objectives.goals import Goal, QueryBlock
from saferank.scorers.networks import gradients, make_network, to_scores

USERS = trust_bias()
WORLD = synthetic("small", queries=6, seed=1).train
PRODUCTION = np.random.default_rng(0).normal(size=WORLD.documents)
COUNTS = simulate(WORLD, PRODUCTION, USERS, sessions=500, seed=0, judge=0)


def everything(data):
    return QueryBlock(np.arange(data.queries), slice(0, data.documents), data.offsets)


def policy_goal(objective, **changes):
    recipe = METHODS["ips"].replace(objective=objective, samples=30, delta=0.5, **changes)
    run = TrainingRun(recipe, USERS, PRODUCTION, seed=0)
    train, held = run.logs(WORLD, COUNTS, None)
    return train.data, run.goals(train, held, None)[0]


# lambdas are pushes, not the gradient of a value: test_boosting_curvature.py
@pytest.mark.parametrize(
    "objective", [name for name in OBJECTIVES if not name.startswith(("lambda", "ndcg-loss"))]
)
def test_gradient_in_the_scores(objective):
    data, goal = policy_goal(objective)
    part, rng = GoalQueries(data, goal), np.random.default_rng(5)
    scores = data.production + rng.normal(size=data.documents)
    value, risk = evaluate(part, scores)
    gradient = goal.value_and_gradient(scores, everything(data), risk.sum()).gradient
    direction, step = rng.normal(size=scores.size), 1e-6
    rise = (
        evaluate(part, scores + step * direction)[0] - evaluate(part, scores - step * direction)[0]
    )
    assert gradient @ direction == pytest.approx(rise / (2 * step), rel=1e-4, abs=1e-7)
    assert np.isfinite(value)


@pytest.mark.parametrize("objective", ["utility", "prpo", "prpo-floor", "safe-dr"])
def test_gradient_in_the_parameters_of_a_network(objective):
    data, goal = policy_goal(objective)
    module = make_network(data.width, (8,), seed=2).double()
    part = GoalQueries(data, goal)

    def outputs():
        return [module(torch.from_numpy(data.features.astype(np.float64))).reshape(-1)]

    value_at = lambda: evaluate(part, to_scores(outputs()[0]))  # noqa: E731
    _, risk = value_at()
    found = outputs()
    flow = goal.value_and_gradient(to_scores(found[0]), everything(data), risk.sum()).gradient
    gradient = gradients(module, found, [flow])[0]
    parameter = next(iter(module.parameters()))
    direction = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)).double()
    slope = float((gradient[: parameter.numel()].reshape(parameter.shape) * direction).sum())
    values = []
    for step in (1e-5, -1e-5):
        with torch.no_grad():
            parameter.add_(step * direction)
        values.append(value_at()[0])
        with torch.no_grad():
            parameter.sub_(step * direction)
    assert slope == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-3, abs=1e-7)


@pytest.mark.parametrize("loss", LOSSES)
def test_pointwise_and_imitation_goals(loss):
    log = Log(WORLD, COUNTS)
    evidence = Evidence(COUNTS, USERS, log.propensities(USERS, USERS.alpha))
    goals: list[Goal] = [
        PointwiseGoal(WORLD.queries, LOSSES[loss](evidence), 1 / COUNTS.total),
        ImitationGoal(WORLD.queries, PRODUCTION),
    ]
    scores, rng = PRODUCTION * 0.3, np.random.default_rng(1)
    for goal in goals:
        part, direction = GoalQueries(WORLD, goal), rng.normal(size=scores.size)
        gradient = goal.value_and_gradient(scores, everything(WORLD), 0.0).gradient
        up, down = (evaluate(part, scores + s * direction)[0] for s in (1e-6, -1e-6))
        assert gradient @ direction == pytest.approx((up - down) / 2e-6, rel=1e-4, abs=1e-8)


def test_imitation_is_perfect_at_production_up_to_a_shift():
    part = GoalQueries(WORLD, ImitationGoal(WORLD.queries, PRODUCTION))
    assert evaluate(part, PRODUCTION + 3.0)[0] == pytest.approx(0, abs=1e-20)


@pytest.mark.parametrize("gradient", ["reinforce", "pl-rank", "stochastic-rank-gumbel"])
def test_sampled_gradients_agree_with_the_exact_one(gradient):
    data, exact = policy_goal("utility")
    _, sampled = policy_goal("utility", gradient=gradient)
    object.__setattr__(sampled, "samples", 20_000)
    scores = data.production
    one, two = (
        goal.value_and_gradient(scores, everything(data), 0.0).gradient for goal in (exact, sampled)
    )
    assert np.linalg.norm(one - two) < 0.15 * np.linalg.norm(one)


def test_batches_add_up_to_the_whole():
    data, goal = policy_goal("safe-dr")
    scores = data.production * 0.5
    whole = goal.value_and_gradient(scores, everything(data), 0.7)
    queries = np.array([3, 0])
    positions, offsets = gather(data.offsets, queries)
    part = goal.value_and_gradient(scores[positions], QueryBlock(queries, positions, offsets), 0.7)
    assert part.reward == pytest.approx(whole.reward[queries])
    assert part.risk == pytest.approx(whole.risk[queries])
    assert part.gradient == pytest.approx(whole.gradient[positions], abs=1e-12)
