r"""What a query can lose at worst, exactly: sums of :math:`\max(0, x a_d - b_d)` over documents.

With :math:`a = \omega_0, b = \omega` this is the certificate's curve :math:`\eta(x)`; with
:math:`a = \omega_0 - \omega, b = (1-\kappa)\,\omega_0` it is the loss of serving the new policy
with probability x and production else. Both are convex and piecewise linear in x, so that the
largest x that stays within a slack follows from sorting the points :math:`b_d/a_d` where they bend.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from saferank._core.flat import Floats, Ints
from saferank._core.kernels import kernel, parallel_kernel

TOLERANCE = 1e-9
"""Exposures are known to this (times the largest rank weight); comparisons allow for as much."""

LOSS, LARGEST, KEPT, RATIO, GUARDED, EXCESS = range(6)
"""What is kept of each query; see `query_facts`."""


class Views(NamedTuple):
    """Exposures for each way of looking (view) that a promise is for."""

    exposures: Floats
    """Of new ranker, production and what is served, 3 x views x documents."""
    offsets: Ints
    totals: Floats
    """Z, queries x views."""
    tolerances: Floats
    """What comparisons of each view allow for."""


@kernel
def worst_loss(a: Floats, b: Floats, x: float) -> float:
    """Sum of max(0, x a - b)."""
    total = 0.0
    for d in range(a.size):
        total += max(0.0, x * a[d] - b[d])
    return total


@kernel
def largest_within(a: Floats, b: Floats, allowed: float) -> float:
    """The largest x in [0, 1] at which the sum of max(0, x a - b) is at most `allowed`.

    b is at least 0, so that the sum is 0 at x = 0.
    """
    if worst_loss(a, b, 1.0) <= allowed:
        return 1.0
    bends, bending, count = np.empty(a.size), np.empty(a.size, dtype=np.int64), 0
    for d in range(a.size):
        if a[d] > b[d]:  # others bend beyond 1
            bends[count], bending[count] = b[d] / a[d], d
            count += 1
    slope, level = 0.0, 0.0
    for place in np.argsort(bends[:count]):
        if slope * bends[place] - level > allowed:
            break
        slope += a[bending[place]]
        level += b[bending[place]]
    return min(1.0, max(0.0, (allowed + level) / slope)) if slope > 0 else 1.0


@kernel
def _first_point(a: float, b: float, grid: Floats) -> int:
    """The first point x of an ascending grid with x a > b, where a > b; its size if there is none.

    Exposures of a linear programme may be below 0 by its rounding: the first point is theirs.
    """
    guess = max(b, 0.0) / a if a > 0 else 0.0
    point = min(grid.size, int(guess * grid.size))
    while point > 0 and grid[point - 1] * a > b:
        point -= 1
    while point < grid.size and grid[point] * a <= b:
        point += 1
    return point


@kernel
def _raise_curve(
    a: Floats, b: Floats, total: float, grid: Floats, pieces: Floats, curve: Floats
) -> None:
    """Raise a curve, as shares of the total, to the sum of max(0, x a - b) at each point x.

    The sum is linear between bends: `pieces` (2 x points) takes slope and level that come with each
    point, so that every document is looked at once. No sum counts for more than x times the total.
    """
    pieces[:] = 0.0
    for d in range(a.size):
        if a[d] > b[d]:
            point = _first_point(a[d], b[d], grid)
            if point < grid.size:
                pieces[0, point] += a[d]
                pieces[1, point] += b[d]
    slope, level, scale = 0.0, 0.0, 1 / total if total > 0 else 1.0
    for point in range(grid.size):
        slope += pieces[0, point]
        level += pieces[1, point]
        lost = min(max(0.0, grid[point] * slope - level), grid[point] * total)
        curve[point] = max(curve[point], scale * lost)


@kernel
def lowest_ratio(omega: Floats, omega0: Floats, tolerance: float) -> float:
    """The smallest omega / omega0 of documents that production exposes, at most 1."""
    lowest = 1.0
    for d in range(omega.size):
        if omega0[d] > tolerance:
            lowest = min(lowest, omega[d] / omega0[d])
    return lowest


@kernel
def _mixing(new: Floats, old: Floats, keep: float, allowed: float) -> float:
    """The largest share of the new policy with which a query keeps its promise."""
    return largest_within(old - new, (1 - keep) * old, allowed)


@kernel
def _possible_loss(omega0: Floats, omega: Floats, kappa: float, total: float) -> float:
    """The worst loss; no more than all of production's, however much frequencies leave open."""
    return min(worst_loss(omega0, omega, kappa), kappa * total)


@kernel
def _facts_of_view(
    views: tuple[Floats, Floats, Floats], total: float, promise: tuple[float, float],
    tolerance: float, facts: Floats,
) -> None:  # fmt: skip
    new, old, served = views
    keep, slack = promise
    scale = 1 / total if total > 0 else 1.0
    loss = _possible_loss(old, new, keep, total)
    facts[LOSS] = max(facts[LOSS], scale * loss)
    facts[LARGEST] = max(facts[LARGEST], scale * _possible_loss(old, new, 1.0, total))
    facts[KEPT] = min(facts[KEPT], largest_within(old, new, slack * total + tolerance))
    facts[RATIO] = min(facts[RATIO], lowest_ratio(new, old, tolerance))
    facts[GUARDED] = max(facts[GUARDED], scale * _possible_loss(old, served, keep, total))
    facts[EXCESS] = max(facts[EXCESS], loss - slack * total - tolerance)


@parallel_kernel
def query_facts(
    start: int, stop: int, views: Views, promise: tuple[float, float], grid: Floats,
    facts: Floats, curves: Floats,
) -> None:  # fmt: skip
    """Fill a row of facts and the curves, unguarded and guarded, of each query.

    `promise` is (keep, slack). Facts are the worst over the views: eta(keep) and eta(1) as shares
    of Z, the largest kappa within the slack, the lowest ratio, eta(keep) of what is served, and by
    how much eta(keep) exceeds the slack.
    """
    exposures, offsets, totals, tolerances = views
    pieces = np.empty((2, grid.size))
    for query in range(start, stop):
        first, last = offsets[query], offsets[query + 1]
        facts[query, LOSS], facts[query, LARGEST], facts[query, GUARDED] = 0.0, 0.0, 0.0
        facts[query, KEPT], facts[query, RATIO], facts[query, EXCESS] = 1.0, 1.0, -np.inf
        curves[query] = 0.0
        for view in range(totals.shape[1]):
            new, old = exposures[0, view, first:last], exposures[1, view, first:last]
            served = exposures[2, view, first:last]
            total = totals[query, view]
            _facts_of_view((new, old, served), total, promise, tolerances[view], facts[query])
            _raise_curve(old, new, total, grid, pieces, curves[query, 0])
            _raise_curve(old, served, total, grid, pieces, curves[query, 1])


def blind_share(keep: float, slack: float) -> float:
    r"""The share of the new policy that keeps a promise whatever production and the policy do.

    At :math:`\lambda = 1 - \kappa + s` the loss is at most :math:`s \sum_d \omega_0 = s Z`.

    >>> round(blind_share(0.9, 0.01), 12)
    0.11
    """
    return min(1.0, 1 - keep + slack)


def with_shortfall(
    exposures: Floats, offsets: Ints, shortfall: Floats, share: float
) -> tuple[Floats, Ints]:
    r"""Exposures with one more document per query, for what production may show besides.

    If :math:`\sum_d \max(0, \omega_0 - \hat\omega_0) \le s`, a document with exposure s by
    production and 0 by the new policy bounds every loss: :math:`\eta(\kappa)` grows by
    :math:`\kappa s`, that of a mixture by :math:`s \max(0, \lambda - 1 + \kappa)`. `exposures`
    are those of `Views`, `shortfall` is queries x views, `share` is :math:`\lambda`.
    """
    if not shortfall.any():
        return exposures, offsets
    beside = np.stack([np.zeros_like(shortfall.T), shortfall.T, (1 - share) * shortfall.T])
    return np.insert(exposures, offsets[1:], beside, axis=2), offsets + np.arange(offsets.size)


@parallel_kernel
def _mixing_of_queries(
    start: int, stop: int, both: tuple[Floats, Floats], offsets: Ints, allowed: Floats,
    keep: float, shares: Floats,
) -> None:  # fmt: skip
    omega, omega0 = both
    for query in range(start, stop):
        first, last = offsets[query], offsets[query + 1]
        shares[query] = _mixing(omega[first:last], omega0[first:last], keep, allowed[query])


def mixing_shares(
    omega: Floats, omega0: Floats, offsets: Ints, allowed: Floats, keep: float
) -> Floats:
    """The largest share of the new policy with which each query keeps its promise."""
    shares = np.ones(offsets.size - 1)
    _mixing_of_queries(shares.size, (omega, omega0), offsets, allowed, keep, shares)
    return shares
