r"""The best policy under a promise with floors for groups: more constraints of the same kind.

.. math:: \max g \cdot \omega \quad\text{with the promise, and}\quad
          \sum_{d \in u} \omega(d) \ge \text{floor}_u \text{ for every group u}

With multipliers :math:`\nu_u` of the floors this is the best policy for the gains
:math:`g_d + \nu_{u(d)}`; the multipliers follow the floors that are missed, by steps that shrink,
and the mean of the policies on the way tends to the optimum. What is served is that mean mixed with
production, by the largest share that keeps every floor: so floors and promise are kept however far
the multipliers have come, and only gain is left behind. Where the plain best policy, mixed so, is
worth more, it is taken. (Gap to the optimum by a linear programme: docs/fairness.md.)
"""

from __future__ import annotations

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank.objectives.fairness import sums_by
from saferank.safety.best_policy import best_exposures
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
    plain, share = _mixed(best, omega0, offsets, groups, weights, promise)
    bound = np.flatnonzero(share < 1)
    if bound.size == 0:
        return best
    places, cuts = flat.gather(offsets, bound)
    own = (gains[places], omega0[places], cuts)
    on_the_way = _priced(*own, groups[places], weights, promise, allowed[bound])
    priced, _ = _mixed(on_the_way, own[1], cuts, groups[places], weights, promise)
    better = _worth(own[0], priced, cuts) > _worth(own[0], plain[places], cuts)
    chosen = flat.repeat_per_document(better, cuts)
    plain[places] = np.where(chosen, priced, plain[places])
    return plain


def _priced(
    gains: Floats,
    omega0: Floats,
    offsets: Ints,
    groups: Ints,
    weights: Floats,
    promise: Promise,
    allowed: Floats,
) -> Floats:
    """The mean of best policies whose gains have prices of the floors in them."""
    floors = GroupLosses.of(omega0, omega0, offsets, groups, promise)
    spread = _spread(gains, offsets)
    scaled = gains / np.where(spread > 0, spread, 1.0)
    total = flat.repeat_per_document(flat.query_sums(omega0, offsets), floors.offsets)
    prices, mean = np.zeros(floors.floor.size), np.zeros(gains.size)
    for step in range(STEPS):
        worth = scaled + prices[floors.unit]
        omega = best_exposures(worth, omega0, offsets, weights, promise.keep, allowed)
        exposed = sums_by(floors.unit, omega, floors.floor.size)
        missing = (floors.floor - exposed) / np.maximum(total, 1e-300)
        prices = np.maximum(0.0, prices + PACE * missing / np.sqrt(step + 1))
        mean += (step + 1) * omega  # late policies are nearer to the optimum
    return mean / (STEPS * (STEPS + 1) / 2)


def _mixed(
    omega: Floats,
    omega0: Floats,
    offsets: Ints,
    groups: Ints,
    weights: Floats,
    promise: Promise,
) -> tuple[Floats, Floats]:
    """A policy mixed with production until every floor is kept, and its share of each query."""
    found = GroupLosses.of(omega, omega0, offsets, groups, promise)
    share = found.shares(TOLERANCE * float(weights.max(initial=0.0)))
    own = flat.repeat_per_document(share, offsets)
    return own * omega + (1 - own) * omega0, share


def _worth(gains: Floats, omega: Floats, offsets: Ints) -> Floats:
    worth: Floats = flat.query_sums(gains * omega, offsets)
    return worth


def _spread(gains: Floats, offsets: Ints) -> Floats:
    """Largest less smallest gain of each document's query."""
    cuts = offsets[:-1][np.diff(offsets) > 0]
    if cuts.size == 0:
        return np.zeros(0)
    spread = np.maximum.reduceat(gains, cuts) - np.minimum.reduceat(gains, cuts)
    return np.repeat(spread, np.diff(np.append(cuts, offsets[-1])))
