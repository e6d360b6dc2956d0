r"""The best policy under a promise: per query, exposures of largest gain among all that keep it.

The exposures that some distribution of rankings can have are the base polytope of
:math:`f(S) = w_1 + \dots + w_{|S|}` (weights largest first). Among them

.. math:: \max \sum_d g_d\,\omega(d) \quad\text{with}\quad
          \sum_d \max(0, \kappa\,\omega_0(d) - \omega(d)) \le s

With a multiplier :math:`\theta` for the promise each document has a concave value of two pieces:
slope :math:`g + \theta` up to its floor :math:`\kappa\,\omega_0`, then g. The greedy algorithm by
slope is exact for separable concave functions on a polymatroid, :math:`\theta` is found by
bisection, and at the critical one the two solutions are mixed.

As f depends on the number of documents only, the largest values decide how far a document can
rise: the greedy algorithm keeps a *tight* set, which can rise no more, and the largest of the
others.
"""

from __future__ import annotations

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank._core.kernels import kernel, parallel_kernel

_HALVINGS = 48


@kernel
def _insert(leaders: Ints, count: int, values: Floats, document: int) -> int:
    """Put a document among the leaders, largest value first; how many there are then."""
    place = min(count, leaders.size)
    while place > 0 and values[leaders[place - 1]] < values[document]:
        if place < leaders.size:
            leaders[place] = leaders[place - 1]
        place -= 1
    if place < leaders.size:
        leaders[place] = document
        count = min(count + 1, leaders.size)
    return count


@kernel
def _remove(leaders: Ints, count: int, document: int) -> int:
    """Take a document from the leaders, if it is among them; how many there are then."""
    kept = 0
    for place in range(count):
        if leaders[place] != document:
            leaders[kept] = leaders[place]
            kept += 1
    return kept


@kernel
def _room_above(
    leaders: Ints, count: int, values: Floats, total: float, sums: Floats, tight: int
) -> tuple[float, int]:
    """How high one more document can rise beside the leaders, and with how many it is then tight.

    `total` is the sum of all values that are not tight; -1: all of them become tight with it.
    """
    lowest, above, with_it = sums[sums.size - 1] - sums[tight] - total, 0.0, -1
    for place in range(min(count + 1, sums.size - 1 - tight)):
        room = sums[tight + place + 1] - sums[tight] - above
        if room <= lowest:
            lowest, with_it = room, place
        if place < count:
            above += values[leaders[place]]
    return max(lowest, 0.0), with_it


@kernel
def _fits_below(
    leaders: Ints, count: int, values: Floats, floor: float, total: float, sums: Floats, tight: int
) -> bool:
    """Whether a floor no higher than the last of all leaders that count fits: by the sum alone."""
    if count < sums.size - 1 - tight or floor > values[leaders[count - 1]]:
        return False
    return bool(floor < sums[sums.size - 1] - sums[tight] - total)


@kernel
def _missing(floors: Floats, omega: Floats) -> float:
    missing = 0.0
    for d in range(floors.size):
        missing += max(0.0, floors[d] - omega[d])
    return missing


@kernel
def _greedy(
    order: Ints, gains: Floats, floors: Floats, sums: Floats, theta: float, omega: Floats
) -> float:
    """Fill omega with the best exposures at a multiplier; returns what falls below the floors.

    `order` sorts documents by gain; `sums` are the weights summed up, from 0 for no rank on.
    """
    ranks = sums.size - 1
    is_raised, is_tight = np.zeros(order.size, dtype=np.bool_), np.zeros(order.size, dtype=np.bool_)
    leaders = np.empty(ranks, dtype=np.int64)
    count, tight, total, floor, free = 0, 0, 0.0, 0, 0
    omega[:] = 0.0
    while free < order.size and tight < ranks:
        to_floor = floor < order.size and gains[order[floor]] + theta >= gains[order[free]]
        d = order[floor] if to_floor else order[free]
        floor, free = (floor + 1, free) if to_floor else (floor, free + 1)
        if is_tight[d]:
            continue
        if to_floor and _fits_below(leaders, count, omega, floors[d], total, sums, tight):
            is_raised[d], omega[d] = True, floors[d]
            total += floors[d]
            continue
        if is_raised[d]:
            count = _remove(leaders, count, d)
            total -= omega[d]
        highest, with_it = _room_above(leaders, count, omega, total, sums, tight)
        if to_floor and floors[d] < highest:
            is_raised[d], omega[d] = True, floors[d]
            total += floors[d]
            count = _insert(leaders[: ranks - tight], count, omega, d)
            continue
        omega[d] = max(omega[d], highest)
        if with_it < 0:
            break  # all of the weight is given away
        is_tight[d] = True
        for place in range(with_it):
            is_tight[leaders[place]] = True
            total -= omega[leaders[place]]
        for place in range(with_it, count):
            leaders[place - with_it] = leaders[place]
        tight += with_it + 1
        count = min(count - with_it, ranks - tight)
    return _missing(floors, omega)


@kernel
def by_gain(gains: Floats, exposed: Floats) -> Ints:
    """Documents by gain, largest first; of equal ones those that production exposes more."""
    order = np.argsort(-exposed, kind="mergesort")
    return order[np.argsort(-gains[order], kind="mergesort")]


@kernel
def best_of_query(
    gains: Floats, omega0: Floats, weights: Floats, keep: float, allowed: float, omega: Floats
) -> None:
    """Fill omega with the exposures of largest gain that keep the promise.

    `weights` are those of the ranks that the query has documents for, largest first.
    """
    order, floors = by_gain(gains, omega0), keep * omega0
    sums = np.zeros(weights.size + 1)
    for rank in range(weights.size):
        sums[rank + 1] = sums[rank] + weights[rank]
    # all floors come first from the range of the gains on; twice that is beyond rounding
    low, high = 0.0, 2 * (gains[order[0]] - gains[order[order.size - 1]])
    lost = _greedy(order, gains, floors, sums, low, omega)
    if lost <= allowed:
        return
    safe, trial = np.empty(omega.size), np.empty(omega.size)
    kept = _greedy(order, gains, floors, sums, high, safe)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if middle <= low or middle >= high:
            break
        missing = _greedy(order, gains, floors, sums, middle, trial)
        if missing <= allowed:
            high, kept = middle, missing
            safe, trial = trial, safe
        else:
            low, lost = middle, missing
            for d in range(omega.size):
                omega[d] = trial[d]
    share = min(1.0, max(0.0, (allowed - kept) / (lost - kept)))
    for d in range(omega.size):
        omega[d] = share * omega[d] + (1 - share) * safe[d]


@kernel
def largest_first(weights: Floats, documents: int) -> tuple[Ints, Floats]:
    """The ranks that a query has documents for by weight, largest first, and their weights."""
    own = weights[: min(weights.size, documents)]
    ranks = np.argsort(-own, kind="mergesort")
    return ranks, own[ranks]


@parallel_kernel
def _best_of_queries(
    start: int, stop: int, gains: Floats, omega0: Floats, offsets: Ints, weights: Floats,
    keep: float, allowed: Floats, omega: Floats,
) -> None:  # fmt: skip
    for query in range(start, stop):
        first, last = offsets[query], offsets[query + 1]
        if last > first:
            _, own = largest_first(weights, last - first)
            best_of_query(
                gains[first:last], omega0[first:last], own, keep, allowed[query],
                omega[first:last],
            )  # fmt: skip


def best_exposures(
    gains: Floats, omega0: Floats, offsets: Ints, weights: Floats, keep: float, allowed: Floats
) -> Floats:
    r"""Exposures of largest gain that keep a promise, of each document of all queries.

    Parameters
    ----------
    gains : what one unit of exposure of each document is worth; finite.
    omega0 : production's exposures with the same rank weights.
    offsets : cut documents into queries.
    weights : of the ranks, at least 0; in any order.
    keep : the share :math:`\kappa` of production's utility to keep.
    allowed : per query, the largest :math:`\sum_d \max(0, \kappa\,\omega_0 - \omega)`.

    Examples
    --------
    >>> best_exposures(np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([0, 2]),
    ...                np.array([1.0]), 0.9, np.array([0.05]))
    array([0.15, 0.85])
    """
    gains = flat.check_values("gains", gains, offsets)
    omega = np.zeros(omega0.size)
    _best_of_queries(offsets.size - 1, gains, omega0, offsets, weights, keep, allowed, omega)
    return omega
