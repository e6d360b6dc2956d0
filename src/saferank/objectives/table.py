"""The objectives by name: each is a reward, a risk where it has one, and what the risk costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from saferank._core.flat import Floats
from saferank._core.valued import Valued
from saferank.clicks import ClickModel
from saferank.errors import InputError
from saferank.objectives import action, exposure


class Terms(NamedTuple):
    """What an exposure objective knows of each document beside its exposure."""

    gain: Floats
    omega0: Floats
    total: Floats
    """Z of the document's query: the exposure there is to share."""


@dataclass(frozen=True)
class Context:
    """What an objective knows of the whole log."""

    sessions: int
    delta: float
    weights: Floats
    users: ClickModel | None
    largest_gain: float = 1.0
    """Of all documents that the objective is used for, validation's among them, by its size."""

    def known_users(self) -> ClickModel:
        """The click model, or `InputError` where there is none."""
        if self.users is None:
            raise InputError("`users` must be given for this objective; got None.")
        return self.users


def _no_limits(terms: Terms) -> tuple[Floats, Floats]:
    return np.full_like(terms.gain, -np.inf), np.full_like(terms.gain, np.inf)


@dataclass(frozen=True)
class Objective:
    """mean(reward) - risk_weight * sqrt(mean(risk)), in exposures or in ranking ratios."""

    reward: Callable[..., Valued]
    risk: Callable[..., Valued] | None = None
    risk_weight: float = 0.0
    level: Literal["exposure", "ranking", "pair"] = "exposure"
    limits: Callable[[Terms], tuple[Floats, Floats]] = _no_limits
    """Exposures below and above which nothing more is lost or paid: what pairs are weighted by."""


def _utility(_: Context) -> Objective:
    return Objective(lambda omega, terms: exposure.utility(omega, terms.gain))


def _prpo(context: Context) -> Objective:
    def reward(omega: Floats, terms: Terms) -> Valued:
        return exposure.prpo(omega, terms.gain, omega0=terms.omega0, delta=context.delta)

    return Objective(reward)


def floor_price(largest_gain: float) -> float:
    """A price strictly above the largest gain, so that PRPO's floor is exact."""
    return 1.01 * largest_gain if largest_gain > 0 else 1.0


def _prpo_floor(context: Context) -> Objective:
    price = floor_price(context.largest_gain)

    def reward(omega: Floats, terms: Terms) -> Valued:
        return exposure.prpo_floor(
            omega, terms.gain, omega0=terms.omega0, delta=context.delta, price=price
        )

    return Objective(reward)


def _lambda(context: Context) -> Objective:
    return replace(_utility(context), level="pair")


def _lambda_prpo(context: Context) -> Objective:
    def limits(terms: Terms) -> tuple[Floats, Floats]:
        return exposure.prpo_limits(terms.omega0, context.delta)

    return replace(_prpo(context), level="pair", limits=limits)


def _safe(context: Context, *, spread: float, terms_: int) -> Objective:
    def risk(omega: Floats, terms: Terms) -> Valued:
        return exposure.divergence(omega, omega0=terms.omega0, total=terms.total)

    total = float(context.weights.sum())
    factor = exposure.risk_factor(
        context.delta, context.sessions, total, spread=spread, terms=terms_
    )
    return Objective(_utility(context).reward, risk, factor)


def _safe_ips(context: Context) -> Objective:
    return _safe(context, spread=1.0, terms_=1)


def _safe_dr(context: Context) -> Objective:
    users = context.known_users()
    return _safe(context, spread=exposure.trust_spread(users.alpha, users.beta), terms_=2)


def _ppo(context: Context) -> Objective:
    # the same neighbourhood as PRPO's ceiling: a ratio of at most 1 / delta
    clip = partial(action.ppo, epsilon=1 / context.delta - 1)
    return Objective(clip, level="ranking")


def _action_risk(context: Context, risk: Callable[..., Valued], scale: float) -> Objective:
    weight = scale * np.sqrt((1 - context.delta) / context.delta / context.sessions)
    return Objective(action.importance, risk, float(weight), level="ranking")


def _crm(context: Context) -> Objective:
    return _action_risk(context, action.variance, 1.0)


def _vcrm(context: Context) -> Objective:
    # rewards reach the total weight of the ranks, so their second moment is at most Z^2 d2
    return _action_risk(context, action.divergence, float(context.weights.sum()))


@dataclass(frozen=True)
class Entry:
    """An objective by name: how it is made, and the delta it is used with unless told otherwise."""

    build: Callable[[Context], Objective]
    delta: str = "1"


OBJECTIVES: dict[str, Entry] = {
    "utility": Entry(_utility),
    "safe-ips": Entry(_safe_ips, delta="0.95"),
    "safe-dr": Entry(_safe_dr, delta="0.95"),
    "prpo": Entry(_prpo, delta="100/N"),
    "prpo-floor": Entry(_prpo_floor, delta="100/N"),
    "lambda": Entry(_lambda),
    "lambda-prpo": Entry(_lambda_prpo, delta="100/N"),
    "ppo": Entry(_ppo, delta="0.5"),
    "crm": Entry(_crm, delta="0.95"),
    "vcrm": Entry(_vcrm, delta="0.95"),
}
