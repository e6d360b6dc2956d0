"""Counts by ids onto the documents of items in memory, where nothing about them is unusual.

An engine takes longer to start than counts of moderate size to be put in their places. Whatever is
out of the ordinary (a broken rule, a document without an item, recorded propensities, users, parts
that are still to be drawn) is left to the engine, which can tell what it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from saferank._core import flat
from saferank._core.arrow_arrays import from_arrow, texts, whole_numbers
from saferank._core.flat import Array, Ints
from saferank.counts.arrays import MOST_RANKS, Counts
from saferank.counts.count_table import CountTable
from saferank.counts.split import GIVEN, Split
from saferank.data import RankingData
from saferank.data.frames import is_text

MOST_ROWS = 1 << 18
"""Of the counts, and documents of the items: with more, an engine is worth its start."""
MOST_EACH = 1 << 40
"""The largest count: so many rows of it add up without overflow."""
PARTS = ("learn", "judge")


class PlainAlignment(NamedTuple):
    """Counts in their places."""

    counts: Counts
    split: Split
    beyond: int
    """Impressions at ranks below the cut."""


class _Rows(NamedTuple):
    """The columns of the counts."""

    query: Ints
    document: Ints
    rank: Ints
    impressions: Ints
    clicks: Ints
    judged: Ints
    """1 where a row is to judge by, else 0."""
    sessions: Ints | None


def align_plainly(
    counts: CountTable, items: RankingData, ranks: int | None
) -> PlainAlignment | None:
    """The counts on the items' documents, or None where that is not plain.

    Parameters
    ----------
    counts
        Of at most `MOST_ROWS` rows.
    items
        Of at most as many documents, which are all that the counts know.
    ranks
        K; by default as many as the counts say, or the largest rank.
    """
    split = _split(counts)
    if split is None or max(counts.rows, items.documents) > MOST_ROWS or counts.rows == 0:
        return None
    rows = _rows(counts, items)
    if rows is None:
        return None
    top = max(counts.ranks_said, int(rows.rank.max())) if ranks is None else ranks
    sessions = _sessions(rows, items.queries, top)
    if not 1 <= top <= MOST_RANKS or sessions is None:
        return None
    within = rows.rank <= top
    cells = rows.document[within] * top + rows.rank[within] - 1

    def add_up(values: Ints) -> Ints:
        sums = np.zeros(items.documents * top, np.int64)
        np.add.at(sums, cells, values[within])
        return sums.reshape(items.documents, top)

    everything, judge = (
        Counts(
            items.offsets,
            add_up(rows.impressions * part),
            add_up(rows.clicks * part),
            own_sessions,
            feedback=counts.feedback,
        )
        for part, own_sessions in zip(
            (np.ones_like(rows.judged), rows.judged), sessions, strict=True
        )
    )
    sketches = counts.sketches
    if sketches is not None:
        everything = replace(everything, sketch=sketches.everything)
        judge = replace(judge, sketch=sketches.judge)
    aligned = everything if split.off else replace(everything, judge=judge)
    return PlainAlignment(aligned, split, int(rows.impressions[~within].sum()))


def _split(counts: CountTable) -> Split | None:
    """How the counts are in parts; None where that is still to be drawn."""
    said = counts.split
    if counts.has_parts:
        return GIVEN if said is None or said.off else said
    return said if said is not None and said.off else None


def _rows(counts: CountTable, items: RankingData) -> _Rows | None:
    """The columns as numbers, where every row keeps the rules and has an item."""
    names = counts.schema.names
    if {"propensity", "cluster"} & set(names):
        return None
    numbers = ["rank", "impressions", "clicks", *(["sessions"] if counts.has_sessions else [])]
    columns = ["query_id", "doc_id", *numbers, *(["part"] if counts.has_parts else [])]
    table = counts.to_arrow(columns)
    places = _places(table, items)
    values = [_whole(table[name]) for name in numbers]
    judged = _judged(table)
    if places is None or judged is None or any(value is None for value in values):
        return None
    rank, impressions, clicks = values[:3]
    assert rank is not None
    assert impressions is not None
    assert clicks is not None
    if rank.min() < 1 or (clicks > impressions).any():
        return None
    return _Rows(*places, rank, impressions, clicks, judged, [*values, None][3])


def _whole(column: pa.ChunkedArray) -> Ints | None:
    """Whole numbers from 0 to `MOST_EACH`."""
    if column.null_count or pa.types.is_uint64(column.type):
        return None
    values = from_arrow(column).astype(np.int64)
    return values if values.min() >= 0 and values.max() <= MOST_EACH else None


def _judged(table: pa.Table) -> Ints | None:
    if "part" not in table.column_names:
        return np.zeros(table.num_rows, np.int64)
    if not is_text(table.schema.field("part").type):
        return None
    return _index(table["part"], np.array(PARTS))


def _places(table: pa.Table, items: RankingData) -> tuple[Ints, Ints] | None:
    """The query and the document of each row; None where one of them has no item."""
    query_ids, doc_ids = items.ids()
    names, own_name = np.unique(doc_ids, return_inverse=True)
    query, name = _index(table["query_id"], query_ids), _index(table["doc_id"], names)
    if query is None or name is None or np.unique(query_ids).size < items.queries:
        return None
    keys = flat.query_of(items.offsets) * names.size + own_name
    order = np.argsort(keys)
    keys, wanted = keys[order], query * names.size + name
    at = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    if (keys[at] != wanted).any() or (np.diff(keys) == 0).any():
        return None
    return query, order[at]


def _index(column: pa.ChunkedArray, ids: Array) -> Ints | None:
    """The place of each value among different ids; None where one is not there."""
    text = ids.dtype.kind == "U"
    whole = pa.types.is_integer(column.type) and not pa.types.is_uint64(column.type)
    if not (is_text(column.type) if text else whole and ids.dtype.kind == "i"):
        return None
    among = texts(ids) if text else whole_numbers(ids)
    places = pc.index_in(column.cast(among.type), value_set=among)
    return None if places.null_count else from_arrow(places).astype(np.int64)


def _sessions(rows: _Rows, queries: int, top: int) -> tuple[Ints, Ints] | None:
    """Sessions of each query, and those of them to judge by; None where rows contradict another.

    They are said, or else the impressions of all documents at the top rank of each part.
    """
    part = rows.query * 2 + rows.judged
    each = np.zeros(2 * queries, np.int64)
    if rows.sessions is not None:
        each[part] = rows.sessions
        if (each[part] != rows.sessions).any():
            return None
    elif 1 <= top <= MOST_RANKS:
        at_rank = np.zeros((2 * queries, top), np.int64)
        within = rows.rank <= top
        np.add.at(at_rank, (part[within], rows.rank[within] - 1), rows.impressions[within])
        each = at_rank.max(axis=1)
    learn, judge = each.reshape(queries, 2).T
    return learn + judge, judge.copy()
