r"""The best policy under a promise with floors for groups: more constraints of the same kind.

.. math:: \max g \cdot \omega \quad\text{with the promise, and}\quad
          \sum_{d \in u} \omega(d) \ge \text{floor}_u \text{ for every group u}

With multipliers :math:`\nu_u` of the floors this is the best policy for the gains
:math:`g_d + \nu_{u(d)}`; the multipliers follow the floors that are missed, by steps that shrink,
and the mean of the policies on the way tends to the optimum. Floors that it still misses are made
up by exposure handed over between documents (`floor_transfers`), and where that is not enough by
production mixed in: so floors and promise are kept however far the multipliers have come, and only
gain is left behind. Where the plain best policy, mended so, is worth more, it is taken. (Gap to the
optimum by a linear programme: docs/fairness.md.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank.objectives.fairness import sums_by
from saferank.safety.best_policy import best_exposures
from saferank.safety.floor_transfers import Claims, transfer_to_floors
from saferank.safety.floors import GroupLosses
from saferank.safety.losses import TOLERANCE
from saferank.safety.promise import Promise

STEPS = 100
"""Of the multipliers: more leave less gain behind."""
PACE = 5.0
"""Of the first step: the rise of a price, of the range of gains, where all exposure is missing."""


def best_with_floors(
    gains: Floats,
    omega0: Floats,
    offsets: Ints,
    groups: Ints,
    weights: Floats,
    promise: Promise,
    allowed: Floats,
) -> Floats:
    """Exposures of large gain that keep a promise and every group's floor, of all queries.

    Parameters
    ----------
    gains, omega0, offsets, weights, allowed
        As for `best_policy.best_exposures`.
    groups
        The number of each document's group.
    promise
        `keep`, and the floors.

    Returns
    -------
    ndarray
        One exposure per document.

    Examples
    --------
    >>> half = Promise(0.0, 0.0, floor=0.5)
    >>> best_with_floors(np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([0, 2]),
    ...                  np.array([0, 1]), np.array([1.0]), half, np.zeros(1))
    array([0.5, 0.5])
    """
    best = best_exposures(gains, omega0, offsets, weights, promise.keep, allowed)
    least = TOLERANCE * float(weights.max(initial=0.0))
    share = GroupLosses.of(best, omega0, offsets, groups, promise).shares(least)
    bound = np.flatnonzero(share < 1)
    if bound.size == 0:
        return best
    places, cuts = flat.gather(offsets, bound)
    own = (gains[places], omega0[places], cuts, groups[places])
    room = _Room(*own, weights, promise, allowed[bound])
    plain = room.floored(best[places], least)
    priced = room.floored(room.priced(), least)
    better = room.worth(priced) > room.worth(plain)
    best[places] = np.where(flat.repeat_per_document(better, cuts), priced, plain)
    return best


@dataclass(frozen=True, eq=False)
class _Room:
    """Queries whose floors bind: what is gained there, and what is to be kept."""

    gains: Floats
    omega0: Floats
    offsets: Ints
    groups: Ints
    weights: Floats
    promise: Promise
    allowed: Floats

    def worth(self, omega: Floats) -> Floats:
        """Gain of each query."""
        result: Floats = flat.query_sums(self.gains * omega, self.offsets)
        return result

    def losses(self, omega: Floats) -> GroupLosses:
        """Of the groups of each query."""
        return GroupLosses.of(omega, self.omega0, self.offsets, self.groups, self.promise)

    def priced(self) -> Floats:
        """The mean of best policies whose gains have prices of the floors in them."""
        floors = self.losses(self.omega0)
        spread = _spread(self.gains, self.offsets)
        scaled = self.gains / np.where(spread > 0, spread, 1.0)
        total = flat.repeat_per_document(flat.query_sums(self.omega0, self.offsets), floors.offsets)
        prices, mean = np.zeros(floors.floor.size), np.zeros(self.gains.size)
        for step in range(STEPS):
            worth = scaled + prices[floors.unit]
            omega = best_exposures(
                worth, self.omega0, self.offsets, self.weights, self.promise.keep, self.allowed
            )
            exposed = sums_by(floors.unit, omega, floors.floor.size)
            missing = (floors.floor - exposed) / np.maximum(total, 1e-300)
            prices = np.maximum(0.0, prices + PACE * missing / np.sqrt(step + 1))
            mean += (step + 1) * omega  # late policies are nearer to the optimum
        return mean / (STEPS * (STEPS + 1) / 2)

    def floored(self, omega: Floats, tolerance: float) -> Floats:
        """A policy with floors: exposure is handed over, and what still lacks is mixed in."""
        losses, least = self.losses(omega), self.promise.keep * self.omega0
        lost = flat.query_sums(np.maximum(0.0, least - omega), self.offsets)
        claims = Claims(self.gains, least, losses.unit, losses.floor, self.weights)
        left = np.maximum(0.0, self.allowed - lost)
        moved = transfer_to_floors(omega, self.offsets, claims, losses.exposure, left)
        share = self.losses(moved).shares(tolerance)
        own = flat.repeat_per_document(share, self.offsets)
        mixed: Floats = own * moved + (1 - own) * self.omega0
        return mixed


def _spread(gains: Floats, offsets: Ints) -> Floats:
    """Largest less smallest gain of each document's query."""
    cuts = offsets[:-1][np.diff(offsets) > 0]
    if cuts.size == 0:
        return np.zeros(0)
    spread = np.maximum.reduceat(gains, cuts) - np.minimum.reduceat(gains, cuts)
    return np.repeat(spread, np.diff(np.append(cuts, offsets[-1])))
