"""Which ranks can be compared: documents that a log has shown at both of two ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saferank._core.flat import Floats, Ints
from saferank.counts.arrays import Counts

_BLOCK = 1 << 18


@dataclass(frozen=True, eq=False)
class Overlap:
    """Documents seen at both of two ranks, and how many sessions they are worth (both K x K).

    A document shown n times at one rank and m times at the other is worth n m / (n + m) sessions:
    the difference of its two click rates has the variance of that many.
    """

    documents: Ints
    weight: Floats

    @property
    def ranks(self) -> int:
        """K, the number of ranks."""
        return int(self.documents.shape[0])

    def components(self, least: float = 0.0) -> list[list[int]]:
        """Ranks (from 1) that links of more than `least` sessions connect, directly or not.

        >>> counts = Counts([0, 3], [[1, 1, 0], [1, 1, 0], [0, 0, 2]], np.zeros((3, 3), int))
        >>> overlap(counts).components()
        [[1, 2], [3]]
        """
        from scipy.sparse.csgraph import connected_components

        _, part = connected_components(self.weight > least, directed=False)
        return [(np.flatnonzero(part == index) + 1).tolist() for index in np.unique(part)]


def overlap(counts: Counts, *, least: int = 1) -> Overlap:
    """How much each two ranks of a log overlap, by documents shown `least` times at both.

    Parameters
    ----------
    counts
        Impressions of documents at ranks.
    least
        Impressions that a document needs at both of two ranks.

    Returns
    -------
    Overlap
        `weight` is ranks x ranks: effective impressions that two ranks share.

    Examples
    --------
    >>> overlap(Counts([0, 2], [[6, 3], [0, 3]], [[1, 0], [0, 0]])).weight
    array([[0., 2.],
           [2., 0.]])
    """
    ranks = counts.ranks
    documents, weight = np.zeros((ranks, ranks), dtype=np.int64), np.zeros((ranks, ranks))
    for start in range(0, counts.documents, _BLOCK):
        shown = counts.impressions[start : start + _BLOCK].astype(np.float64)
        for first in range(ranks):
            for second in range(first + 1, ranks):
                n, m = shown[:, first], shown[:, second]
                both = (n >= least) & (m >= least)
                documents[first, second] += np.count_nonzero(both)
                weight[first, second] += np.sum(n[both] * m[both] / (n[both] + m[both]))
    return Overlap(documents + documents.T, weight + weight.T)
