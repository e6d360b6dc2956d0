r"""What a query can lose at worst, exactly: sums of :math:`\max(0, x a_d - b_d)` over documents.

With :math:`a = \omega_0, b = \omega` this is the certificate's curve :math:`\eta(x)`; with
:math:`a = \omega_0 - \omega, b = (1-\kappa)\,\omega_0` it is the loss of serving the new policy
with probability x and production else. Both are convex and piecewise linear in x, so that the
largest x that stays within a slack follows from sorting the points :math:`b_d/a_d` where they bend.
"""

from __future__ import annotations

import numpy as np

from saferank._core.flat import Floats, Ints
from saferank._core.kernels import kernel, parallel_kernel

TOLERANCE = 1e-9
"""Exposures are known to this (times the largest rank weight); comparisons allow for as much."""

LOSS, LARGEST, KEPT, RATIO, MIXING, GUARDED = range(6)
"""What is kept of each query; see `query_facts`."""


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
    bends = np.empty(a.size)
    for d in range(a.size):
        bends[d] = b[d] / a[d] if a[d] > 0 else np.inf
    slope, level = 0.0, 0.0
    for d in np.argsort(bends):
        if bends[d] >= 1.0 or slope * bends[d] - level > allowed:
            break
        slope += a[d]
        level += b[d]
    return min(1.0, max(0.0, (allowed + level) / slope)) if slope > 0 else 1.0


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
def _facts(
    new: Floats, old: Floats, allowed: float, promise: tuple[float, float, float], grid: Floats,
    facts: Floats, curve: Floats, guarded: Floats,
) -> None:  # fmt: skip
    keep, tolerance, fixed = promise
    share = _mixing(new, old, keep, allowed + tolerance) if fixed < 0 else fixed
    mixed = share * new + (1 - share) * old
    facts[LOSS] = worst_loss(old, new, keep)
    facts[LARGEST] = worst_loss(old, new, 1.0)
    facts[KEPT] = largest_within(old, new, allowed + tolerance)
    facts[RATIO] = lowest_ratio(new, old, tolerance)
    facts[MIXING] = share
    facts[GUARDED] = worst_loss(old, mixed, keep)
    for point in range(grid.size):
        curve[point] = worst_loss(old, new, grid[point])
        guarded[point] = worst_loss(old, mixed, grid[point])


@parallel_kernel
def query_facts(
    start: int, stop: int, omega: Floats, omega0: Floats, offsets: Ints, allowed: Floats,
    promise: tuple[float, float, float], grid: Floats,
    facts: Floats, curves: Floats, guarded: Floats,
) -> None:  # fmt: skip
    """Fill a row of facts and the curves, unguarded and guarded, of each query.

    `promise` is (keep, tolerance, share): the guard's share of the new policy, or -1 for the
    largest that keeps the promise; `allowed` is the slack of each query. Facts are eta(keep),
    eta(1), the largest kappa within the slack, the lowest ratio, the guard's share of the new
    policy, and eta(keep) with the guard.
    """
    for query in range(start, stop):
        first, last = offsets[query], offsets[query + 1]
        _facts(
            omega[first:last], omega0[first:last], allowed[query], promise, grid,
            facts[query], curves[query], guarded[query],
        )  # fmt: skip


def blind_share(keep: float, slack: float) -> float:
    r"""The share of the new policy that keeps a promise whatever production and the policy do.

    At :math:`\lambda = 1 - \kappa + s` the loss is at most :math:`s \sum_d \omega_0 = s Z`.

    >>> round(blind_share(0.9, 0.01), 12)
    0.11
    """
    return min(1.0, 1 - keep + slack)


def with_shortfall(
    omega: Floats, omega0: Floats, offsets: Ints, shortfall: Floats
) -> tuple[Floats, Floats, Ints]:
    r"""Exposures with one more document per query, for what production may show besides.

    If :math:`\sum_d \max(0, \omega_0 - \hat\omega_0) \le s`, a document with exposure s by
    production and 0 by the new policy bounds every loss: :math:`\eta(\kappa)` grows by
    :math:`\kappa s`, that of a mixture by :math:`s \max(0, \lambda - 1 + \kappa)`.
    """
    if not shortfall.any():
        return omega, omega0, offsets
    ends = offsets[1:]
    wider = offsets + np.arange(offsets.size)
    return np.insert(omega, ends, 0.0), np.insert(omega0, ends, shortfall), wider


@parallel_kernel
def _mixing_of_queries(
    start: int, stop: int, omega: Floats, omega0: Floats, offsets: Ints, allowed: Floats,
    keep: float, shares: Floats,
) -> None:  # fmt: skip
    for query in range(start, stop):
        first, last = offsets[query], offsets[query + 1]
        shares[query] = _mixing(omega[first:last], omega0[first:last], keep, allowed[query])


def mixing_shares(
    omega: Floats, omega0: Floats, offsets: Ints, allowed: Floats, keep: float
) -> Floats:
    """The largest share of the new policy with which each query keeps its promise."""
    shares = np.ones(offsets.size - 1)
    _mixing_of_queries(shares.size, omega, omega0, offsets, allowed, keep, shares)
    return shares
