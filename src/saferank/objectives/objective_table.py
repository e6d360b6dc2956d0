"""The objectives by name: each is a reward, a risk where it has one, and what the risk costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from saferank._core.flat import Floats
from saferank._core.value_slope import ValueSlope
from saferank.errors import require
from saferank.objectives import action, exposure
from saferank.objectives.in_exposures import Context, Objective, PairWeights, Terms
from saferank.objectives.in_pairs import pair_goal
from saferank.objectives.in_rankings import ranking_goal


def _utility(_: Context) -> Objective:
    """Exposure times gain, summed over documents."""
    return Objective(lambda omega, terms: exposure.utility(omega, terms.gain))


def _prpo(context: Context) -> Objective:
    """PRPO: utility that stops paying once exposure leaves production's neighbourhood."""

    def reward(omega: Floats, terms: Terms) -> ValueSlope:
        return exposure.prpo(omega, terms.gain, omega0=terms.omega0, delta=context.delta)

    return Objective(reward)


LIFT = 0.1
"""Of the first rank's weight: what PRPO's ceiling is raised by as delta falls to 0."""


def _prpo_lift(context: Context) -> Objective:
    """PRPO with a ceiling that is raised for every document, as far as delta is below 1."""
    lift = LIFT * (1 - context.delta) * float(context.weights.max(initial=0.0))

    def reward(omega: Floats, terms: Terms) -> ValueSlope:
        return exposure.prpo(omega, terms.gain, omega0=terms.omega0, delta=context.delta, lift=lift)

    return Objective(reward)


def floor_price(largest_gain: float) -> float:
    """A price strictly above the largest gain, so that a floor is exact."""
    return 1.01 * largest_gain if largest_gain > 0 else 1.0


def _prpo_floor(context: Context) -> Objective:
    """PRPO with a price on leaving the neighbourhood at all."""
    price = floor_price(context.largest_gain)

    def reward(omega: Floats, terms: Terms) -> ValueSlope:
        return exposure.prpo_floor(
            omega, terms.gain, omega0=terms.omega0, delta=context.delta, price=price
        )

    return Objective(reward)


def _keep(context: Context) -> Objective:
    """Utility with a price on falling below a share of production's exposure, and no ceiling."""
    price = floor_price(context.largest_gain)

    def reward(omega: Floats, terms: Terms) -> ValueSlope:
        return exposure.keep(
            omega, terms.gain, omega0=terms.omega0, delta=context.delta, price=price
        )

    return Objective(reward)


def _lambda(context: Context) -> Objective:
    """Utility by swaps of pairs, as LambdaRank does: for trees."""
    return replace(_utility(context), goal=pair_goal)


def _lambda_prpo(context: Context) -> Objective:
    """PRPO by swaps of pairs."""

    def limits(terms: Terms) -> tuple[Floats, Floats]:
        return exposure.prpo_limits(terms.omega0, context.delta)

    return replace(_prpo(context), goal=pair_goal, limits=limits)


def _ndcg_loss1(context: Context) -> Objective:
    """LambdaLoss's NDCG-Loss1: pairs weighted by the better document where it stands."""
    return replace(_lambda(context), pairs=PairWeights(swap=0.0, own=1.0))


def _ndcg_loss2(context: Context) -> Objective:
    """LambdaLoss's NDCG-Loss2: pairs weighted by how far apart they stand."""
    return replace(_lambda(context), pairs=PairWeights(swap=0.0, gap=1.0))


def _ndcg_loss2_plus(context: Context) -> Objective:
    """LambdaLoss's NDCG-Loss2++: LambdaRank's weights and ten times those of NDCG-Loss2."""
    return replace(_lambda(context), pairs=PairWeights(gap=10.0))


def _safe(context: Context, *, spread: float, terms_: int) -> Objective:
    def risk(omega: Floats, terms: Terms) -> ValueSlope:
        return exposure.divergence(omega, omega0=terms.omega0, total=terms.total)

    total = float(context.weights.sum())
    factor = exposure.risk_factor(
        context.delta, context.sessions, total, spread=spread, terms=terms_
    )
    return Objective(_utility(context).reward, risk, factor)


def _safe_ips(context: Context) -> Objective:
    """Utility less the exposure-based risk (Gupta et al., 2023)."""
    return _safe(context, spread=1.0, terms_=1)


def _safe_dr(context: Context) -> Objective:
    """The same with every factor of the paper's theorem for DR."""
    click_model = context.require_click_model()
    return _safe(context, spread=exposure.trust_spread(click_model), terms_=2)


def _ppo(context: Context) -> Objective:
    """PPO on whole rankings: a ratio that is clipped as PRPO's ceiling."""
    # the same neighbourhood as PRPO's ceiling: a ratio of at most 1 / delta
    clip = partial(action.ppo, epsilon=1 / context.delta - 1)
    return Objective(clip, goal=ranking_goal)


def _action_risk(context: Context, risk: Callable[..., ValueSlope], scale: float) -> Objective:
    weight = scale * np.sqrt((1 - context.delta) / context.delta / context.sessions)
    return Objective(action.importance, risk, float(weight), goal=ranking_goal)


def _crm(context: Context) -> Objective:
    """CRM on whole rankings: the mean less a multiple of its standard deviation."""
    return _action_risk(context, action.variance, 1.0)


def _vcrm(context: Context) -> Objective:
    """The same with a bound of the variance in its place."""
    # rewards reach the total weight of the ranks, so their second moment is at most Z^2 d2
    return _action_risk(context, action.divergence, float(context.weights.sum()))


@dataclass(frozen=True)
class Entry:
    """An objective by name: how it is made, and the delta it is used with unless told otherwise.

    See Also
    --------
    OBJECTIVES : the entries by name.

    Examples
    --------
    >>> import saferank as sr
    >>> sr.objectives.OBJECTIVES["prpo"].delta
    '100/N'
    """

    build: Callable[[Context], Objective]
    """From what is known of the log to the objective."""
    delta: str = "1"
    """A number, or a formula of the number of sessions N."""


ObjectiveLike = str | Entry | Callable[[Context], Objective]
"""A name, an entry, or a function from what is known of the log to an objective."""


def objective_entry(given: ObjectiveLike) -> Entry:
    """The entry of a name, or one that is made of a function.

    >>> objective_entry("prpo").delta
    '100/N'
    """
    if isinstance(given, Entry):
        return given
    if callable(given):
        return Entry(given)
    require(given in OBJECTIVES, "objective", f"one of {', '.join(OBJECTIVES)}", given)
    return OBJECTIVES[given]


OBJECTIVES: dict[str, Entry] = {
    "utility": Entry(_utility),
    "safe-ips": Entry(_safe_ips, delta="0.95"),
    "safe-dr": Entry(_safe_dr, delta="0.95"),
    "prpo": Entry(_prpo, delta="100/N"),
    "prpo-lift": Entry(_prpo_lift, delta="100/N"),
    "prpo-floor": Entry(_prpo_floor, delta="100/N"),
    "keep": Entry(_keep, delta="100/N"),
    "lambda": Entry(_lambda),
    "lambda-prpo": Entry(_lambda_prpo, delta="100/N"),
    "ndcg-loss1": Entry(_ndcg_loss1),
    "ndcg-loss2": Entry(_ndcg_loss2),
    "ndcg-loss2++": Entry(_ndcg_loss2_plus),
    "ppo": Entry(_ppo, delta="0.5"),
    "crm": Entry(_crm, delta="0.95"),
    "vcrm": Entry(_vcrm, delta="0.95"),
}
