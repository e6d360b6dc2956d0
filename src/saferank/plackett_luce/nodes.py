r"""Where the race is looked at: window and step of the quadrature over time, from the scores.

Exposures are integrals over log time. With log t = y - e^{a-y}, minus the log of the sum of the
rates, the integrand falls off doubly exponentially to the left, and the trapezoid rule in y
converges exponentially. A tolerance is shared out:

- left of the window nothing has arrived: P(any arrival by t) <= t times the sum of the rates;
- right of it the K first ranks are taken: with `rest` the sum of the rates without the K-1
  largest and rho = t rest,

  .. math:: P(\text{fewer than } K \text{ arrived by } t)
            \le e^{-\rho} \sum_{j<K} \binom{K-1}{j} \sum_{i \le j} \rho^i / i!

  (j of the K-1 fastest are late, and at most j of the others came instead);
- the step h: the log of the K-th arrival among many has the Fourier transform
  Gamma(K + i w) / Gamma(K), and the trapezoid rule errs by its value at w = 2 pi / h. Scores of
  every kind tried (equal to spread by 50, one document to thousands, K from 1 to 20) err by at
  most 3.4 times that; the step allows for 4.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, loggamma

from saferank._core.flat import Floats, Ints
from saferank._core.kernels import kernel
from saferank.errors import require
from saferank.plackett_luce import lanes

BEND = 0.6
"""`a` of the substitution: further left the window is longer, further right the step smaller."""

_WIDEST_GAP = 300.0
"""A document this far behind comes later but for a chance of e^-300; more tells no more."""


class Grid(NamedTuple):
    """What the nodes of every query have in common."""

    tolerance: float
    left: float
    step: float
    rho: float


@lru_cache(maxsize=4096)
def grid(tol: float, ranks: int, order: int) -> Grid:
    """The grid for exposures (`order` 0) or their gradient (1) right to `tol`, at weights <= 1."""
    require(1e-13 <= tol <= 0.1, "tol", "in [1e-13, 0.1]", tol)
    share = tol / 4
    return Grid(share, _left_end(share), _step(tol, ranks + order), _waiting(share, ranks))


def grids(tol: float, k: int, order: int, offsets: Ints) -> Floats:
    """The grid of each number of ranks that queries have: row r for r ranks, up to k.

    A query's own ranks decide, of which it has no more than documents: nothing beside it changes a
    bit, and ranks that no document can have cost nothing.
    """
    rows = np.zeros((k + 1, len(Grid._fields)))
    for ranks in np.unique(np.minimum(np.diff(offsets), k)):
        if ranks > 0:
            rows[ranks] = grid(tol, int(ranks), order)
    return rows


@kernel
def grid_of(grids: Floats, documents: int) -> Grid:
    """The grid of a query from those by number of ranks."""
    row = grids[min(grids.shape[0] - 1, documents)]
    return Grid(row[0], row[1], row[2], row[3])


@kernel
def longest(offsets: Ints) -> int:
    """The number of documents of the longest query."""
    most = 0
    for query in range(offsets.size - 1):
        most = max(most, offsets[query + 1] - offsets[query])
    return most


def _left_end(tolerance: float) -> float:
    """y with y - exp(a - y) = log(tolerance), by Newton's method."""
    goal, y = math.log(tolerance), BEND - 3.0
    for _ in range(50):
        curve = math.exp(BEND - y)
        y -= (y - curve - goal) / (1 + curve)
    return y


def _step(tol: float, arrivals: int) -> float:
    """h with 4 |Gamma(n + 2 pi i / h)| / Gamma(n) = tol, by bisection."""

    def enough(step: float) -> bool:
        error = loggamma(arrivals + 2j * math.pi / step).real - gammaln(arrivals)
        return bool(math.log(4) + error < math.log(tol))

    low, high = (0.01 if enough(0.01) else 0.002), 2.0
    require(enough(low), "weights", f"of fewer ranks for an exposure right to {tol:g}", arrivals)
    for _ in range(50):
        step = (low + high) / 2
        low, high = (step, high) if enough(step) else (low, step)
    return low


def _waiting(tolerance: float, ranks: int) -> float:
    """rho after which fewer than `ranks` arrivals are less likely than `tolerance`."""
    j = np.arange(ranks)
    choices = gammaln(ranks) - gammaln(j + 1) - gammaln(ranks - j)
    goal = -math.log(tolerance)
    rho, before = goal + 4 * ranks, math.inf
    while abs(rho - before) > 1e-6:
        partial = np.logaddexp.accumulate(j * math.log(rho) - gammaln(j + 1))
        before, rho = rho, goal + float(np.logaddexp.reduce(choices + partial))
    return rho


@kernel
def fastest(scores: Floats, ranks: int) -> Floats:
    """The `ranks` largest scores, largest first."""
    top = np.empty(ranks)
    for place in range(ranks):
        top[place] = -np.inf
    for score in scores:
        if score > top[ranks - 1]:
            place = ranks - 1
            while place > 0 and top[place - 1] < score:
                top[place] = top[place - 1]
                place -= 1
            top[place] = score
    return top


@kernel
def close_gaps(scores: Floats, top: Floats) -> float:
    """Shift the largest score to 0, wide gaps between the top ones closed; the last of these."""
    place = np.empty(top.size)
    place[0] = 0.0
    for rank in range(1, top.size):
        place[rank] = place[rank - 1] - min(top[rank - 1] - top[rank], _WIDEST_GAP)
    for index in range(scores.size):
        rank = top.size - 1
        while scores[index] > top[rank]:
            rank -= 1
        scores[index] = place[rank] - (top[rank] - scores[index])
    return float(place[top.size - 1])


@kernel
def sum_of_rates(scores: Floats, ceiling: float) -> float:
    """Sum of exp(min(score - ceiling, 0)) over scores padded to a multiple of eight."""
    rates = lanes.fill(0.0)
    for start in range(0, scores.size, lanes.WIDTH):
        behind = lanes.fill(ceiling) - lanes.load(scores, start)
        rate, _ = lanes.decay(lanes.between(0.0, behind, 700.0))
        rates = rates + rate
    return float(lanes.total(rates))
