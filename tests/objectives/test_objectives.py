from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from saferank.clicks import ClickModel, trust_bias
from saferank.errors import InputError
from saferank.objectives import OBJECTIVES, Context, Terms, schedule
from saferank.objectives.exposure import keep, prpo, prpo_floor, risk_factor, trust_spread, utility
from saferank.objectives.in_rankings import ranking_goal

floats = st.lists(st.floats(0, 1), min_size=4, max_size=4).map(np.array)
gains = st.lists(st.floats(-3, 3), min_size=4, max_size=4).map(np.array)
deltas = st.floats(0.01, 1)


def context(delta=0.5, sessions=1000):
    users = trust_bias()
    return Context(sessions, delta, users.alpha + users.beta, users, largest_gain=2.0)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("part", ["reward", "risk"])
def test_slopes_are_derivatives_of_values(name, part):
    objective = OBJECTIVES[name].build(context())
    judge = getattr(objective, part)
    if judge is None:
        pytest.skip(f"{name} has no risk")
    rng = np.random.default_rng(3)
    if objective.goal is not ranking_goal:
        at = rng.uniform(0, 1, 50)
        known: Any = Terms(rng.normal(size=50), rng.uniform(0.1, 1, 50), np.full(50, 3.7))
    else:
        at, known = rng.uniform(0, 3, (4, 10)), rng.normal(size=(4, 10))
    direction, step = rng.normal(size=at.shape), 1e-7
    rise = (
        judge(at + step * direction, known).value.sum()
        - judge(at - step * direction, known).value.sum()
    )
    assert (judge(at, known).slope * direction).sum() == pytest.approx(
        rise / (2 * step), rel=1e-5, abs=1e-5
    )


@given(floats, floats, gains, deltas)
def test_prpo_is_at_most_the_utility(omega, omega0, gain, delta):
    assert (
        prpo(omega, gain, omega0=omega0, delta=delta).value <= utility(omega, gain).value + 1e-12
    ).all()


@given(floats, floats, gains, deltas)
def test_prpo_is_the_clipping_function_of_the_paper(omega, omega0, gain, delta):
    omega0 = omega0 + 0.01
    ratio, r = omega / omega0, omega0 * gain
    paper = np.where(r >= 0, np.minimum(ratio, 1 / delta) * r, np.maximum(ratio, delta) * r)
    assert prpo(omega, gain, omega0=omega0, delta=delta).value == pytest.approx(paper)


@given(floats, floats, gains)
def test_prpo_tends_to_utility_as_delta_falls(omega, omega0, gain):
    bounded = prpo(omega, gain, omega0=omega0 + 0.1, delta=1e-6)
    inside = (gain >= 0) | (omega > 2e-6)
    assert bounded.value == pytest.approx(utility(omega, gain).value, abs=1e-5)
    assert np.array_equal(bounded.slope[inside], gain[inside])


@given(floats, gains)
def test_production_is_a_fixed_point_at_delta_one(omega0, gain):
    assert not prpo(omega0, gain, omega0=omega0, delta=1.0).slope.any()
    assert not prpo_floor(omega0, gain, omega0=omega0, delta=1.0, price=5.0).slope.any()


@given(floats, floats, gains, deltas, st.floats(0, 1))
def test_a_lifted_ceiling_pays_between_prpo_and_utility(omega, omega0, gain, delta, lift):
    lifted = prpo(omega, gain, omega0=omega0, delta=delta, lift=lift)
    assert (lifted.value >= prpo(omega, gain, omega0=omega0, delta=delta).value).all()
    assert (lifted.value <= utility(omega, gain).value + 1e-12).all()
    below = (gain >= 0) & (omega < 0.99 * (omega0 / delta + lift))
    assert np.array_equal(lifted.slope[below], gain[below])


@given(floats, gains)
def test_at_delta_one_nothing_is_lifted(omega0, gain):
    reward = OBJECTIVES["prpo-lift"].build(context(delta=1.0)).reward
    assert not reward(omega0, Terms(gain, omega0, np.ones(4))).slope.any()


@given(floats, floats, gains, deltas)
def test_the_floor_never_pays_for_leaving_the_interval(omega, omega0, gain, delta):
    price = np.abs(gain).max() + 1
    slope = prpo_floor(omega, gain, omega0=omega0, delta=delta, price=price).slope
    assert (slope[omega < omega0 * delta * (1 - 1e-5)] > 0).all()
    assert (slope[omega > omega0 / delta * (1 + 1e-5)] < 0).all()


@given(st.floats(0, 1e6))
def test_the_price_of_keep_is_above_the_largest_gain(largest):
    reward = OBJECTIVES["keep"].build(Context(9, 0.5, np.ones(1), None, largest)).reward
    worst = Terms(np.array([-largest, 0.0]), np.array([0.5, 0.5]), np.ones(2))
    assert (reward(np.array([0.1, 0.1]), worst).slope > largest).all()


@given(st.floats(0, 1e6))
def test_the_price_of_the_floor_is_above_the_largest_gain(largest):
    weights = np.array([1.0])
    reward = OBJECTIVES["prpo-floor"].build(Context(9, 0.5, weights, None, largest)).reward
    best = Terms(np.array([largest]), np.array([0.5]), np.ones(1))
    # at twice its ceiling, the best document would rather give its exposure away
    assert reward(np.array([2.0]), best).slope[0] < -largest


@given(floats, floats, gains, deltas)
def test_keep_is_utility_above_the_floor_and_less_below(omega, omega0, gain, delta):
    kept = keep(omega, gain, omega0=omega0, delta=delta, price=4.0)
    above = omega >= omega0 * delta
    assert kept.value[above] == pytest.approx(utility(omega, gain).value[above])
    assert (kept.value <= utility(omega, gain).value + 1e-12).all()
    # no ceiling: whatever rises is paid for in full
    assert np.array_equal(kept.slope[above], gain[above])


@pytest.mark.parametrize("seed", range(25))
def test_no_mixture_of_rankings_gains_by_breaking_what_is_to_be_kept(seed):
    """The best distribution over all rankings, by a linear programme: its floors hold."""
    rng = np.random.default_rng(seed)
    weights, delta = np.array([1.0, 0.7, 0.5]), rng.uniform(0.2, 1)
    orders = np.array(list(permutations(range(4))))
    exposures = np.zeros((len(orders), 4))  # of each ranking
    for rank, weight in enumerate(weights):
        exposures[np.arange(len(orders)), orders[:, rank]] = weight
    omega0 = rng.dirichlet(np.full(len(orders), 0.2)) @ exposures
    gain = rng.normal(size=4) * 10 ** rng.uniform(-2, 2)
    if seed == 0:
        gain = np.array([-1.0, 1.0, -1.0, 1.0])  # M above |gain| alone would not do here
    price = 1.01 * np.abs(gain).max()
    owed = price + np.maximum(0, -gain)
    # variables: the share of each ranking, then what each document lacks
    costs = np.concatenate([-exposures @ gain, owed])
    lacks = np.hstack([-exposures.T, -np.eye(4)])
    best = linprog(
        costs, A_ub=lacks, b_ub=-delta * omega0,
        A_eq=[[1.0] * len(orders) + [0.0] * 4], b_eq=[1.0],
    )  # fmt: skip
    assert best.x[-4:] == pytest.approx(np.zeros(4), abs=1e-9)
    omega = best.x[:-4] @ exposures
    value = keep(omega, gain, omega0=omega0, delta=delta, price=price).value.sum()
    assert value == pytest.approx(-best.fun, rel=1e-9)
    for other in rng.dirichlet(np.ones(len(orders)), 50) @ exposures:
        assert keep(other, gain, omega0=omega0, delta=delta, price=price).value.sum() <= value


def test_zero_exposure_in_production_is_no_special_case():
    valued = prpo(np.array([0.2, 0.0]), np.array([1.0, -1.0]), omega0=np.zeros(2), delta=0.5)
    assert valued.value == pytest.approx([0, 0])
    assert valued.slope == pytest.approx([0, 0])


def test_safe_dr_has_every_factor_of_the_theorem():
    users = trust_bias()
    weights = users.alpha + users.beta
    objective = OBJECTIVES["safe-dr"].build(Context(400, 0.2, weights, users))
    spread = 1 + max(b / a for a, b in zip(users.alpha, users.beta, strict=True))
    expected = spread * np.sqrt(2 * weights.sum() / 400 * 0.8 / 0.2)
    assert objective.risk_weight == pytest.approx(expected)
    assert OBJECTIVES["safe-ips"].build(
        Context(400, 0.2, weights, users)
    ).risk_weight == pytest.approx(np.sqrt(weights.sum() / 400 * 0.8 / 0.2))


def test_divergence_of_production_from_itself_is_one():
    omega0 = np.array([0.5, 0.3, 0.2])
    risk = OBJECTIVES["safe-dr"].build(context()).risk
    assert risk(omega0, Terms(omega0, omega0, np.ones(3))).value.sum() == pytest.approx(1)


def test_schedules():
    assert schedule("100/N")(50) == 1.0
    assert schedule("0.01/N")(100) == pytest.approx(1e-4)
    assert schedule("1/log N")(1000) == pytest.approx(1 / np.log(1000))
    assert schedule(lambda n: 5 / n)(50) == 0.1
    assert schedule(0.25)(10**9) == 0.25
    for bad in ("soon", 0.0, 1.5, "0/N"):
        with pytest.raises(InputError):
            schedule(bad)(100)


def test_bad_deltas_and_models_are_one_sentence():
    with pytest.raises(InputError, match=r"`delta` must be in \(0, 1\]; got 0"):
        prpo(np.ones(1), np.ones(1), omega0=np.ones(1), delta=0)
    with pytest.raises(InputError, match=r"`delta` must be in \(0, 1\); got 1"):
        risk_factor(1.0, 10, 1.0)
    with pytest.raises(InputError, match="alpha at rank 2"):
        trust_spread(ClickModel([0.5, 0.0], [0.1, 0.1]))
    assert trust_spread(ClickModel([0.5, 0.0], [0.1, 0.0])) == pytest.approx(1.2)
