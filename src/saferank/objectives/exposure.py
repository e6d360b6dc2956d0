r"""Objectives in the exposures :math:`\omega` of documents: value and slope of each.

Each part adds up over documents, weighted by :math:`N_q/N`. An objective is a reward, less a
multiple of the root of a risk where it has one.
"""

from __future__ import annotations

import numpy as np

from saferank._core.flat import Floats
from saferank._core.value_slope import ValueSlope
from saferank.clicks.models import ClickModel
from saferank.errors import require

# A policy that stands at its bound gets no pay for the last bits of rounding.
_TIE = 1e-6


def utility(omega: Floats, gain: Floats) -> ValueSlope:
    r"""Expected reward: :math:`\omega\,\mu`."""
    return ValueSlope(omega * gain, gain)


def prpo(
    omega: Floats, gain: Floats, *, omega0: Floats, delta: float, lift: float = 0.0
) -> ValueSlope:
    r"""Utility that stops paying once exposure leaves production's neighbourhood.

    .. math:: \mu \min(\omega, \omega_0/\delta + lift) \text{ if } \mu \ge 0,
              \text{ else } \mu \max(\omega, \delta\,\omega_0)

    The paper's PRPO has no lift. With one, a document that production hardly shows may rise so far
    whatever its ratio to production.

    >>> prpo(np.array([0.1, 0.9]), np.ones(2), omega0=np.array([0.4, 0.4]), delta=0.5)
    ValueSlope(value=array([0.1, 0.8]), slope=array([1., 0.]))
    """
    floor, ceiling = prpo_limits(omega0, delta)
    ceiling = ceiling + lift
    inside = np.where(gain >= 0, omega < ceiling * (1 - _TIE), omega > floor * (1 + _TIE))
    kept = np.where(gain >= 0, np.minimum(omega, ceiling), np.maximum(omega, floor))
    return ValueSlope(kept * gain, np.where(inside, gain, 0.0))


def prpo_limits(omega0: Floats, delta: float) -> tuple[Floats, Floats]:
    """Where PRPO stops paying: exposures of production times delta, and divided by it."""
    require(0 < delta <= 1, "delta", "in (0, 1]", delta)
    return omega0 * delta, omega0 / delta


def shortfall(omega: Floats, omega0: Floats, keep: float) -> Floats:
    r"""What each document lacks of a share of its exposure under production.

    .. math:: \max(0, keep\,\omega_0 - \omega)

    >>> shortfall(np.array([0.1, 0.9]), np.array([0.4, 0.4]), 0.5)
    array([0.1, 0. ])
    """
    return np.maximum(0, omega0 * keep - omega)


def prpo_floor(
    omega: Floats, gain: Floats, *, omega0: Floats, delta: float, price: float
) -> ValueSlope:
    r"""PRPO with a price on leaving :math:`[\delta\omega_0, \omega_0/\delta]`, for every document.

    .. math:: \text{prpo} - M \left( \max(0, \delta\omega_0 - \omega)
              + \max(0, \omega - \omega_0/\delta) \right)

    With M above the largest :math:`|\mu|` the penalty is exact: at the optimum no document leaves
    its interval. (At equality, policies that leave it may be worth as much.)
    """
    bounded = prpo(omega, gain, omega0=omega0, delta=delta)
    below = shortfall(omega, omega0, delta)
    above = np.maximum(0, omega - omega0 / delta)
    low = omega < omega0 * delta * (1 - _TIE)
    high = omega > omega0 / delta * (1 + _TIE)
    return ValueSlope(
        bounded.value - price * (below + above),
        bounded.slope + price * (low.astype(np.float64) - high),
    )


def keep(omega: Floats, gain: Floats, *, omega0: Floats, delta: float, price: float) -> ValueSlope:
    r"""Utility with a price on falling below a share of production's exposure, and no ceiling.

    .. math:: \mu\,\omega - (M + \max(0, -\mu)) \max(0, \delta\,\omega_0 - \omega)

    What a promise fears is exposure that falls: a document that production hardly shows may rise
    as far as its gain carries it. Below its floor a document pays back what a negative gain would
    earn it there, so that with M above the largest gain the penalty is exact: whatever exposure
    it lacks is worth more to it than to any other document.

    Parameters
    ----------
    omega, gain, omega0 : one value per document.
    delta : the share of `omega0` to keep, in (0, 1].
    price : M.

    Returns
    -------
    ValueSlope
        One value and one slope per document.

    >>> keep(np.array([0.1, 0.9]), np.ones(2), omega0=np.array([0.4, 0.4]), delta=0.5, price=2.0)
    ValueSlope(value=array([-0.1,  0.9]), slope=array([3., 1.]))
    """
    floor, _ = prpo_limits(omega0, delta)
    owed = price + np.maximum(0, -gain)
    below = omega < floor * (1 - _TIE)
    return ValueSlope(omega * gain - owed * shortfall(omega, omega0, delta), gain + owed * below)


def divergence(omega: Floats, *, omega0: Floats, total: Floats) -> ValueSlope:
    r"""A document's share of the Rényi divergence of exposures: :math:`\omega^2/(\omega_0 Z_q)`.

    A document that production never exposes has no finite divergence; the smallest exposure that
    double precision tells from 0 stands in, so that the risk is large and finite.
    """
    scale = np.maximum(omega0, 1e-12) * np.maximum(total, 1e-300)
    return ValueSlope(omega * omega / scale, 2 * omega / scale)


def risk_factor(
    delta: float, sessions: int, total: float, *, spread: float = 1.0, terms: int = 1
) -> float:
    r"""What the root of the divergence is multiplied with in the generalisation bound.

    .. math:: C \sqrt{F \frac{Z}{N} \frac{1-\delta}{\delta}}

    Safe IPS: C = F = 1. Safe DR: :math:`C = 1 + \max_k \beta_k/\alpha_k`, F = 2.
    """
    require(0 < delta < 1, "delta", "in (0, 1)", delta)
    require(sessions >= 1, "sessions", "at least 1", sessions)
    return float(spread * np.sqrt(terms * total / sessions * (1 - delta) / delta))


def trust_spread(click_model: ClickModel) -> float:
    r""":math:`1 + \max_k \beta_k/\alpha_k` of the theorem; alpha must be positive where beta is."""
    spread = click_model.trust_spread
    if np.isinf(spread):
        rank = int(np.argmax((click_model.alpha <= 0) & (click_model.beta > 0))) + 1
        require(False, f"alpha at rank {rank}", "positive for safe DR's bound", 0.0)
    return spread
