r"""Moves: documents change places in production's list by chance, whatever made the list.

A symmetric matrix S with rows of sum 1 says that the document at place r of production's list is
shown at rank k with probability S(r, k): every two places are swapped with some probability. By
Birkhoff some distribution of rankings does that, and `draw_ranking` draws from it.

**The promise holds for every production.** Document d stands at place r with probability P0(d, r),
so its exposure is :math:`\sum_r P_0(d, r) \sum_k S(r, k) w_k`, and as max(0, .) is convex

.. math:: \sum_d \max(0, \kappa\,\omega_0(d) - \omega(d))
          \le \sum_r \max\Big(0, \kappa\,w_r - \sum_k S(r, k)\,w_k\Big),

which does not depend on P0. With :math:`b = 1 - \kappa + s` it is at most s Z if every place gives
up at most the share b of its weight,

.. math:: \sum_k S(r, k)\,\max(0, 1 - w_k / w_r) \le b ;

and the promise for every way of looking holds if documents leave for a lower place with probability
at most b. A shorter list takes the rows and columns that it has, and what would go beyond stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saferank._core.flat import Floats, Ints
from saferank.errors import require
from saferank.safety.drawing import draw_by_table, uniforms
from saferank.safety.examination import Examination
from saferank.safety.losses import TOLERANCE
from saferank.safety.promise import Promise

_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Moves:
    """Probabilities with which the document at each place of a list is shown at each rank.

    matrix : places x places, symmetric, rows of sum 1.
    k : ranks that are shown; places beyond are documents that production does not show.

    >>> swap = Moves(np.array([[0.9, 0.1], [0.1, 0.9]]), 2)
    >>> swap.at(3)[0]
    array([0.9, 0.1])
    """

    matrix: Floats
    k: int

    def __post_init__(self) -> None:
        matrix = np.ascontiguousarray(self.matrix, dtype=np.float64)
        square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] > 0
        require(square, "moves", "a square matrix", matrix.shape)
        sane = bool(np.isfinite(matrix).all() and np.all(matrix >= 0))
        require(sane and np.allclose(matrix, matrix.T, atol=_ROUNDING), "moves",
                "symmetric and at least 0", "another matrix")  # fmt: skip
        sums = matrix.sum(axis=1)
        even = bool(np.all(np.abs(sums - 1) <= _ROUNDING))
        require(even, "rows of moves", "of sum 1", float(sums[np.argmax(np.abs(sums - 1))]))
        require(1 <= self.k <= matrix.shape[0], "k", f"in 1..{matrix.shape[0]}", self.k)
        object.__setattr__(self, "matrix", matrix)

    @classmethod
    def of_swaps(cls, swaps: Floats, k: int) -> Moves:
        """Of the probabilities of swapping two places (above the diagonal).

        >>> Moves.of_swaps(np.array([[0.0, 0.2], [0.0, 0.0]]), 2).matrix
        array([[0.8, 0.2],
               [0.2, 0.8]])
        """
        both = np.triu(swaps, 1)
        both = both + both.T
        stays = 1 - both.sum(axis=1)
        # by rounding it may be below 0
        return cls(both + np.diag(np.where(np.abs(stays) < _ROUNDING, 0.0, stays)), k)

    @property
    def places(self) -> int:
        """How far down production's list documents are taken from."""
        return int(self.matrix.shape[0])

    def at(self, size: int) -> Floats:
        """The matrix of a list of some size, size x min(k, size): where each place is shown."""
        own = min(size, self.places)
        square = np.eye(size)
        square[:own, :own] = self.matrix[:own, :own]
        square[np.arange(own), np.arange(own)] += self.matrix[:own, own:].sum(axis=1)
        return np.ascontiguousarray(square[:, : min(self.k, size)])

    def table(self, table0: Floats, sizes: Ints) -> Floats:
        """P(document at rank), documents x k, by production's P(document at place).

        `table0` is documents x places (at least min(places, the largest size)), `sizes` are those
        of each document's query.
        """
        table = np.zeros((table0.shape[0], self.k))
        capped = np.minimum(sizes, self.places)
        for size in np.unique(capped).tolist():
            rows = np.flatnonzero(capped == size)
            own = self.at(size)
            table[rows, : own.shape[1]] = table0[rows, :size] @ own
        return table

    def rank(self, order: Ints, k: int, words: tuple[str, str | int, object]) -> Ints:
        """The first k of a list for a session, from production's order of it.

        `words` are salt, session and query: the same ones always give the same ranking.
        """
        within = order[: self.places]
        table = self.at(within.size)
        shown = np.full(min(k, within.size), -1, dtype=np.int64)
        chance = uniforms(*words, 1 + table.shape[1])
        draw_by_table(table, -np.arange(within.size, dtype=np.float64), chance, shown)
        ranking: Ints = np.concatenate([within[shown], order[self.places :]])[:k]
        return ranking

    def losses(self, looking: Examination, promise: Promise) -> tuple[float, float, float]:
        """What any list of at least k documents can lose at worst, for any relevance.

        The loss beyond the share that the promise gives up, the largest loss at all (both as shares
        of the largest possible utility, of the worst way of looking), and by how much the former
        exceeds the slack.
        """
        beyond, most, excess = 0.0, 0.0, -np.inf
        for view in looking.views:
            weights = np.zeros(self.places)
            weights[: self.k] = view[: self.k]
            kept = self.matrix @ weights
            total = weights.sum()
            lost, all_lost = (
                float(np.maximum(0.0, share * weights - kept).sum())
                for share in (promise.keep, 1.0)
            )
            beyond, most = max(beyond, lost / total), max(most, all_lost / total)
            excess = max(excess, lost - promise.slack * total - TOLERANCE * float(weights.max()))
        return beyond, most, excess
