"""Documents of all queries lie in one flat array; `offsets` (queries + 1) cuts it into queries."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from saferank.errors import InputError, require

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

CELLS = 1 << 17
"""Documents times columns of a table that is made for some queries at a time: a megabyte."""


def check_offsets(offsets: npt.ArrayLike, documents: int) -> Ints:
    """Offsets as int64, or `InputError` unless they cut `documents` into queries.

    >>> check_offsets([0, 2, 5], 5)
    array([0, 2, 5])
    """
    cuts = np.ascontiguousarray(offsets)
    require(cuts.ndim == 1 and cuts.size >= 1, "offsets", "one-dimensional", cuts.shape)
    require(cuts.dtype.kind in "iu", "offsets", "whole numbers", cuts.dtype.name)
    cuts = cuts.astype(np.int64, copy=False)
    require(cuts[0] == 0, "offsets[0]", "0", int(cuts[0]))
    require_each(cuts[1:] >= cuts[:-1], "offsets", "non-decreasing", cuts[1:], first=1)
    require(cuts[-1] == documents, "offsets[-1]", f"the {documents} documents", int(cuts[-1]))
    return cuts


def require_each(
    holds: Array, name: str, rule: str, values: npt.ArrayLike, *, first: int = 0
) -> None:
    """Raise `InputError` with the first value for which `holds` is False, and where it is.

    `first` is the position of the first value, where that is not 0.

    >>> labels = np.array([0.0, 2.0, -1.0])
    >>> require_each(labels >= 0, "labels", "at least 0", labels)
    Traceback (most recent call last):
    saferank.errors.InputError: `labels` must be at least 0; got -1.0 at position 2.
    """
    if np.all(holds):
        return
    where = tuple(int(index) for index in np.argwhere(~np.asarray(holds))[0])
    value = np.asarray(values)[where]
    place = f"position {where[0] + first}" if len(where) == 1 else f"position {where}"
    raise InputError(f"`{name}` must be {rule}; got {value} at {place}.")


def check_values(name: str, values: npt.ArrayLike, offsets: Ints) -> Floats:
    """One finite float64 a document, or `InputError` that names the query of the first bad one."""
    flat = np.ascontiguousarray(values, dtype=np.float64)
    documents = int(offsets[-1])
    require(flat.shape == (documents,), name, f"of shape ({documents},)", flat.shape)
    finite = np.isfinite(flat)
    if not finite.all():
        where = int(np.argmin(finite))
        query = int(np.searchsorted(offsets, where, side="right")) - 1
        raise InputError(f"`{name}` must be finite; got {flat[where]} in query {query}.")
    return flat


def sizes(offsets: Ints) -> Ints:
    """Documents of each query."""
    return np.diff(offsets)


def query_of(offsets: Ints) -> Ints:
    """The query of each document.

    >>> query_of(np.array([0, 2, 2, 3]))
    array([0, 0, 2])
    """
    return np.repeat(np.arange(offsets.size - 1), np.diff(offsets))


def repeat_per_document(values: Array, offsets: Ints) -> Array:
    """One value a query, repeated for each of its documents."""
    return np.repeat(values, np.diff(offsets), axis=0)


def query_sums(values: Array, offsets: Ints) -> Array:
    """Sum over the documents of each query; 0 for a query without any.

    >>> query_sums(np.array([1.0, 2.0, 3.0]), np.array([0, 2, 2, 3]))
    array([3., 0., 3.])
    """
    filled = np.diff(offsets) > 0
    total = np.zeros((offsets.size - 1, *values.shape[1:]), dtype=values.dtype)
    if filled.any():
        total[filled] = np.add.reduceat(values, offsets[:-1][filled], axis=0)
    return total


def top(scores: Floats, k: int, offsets: Ints) -> Ints:
    """Positions of the k highest scores of each query (ties in their order), then -1.

    >>> top(np.array([1.0, 3.0, 2.0, 5.0]), 2, np.array([0, 3, 4]))
    array([[ 1,  2],
           [ 3, -1]])
    """
    order = np.lexsort((-scores, query_of(offsets)))
    places = offsets[:-1, None] + np.arange(k)
    inside = places < offsets[1:, None]
    positions = order[np.minimum(places, max(scores.size - 1, 0))] if scores.size else places
    return np.where(inside, positions, -1)


def query_ranges(offsets: Ints, documents: int) -> Iterator[tuple[int, int]]:
    """First and last (not included) of queries with about so many documents, at least one query.

    >>> list(query_ranges(np.array([0, 2, 3, 9, 10]), 4))
    [(0, 2), (2, 3), (3, 4)]
    """
    first, queries = 0, offsets.size - 1
    while first < queries:
        last = int(np.searchsorted(offsets, offsets[first] + documents, side="right")) - 1
        last = min(max(last, first + 1), queries)
        yield first, last
        first = last


def table_ranges(offsets: Ints, columns: int) -> Iterator[tuple[int, int]]:
    """Ranges of queries whose documents times columns are about `CELLS`.

    Tables of documents and ranks that are only summed up need never be there for all queries.

    >>> list(table_ranges(np.array([0, 2, 3, 9, 10]), CELLS // 4))
    [(0, 2), (2, 3), (3, 4)]
    """
    return query_ranges(offsets, max(CELLS // columns, 1))


def halve_queries(offsets: Ints, documents: int) -> list[tuple[int, int]]:
    """Ranges of queries with about so many documents: all are halved, their halves are, and so on.

    Halves are as even as whole queries allow, so that neighbouring ranges share work evenly.

    >>> halve_queries(np.array([0, 2, 3, 8, 10, 12]), 3)
    [(0, 2), (2, 3), (3, 4), (4, 5)]
    """
    size = int(offsets[-1] - offsets[0])
    levels = round(math.log2(size / documents)) if size > documents else 0
    borders = [0, offsets.size - 1] if offsets.size > 1 else []
    for _ in range(levels):
        pairs = list(itertools.pairwise(borders))
        borders += [_middle(offsets, first, last) for first, last in pairs if last - first > 1]
        borders.sort()
    return list(itertools.pairwise(borders))


def _middle(offsets: Ints, first: int, last: int) -> int:
    """The query between two where the documents before and from it on are most nearly equal."""
    sides = np.abs(2 * offsets[first + 1 : last] - offsets[first] - offsets[last])
    return first + 1 + int(np.argmin(sides))


def gather(offsets: Ints, queries: Ints) -> tuple[Ints, Ints]:
    """Positions of the documents of `queries`, in that order, and the offsets they then have.

    >>> gather(np.array([0, 2, 3, 6]), np.array([2, 0]))
    (array([3, 4, 5, 0, 1]), array([0, 3, 5]))
    """
    length = np.diff(offsets)[queries]
    cuts = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
    positions = np.arange(cuts[-1]) + np.repeat(offsets[:-1][queries] - cuts[:-1], length)
    return positions, cuts
