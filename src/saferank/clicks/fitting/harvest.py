r"""Click models by intervention harvesting: the same document at two ranks is an experiment.

No relevance is fitted. A document shown n times at one rank and m times at another weighs
n m / (n + m). Position bias: of every pair of ranks, the ratio of the weighted click rates; all
pairs together by weighted least squares on logarithms. Trust bias: click rates x, y of documents at
two ranks lie on a line y = A x + B, of which only noisy rates are seen; moments with the noise
taken out (:math:`c(c-1) / n(n-1)` has mean p^2) give :math:`A = \sqrt{\mathrm{Var}\,y /
\mathrm{Var}\,x}` and B; lines are chained from the reference rank along the strongest links.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from saferank import flat
from saferank.clicks.fitting.scale import Canonical
from saferank.errors import InputError
from saferank.flat import Floats, Ints
from saferank.logs import Counts


@dataclass(frozen=True, eq=False)
class Pair:
    """Sums over the documents seen at two ranks (counted from 0), one row a query."""

    first: int
    second: int
    sums: Floats


def position_pairs(counts: Counts) -> list[Pair]:
    """Of each pair of ranks and query: weighted click rates at both, and their variances."""
    pairs = []
    for seen in _seen_at_both(counts, least=1):
        x, y, w = seen.c / seen.n, seen.d / seen.m, seen.weight
        terms = [w * x, w * y, w**2 * x * (1 - x) / seen.n, w**2 * y * (1 - y) / seen.m]
        pairs.append(seen.pair(terms, counts.queries))
    return pairs


def trust_pairs(counts: Counts) -> list[Pair]:
    """Of each pair of ranks and query: weight, first and second moments of click probabilities."""
    pairs = []
    for seen in _seen_at_both(counts, least=2):
        x, y, w = seen.c / seen.n, seen.d / seen.m, seen.weight
        xx, yy = x * (seen.c - 1) / (seen.n - 1), y * (seen.d - 1) / (seen.m - 1)
        pairs.append(seen.pair([w, w * x, w * y, w * xx, w * yy], counts.queries))
    return pairs


def harvest_position(pairs: list[Pair], weight: Floats, ranks: int, reference: int) -> Canonical:
    """Slopes of ranks against the reference, from pairs whose queries count by `weight`."""
    rows, values = [], []
    for pair in pairs:
        x, y, x_variance, y_variance = weight @ pair.sums
        if x <= 0 or y <= 0:
            continue
        precision = 1 / np.sqrt(max(x_variance / x**2 + y_variance / y**2, 1e-12))
        row = np.zeros(ranks)
        row[pair.first], row[pair.second] = precision, -precision
        rows.append(row)
        values.append(precision * np.log(x / y))
    slope = np.full(ranks, np.nan)
    slope[reference - 1] = 1.0
    if rows:
        design = np.array(rows)
        linked = np.flatnonzero(np.any(design != 0, axis=0) & (np.arange(ranks) != reference - 1))
        slope[linked] = np.exp(np.linalg.lstsq(design[:, linked], np.array(values))[0])
    return Canonical(slope, np.zeros(ranks))


def harvest_trust(pairs: list[Pair], weight: Floats, ranks: int, reference: int) -> Canonical:
    """Slopes and intercepts against the reference, along the strongest links."""
    moments = {(pair.first, pair.second): weight @ pair.sums for pair in pairs}
    distance = np.zeros((ranks, ranks))
    for (first, second), sums in moments.items():
        if sums[0] > 0:
            distance[first, second] = 1 / sums[0]
    tree = minimum_spanning_tree(distance)
    order, parent = breadth_first_order(tree, reference - 1, directed=False)
    slope, intercept = np.full(ranks, np.nan), np.full(ranks, np.nan)
    slope[reference - 1], intercept[reference - 1] = 1.0, 0.0
    for rank in order[1:].tolist():
        near = int(parent[rank])
        a, b = _line(moments, near, rank)
        slope[rank], intercept[rank] = a * slope[near], a * intercept[near] + b
    return Canonical(slope, intercept)


def _line(moments: dict[tuple[int, int], Floats], near: int, far: int) -> tuple[float, float]:
    """A and B of: click probability at `far` = A (click probability at `near`) + B."""
    if near < far:
        total, x, y, xx, yy = moments[near, far]
    else:
        total, y, x, yy, xx = moments[far, near]
    x_mean, y_mean = x / total, y / total
    x_variance, y_variance = xx / total - x_mean**2, yy / total - y_mean**2
    if x_variance <= 0 or y_variance <= 0:
        raise InputError(
            f"ranks {near + 1} and {far + 1} cannot be compared: with the noise taken out, "
            "documents do not differ in clicks there; take more sessions, or position bias."
        )
    slope = float(np.sqrt(y_variance / x_variance))
    return slope, float(y_mean - slope * x_mean)


@dataclass(frozen=True, eq=False)
class _Seen:
    """Documents seen at two ranks: impressions n, m and clicks c, d there, and their query."""

    first: int
    second: int
    query: Ints
    n: Floats
    m: Floats
    c: Floats
    d: Floats

    @property
    def weight(self) -> Floats:
        return self.n * self.m / (self.n + self.m)

    def pair(self, terms: list[Floats], queries: int) -> Pair:
        sums = [np.bincount(self.query, term, minlength=queries) for term in terms]
        return Pair(self.first, self.second, np.column_stack(sums))


def _seen_at_both(counts: Counts, *, least: int) -> Iterator[_Seen]:
    """Of every pair of ranks, the documents shown at both at least so often, if there are any."""
    shown, clicked = counts.impressions, counts.clicks
    query = flat.query_of(counts.offsets)
    for first in range(counts.ranks):
        for second in range(first + 1, counts.ranks):
            at = np.flatnonzero((shown[:, first] >= least) & (shown[:, second] >= least))
            if at.size:
                n, m, c, d = (
                    table[at, rank].astype(np.float64)
                    for table in (shown, clicked)
                    for rank in (first, second)
                )
                yield _Seen(first, second, query[at], n, m, c, d)
