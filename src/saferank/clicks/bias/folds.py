"""How much an estimate varies: fits that each leave out a part of the log (the jackknife).

Sessions of different queries are independent, so parts are of whole queries. Where a few queries
have nearly all of the sessions, parts are of documents; clicks of one session are then taken as
independent given relevance, as the click model has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from saferank._core.flat import Floats, Ints
from saferank._core.tails import student_quantile
from saferank.clicks.bias.em import Cells

Unit = Literal["queries", "documents", "users"]
FEWEST_QUERIES = 8.0
"""Queries of equal weight, below which parts of the log are of documents."""


@dataclass(frozen=True, eq=False)
class Folds:
    """Parts of the log, one of which is left out at a time."""

    of_document: Ints
    count: int
    unit: Unit
    effective: float
    """How many parts of equal weight say as much."""

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the errors."""
        return self.effective - 1

    def error(self, centre: Floats, left_out: Floats) -> Floats:
        """Standard errors of estimates, from the same estimates without each part (rows)."""
        spread = np.sum((left_out - centre) ** 2, axis=0)
        error: Floats = np.sqrt(spread * (self.count - 1) / self.count)
        return error

    def reach(self, confidence: float = 0.95) -> float:
        """How many standard errors an interval reaches to each side (Student's t)."""
        return float(student_quantile(0.5 - confidence / 2, self.freedom))


def make_folds(
    cells: Cells, query: Ints, most: int, *, linked: bool, unit: Unit = "queries"
) -> Folds | None:
    """At most so many parts of about equal weight; None if there is nothing to leave out.

    `query` is that of each document, or its user where `unit` says so. A document's weight is its
    impressions or, where only documents seen at several ranks count (`linked`), those outside its
    most frequent rank.
    """
    weight = cells.shown.sum(axis=1)
    if linked:
        weight -= cells.shown.max(axis=1)
    by_query = _sums(query, weight)
    if effective_number(by_query) < FEWEST_QUERIES:
        by_query, query, unit = weight, np.arange(weight.size), "documents"
    fold = _deal(by_query, most)[query]
    count = int(fold.max(initial=-1)) + 1
    effective = effective_number(_sums(fold, weight))
    return None if effective < 1.5 else Folds(fold, count, unit, effective)


def _sums(unit: Ints, weight: Floats) -> Floats:
    return np.bincount(unit, weight).astype(np.float64)


def effective_number(weight: Floats) -> float:
    """How many units of equal weight vary as much: (sum w)^2 / sum w^2; 0 without any weight.

    >>> effective_number(np.array([1.0, 1.0, 0.0])), effective_number(np.array([3.0, 1.0]))
    (2.0, 1.6)
    """
    squares = float(np.sum(weight**2))
    return float(weight.sum()) ** 2 / squares if squares > 0 else 0.0


def _deal(weight: Floats, most: int) -> Ints:
    """The part of each unit: the heaviest first, forwards and backwards in turn."""
    order = np.argsort(-weight, kind="stable")
    place = np.arange(weight.size) % (2 * most)
    part = np.empty(weight.size, dtype=np.int64)
    part[order] = np.minimum(place, 2 * most - 1 - place)
    return part
