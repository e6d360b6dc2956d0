r"""The best policy under a promise for every way of looking: rank by rank.

A promise holds for every non-increasing examination if and only if it holds for "in the first j",
j = 1..K (see `examination`). With :math:`x_j(d)` the probability that d is in the first j, any
:math:`x_1 \le x_2 \le \dots \le x_K \le 1` with :math:`\sum_d x_j(d) = j` is that of some
distribution of rankings (Birkhoff). So each rank, from the first on, is given away as a whole:
every document is brought to its floor :math:`\kappa\,x_{0,j}(d)`, but for the slack
:math:`s\,j` of those with the lowest gains, and the rest goes to the largest gains. What was given
up may be given up at the next rank, too; so there is always enough for the floors.

Without slack each prefix is best by itself. With slack a prefix is best given those before it.
"""

from __future__ import annotations

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank._core.kernels import kernel, parallel_kernel
from saferank.safety.best_policy import by_gain


@kernel
def _give_up(order: Ints, owed: Floats, allowed: float) -> None:
    """Take what is allowed off what is owed to the documents with the lowest gains."""
    for place in range(order.size - 1, -1, -1):
        if allowed <= 0:
            return
        cut = min(owed[order[place]], allowed)
        owed[order[place]] -= cut
        allowed -= cut


@kernel
def _fill(order: Ints, reached: Floats, owed: Floats) -> None:
    """Give what is left of a rank to the largest gains, no document beyond certainty."""
    rest = 1.0 - owed.sum()
    if rest < 0:  # by rounding
        owed *= 1 / (1 - rest)
    for d in order:
        if rest <= 0:
            return
        more = min(rest, max(0.0, 1.0 - reached[d] - owed[d]))
        owed[d] += more
        rest -= more


@kernel
def best_ranks(order: Ints, table0: Floats, keep: float, slack: float, table: Floats) -> None:
    """Fill P(document at rank) of the best policy; `table0` is production's, `order` by gain."""
    documents = order.size
    reached, before, owed = np.zeros(documents), np.zeros(documents), np.empty(documents)
    for rank in range(min(table.shape[1], documents)):
        for d in range(documents):
            before[d] += table0[d, rank]
            owed[d] = max(0.0, min(keep * before[d], 1.0) - reached[d])
        _give_up(order, owed, slack * (rank + 1))
        _fill(order, reached, owed)
        for d in range(documents):
            table[d, rank] = owed[d]
            reached[d] += owed[d]


@parallel_kernel
def _of_queries(
    start: int, stop: int, gains: Floats, table0: Floats, offsets: Ints,
    promise: tuple[float, float], table: Floats,
) -> None:  # fmt: skip
    keep, slack = promise
    for query in range(start, stop):
        first, last = offsets[query], offsets[query + 1]
        own = table0[first:last]
        order = by_gain(gains[first:last], own.sum(axis=1))
        best_ranks(order, own, keep, slack, table[first:last])


def best_rank_tables(
    gains: Floats, table0: Floats, offsets: Ints, keep: float, slack: float
) -> Floats:
    """P(document at rank), documents x ranks, of the best policy for every way of looking.

    Parameters
    ----------
    gains : by which documents are preferred; only their order counts.
    table0 : production's P(document at rank), documents x ranks.
    offsets : cut documents into queries.
    keep, slack : the promise.

    Examples
    --------
    >>> best_rank_tables(np.array([1.0, 0.0]), np.array([[0.0, 1.0], [1.0, 0.0]]),
    ...                  np.array([0, 2]), 0.9, 0.0)
    array([[0.1, 0.9],
           [0.9, 0.1]])
    """
    gains = flat.check_values("gains", gains, offsets)
    table = np.zeros(table0.shape)
    _of_queries(offsets.size - 1, gains, table0, offsets, (keep, slack), table)
    return table
