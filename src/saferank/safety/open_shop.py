r"""A ranking drawn with given probabilities of each document at each rank, exactly.

By Birkhoff, a table whose columns (ranks) sum to 1 and whose rows (documents) to at most 1 is a
mixture of rankings; this is the preemptive open shop of Gonzalez and Sahni (1976). Documents that
together are shown at most once per ranking are taken together first, so that about 2 K groups are
left whatever the number of documents: a perfect matching of groups and ranks is subtracted as often
as it fits, mended where an entry is used up, and so on until the draw falls into one. Of the group
at a rank one document is then drawn, by its share of what the group has at that rank.
"""

from __future__ import annotations

import numpy as np

from saferank._core.flat import Floats, Ints
from saferank._core.kernels import kernel

_DUST = 1e-15


@kernel
def _groups(table: Floats) -> Ints:
    """Where each group of neighbouring documents that are shown at most once in all begins."""
    starts = np.zeros(table.shape[0] + 1, dtype=np.int64)
    count, total = 1, 0.0
    for d in range(table.shape[0]):
        own = table[d].sum()
        if total + own > 1.0 and d > starts[count - 1]:
            starts[count] = d
            count += 1
            total = 0.0
        total += own
    starts[count] = table.shape[0]
    return starts[: count + 1]


@kernel
def _square(table: Floats, starts: Ints) -> Floats:
    """Groups by ranks, and what groups are not shown in columns beyond, all of which sum to 1."""
    groups, ranks = starts.size - 1, table.shape[1]
    square = np.zeros((max(groups, ranks), max(groups, ranks)))
    column, room = ranks, 1.0
    for group in range(groups):
        for d in range(starts[group], starts[group + 1]):
            for rank in range(ranks):
                square[group, rank] += table[d, rank]
        absent = 1.0 - square[group, :ranks].sum()
        while absent > _DUST and column < groups:
            part = min(absent, room)
            square[group, column] += part
            absent -= part
            room -= part
            if room <= _DUST:
                column, room = column + 1, 1.0
    return square


@kernel
def _augment(square: Floats, row: int, rows: Ints, columns: Ints) -> bool:
    """Match one more row, along a shortest path of entries that are not used up."""
    size = rows.size
    came_from, queue = np.full(size, -1), np.empty(size, dtype=np.int64)
    queue[0], head, tail = row, 0, 1
    while head < tail:
        here = queue[head]
        head += 1
        for column in range(size):
            if square[here, column] <= _DUST or came_from[column] >= 0:
                continue
            came_from[column] = here
            if rows[column] >= 0:
                queue[tail] = rows[column]
                tail += 1
                continue
            while column >= 0:  # turn the path around
                above = came_from[column]
                following = columns[above]
                rows[column], columns[above] = above, column
                column = following
                if above == row:
                    break
            return True
    return False


@kernel
def _matching_at(square: Floats, chance: float) -> Ints:
    """The group at each column in the matching that a chance in [0, 1) falls into."""
    size = square.shape[0]
    rows, columns = np.full(size, -1), np.full(size, -1)
    last = rows.copy()
    while True:
        for row in range(size):
            if columns[row] < 0 and not _augment(square, row, rows, columns):
                return last  # what is left is rounding
        last = rows.copy()
        least = np.inf
        for row in range(size):
            least = min(least, square[row, columns[row]])
        chance -= least
        if chance < 0:
            return rows
        for row in range(size):
            column = columns[row]
            square[row, column] -= least
            if square[row, column] <= _DUST:
                rows[column], columns[row] = -1, -1


@kernel
def draw_ranking(table: Floats, chance: float, within: Floats, ranking: Ints) -> None:
    """Fill a ranking with the documents of its ranks: P(d at rank) is the table's.

    `chance` and `within`, one value per rank, are independent and uniform in [0, 1).
    """
    starts = _groups(table)
    matched = _matching_at(_square(table, starts), chance)
    for rank in range(ranking.size):
        first, last = starts[matched[rank]], starts[matched[rank] + 1]
        left = within[rank] * table[first:last, rank].sum()
        ranking[rank] = first
        for d in range(first, last):
            if table[d, rank] <= 0:
                continue
            ranking[rank] = d
            left -= table[d, rank]
            if left < 0:
                break
