"""Counts on disk: a Parquet table of `query_id, doc_id, rank, impressions, clicks, sessions`.

One row a document and rank at which it was shown; ranks count from 1. `sessions` repeats the number
of sessions of the row's query; a table without it is read too (a query then had as many sessions as
its most shown rank has impressions).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from saferank import flat
from saferank.data import RankingData
from saferank.errors import InputError, require
from saferank.files import whole_file
from saferank.flat import Array, Ints
from saferank.logs.counts import Counts

COLUMNS = ("query_id", "doc_id", "rank", "impressions", "clicks")
MOST_CELLS = 1 << 31
_RANKS = b"saferank.ranks"
_DOCUMENTS_A_GROUP = 1 << 18


def save_counts(counts: Counts, data: RankingData, path: str | Path) -> None:
    """Write counts under the ids of their data; the file is there whole or not at all."""
    import pyarrow.parquet as pq

    same = np.array_equal(counts.offsets, data.offsets)
    require(same, "counts", f"of the documents of {data!r}", repr(counts))
    writer = _Rows(counts, data)
    with (
        whole_file(Path(path)) as temporary,
        pq.ParquetWriter(temporary, writer.schema, compression="zstd") as out,
    ):
        for first in range(0, max(1, counts.documents), _DOCUMENTS_A_GROUP):
            out.write_table(writer.table(first, first + _DOCUMENTS_A_GROUP))


class _Rows:
    """The rows of counts, some documents at a time."""

    def __init__(self, counts: Counts, data: RankingData) -> None:
        import pyarrow as pa

        self.counts = counts
        self.query_ids, self.doc_ids = data.ids()
        self.query = flat.query_of(data.offsets)
        # A query with sessions in which nothing was shown keeps them in a row without impressions.
        shown = flat.query_sums(counts.impressions.sum(axis=1), counts.offsets) > 0
        silent = (counts.sessions > 0) & ~shown & (data.sizes > 0)
        self.extra = np.zeros(counts.documents, dtype=np.bool_)
        self.extra[counts.offsets[:-1][silent]] = True
        kinds = [pa.string() if ids.dtype.kind == "U" else pa.int64() for ids in data.ids()]
        types = [*kinds, pa.int32(), pa.int64(), pa.int64(), pa.int64()]
        fields = list(zip((*COLUMNS, "sessions"), types, strict=True))
        self.schema = pa.schema(fields, metadata={_RANKS: str(counts.ranks).encode()})

    def table(self, first: int, last: int) -> Any:
        import pyarrow as pa

        impressions = self.counts.impressions[first:last]
        written = impressions > 0
        written[:, 0] |= self.extra[first:last]
        document, rank = np.nonzero(written)
        query = self.query[first:last][document]
        columns = [
            self.query_ids[query],
            self.doc_ids[first:last][document],
            (rank + 1).astype(np.int32),
            impressions[document, rank],
            self.counts.clicks[first:last][document, rank],
            self.counts.sessions[query],
        ]
        return pa.table([pa.array(column) for column in columns], schema=self.schema)


def load_counts(
    path: str | Path, data: RankingData, *, ranks: int | None = None, skip_unknown: bool = False
) -> Counts:
    """Read counts and align them by their ids with the data's documents.

    `ranks` is K; not given, it is the file's own. Rows of documents that the data does not have are
    an `InputError`, or left out with `skip_unknown`. Rows of the same document and rank add up.
    """
    table = _read(Path(path))
    document = documents_of(table["query_id"], table["doc_id"], data)
    unknown = document < 0
    if unknown.any() and not skip_unknown:
        row = table.slice(int(np.argmax(unknown)), 1).to_pylist()[0]
        raise InputError(
            f"`{path}` must count documents of the data; {int(unknown.sum())} of {unknown.size} "
            f"rows do not, such as query {row['query_id']!r}, document {row['doc_id']!r}."
        )
    return _counts(table, document, data.offsets, ranks, path)


def read_counts(path: str | Path, *, ranks: int | None = None) -> Counts:
    """Read counts on their own: the documents are those of the file, in no order that matters."""
    table = _read(Path(path))
    query, doc = (_codes(table[name], f"{name} in {path}") for name in ("query_id", "doc_id"))
    pairs, document = np.unique(query * (int(doc.max(initial=0)) + 1) + doc, return_inverse=True)
    first_row = np.zeros(pairs.size, dtype=np.int64)
    first_row[document] = np.arange(document.size)
    queries = int(query.max(initial=-1)) + 1
    size = np.bincount(query[first_row], minlength=queries)
    offsets = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
    return _counts(table, document, offsets, ranks, path)


def _codes(column: Any, name: str) -> Ints:
    """Ids as numbers from 0 on."""
    require(column.null_count == 0, name, "there in every row", "null")
    encoded = column.combine_chunks().dictionary_encode()
    if hasattr(encoded, "combine_chunks"):
        encoded = encoded.combine_chunks()
    return np.asarray(encoded.indices).astype(np.int64)


def documents_of(query_ids: Any, doc_ids: Any, data: RankingData) -> Ints:
    """Where in the data the documents of Arrow columns of ids are; -1 where they are not."""
    import pyarrow as pa
    import pyarrow.compute as pc

    known_queries, known_docs = data.ids()
    unique_docs, doc_code = np.unique(known_docs, return_inverse=True)

    def code(column: Any, known: Array) -> Ints:
        names = pa.array(known)
        if pa.types.is_integer(column.type) != pa.types.is_integer(names.type):
            column, names = column.cast(pa.string()), names.cast(pa.string())
        found = pc.index_in(column.cast(names.type), value_set=names)
        return np.asarray(pc.fill_null(found, -1)).astype(np.int64)

    query, doc = code(query_ids, known_queries), code(doc_ids, unique_docs)
    keys = flat.query_of(data.offsets) * max(1, unique_docs.size) + doc_code
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    require(
        bool(np.all(np.diff(keys) > 0)), "doc_ids", "different within a query", "the same twice"
    )
    if keys.size == 0:
        return np.full(query.size, -1, dtype=np.int64)
    wanted = query * unique_docs.size + doc
    at = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    return np.where((query >= 0) & (doc >= 0) & (keys[at] == wanted), order[at], -1)


def _counts(
    table: Any, document: Ints, offsets: Ints, ranks: int | None, path: str | Path
) -> Counts:
    """Rows added up by document (-1: left out) and rank."""
    rank = _numbers(table, "rank", path) - 1
    ranks = _ranks(table, rank, path) if ranks is None else ranks
    require(ranks >= 1, "ranks", "at least 1", ranks)
    inside = bool(np.all((rank >= 0) & (rank < ranks)))
    require(inside, f"rank in {path}", f"in 1..{ranks}", "others")
    documents = int(offsets[-1])
    cells = documents * ranks
    require(cells <= MOST_CELLS, "documents x ranks", f"at most {MOST_CELLS}", cells)
    known = document >= 0
    cell = document[known] * ranks + rank[known]
    shown, clicked = (
        _added(cell, _numbers(table, name, path)[known], cells).reshape(documents, ranks)
        for name in ("impressions", "clicks")
    )
    counts = Counts(offsets, shown, clicked)
    if "sessions" not in table.column_names:
        return counts
    query = flat.query_of(offsets)[document[known]]
    return replace(counts, sessions=_sessions(table, query, known, counts.queries, path))


def _read(path: Path) -> Any:
    """The table of a Parquet file whose columns have been looked at before they are read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    require(path.is_file(), "path", "a file that exists", str(path))
    try:
        with pq.ParquetFile(path) as file:
            there = file.schema_arrow
            missing = [name for name in COLUMNS if name not in there.names]
            require(not missing, str(path), f"with columns {', '.join(COLUMNS)}", there.names)
            for name in COLUMNS[:2]:
                kind = there.field(name).type
                if pa.types.is_dictionary(kind):
                    kind = kind.value_type
                sane = pa.types.is_integer(kind) or pa.types.is_string(kind)
                require(
                    sane or pa.types.is_large_string(kind), name, "whole numbers or strings", kind
                )
            extra = [name for name in ("sessions",) if name in there.names]
            return file.read(columns=[*COLUMNS, *extra])
    except pa.ArrowException as error:
        raise InputError(f"`{path}` must be a Parquet file of counts; {error}.") from error


def _numbers(table: Any, name: str, path: str | Path) -> Ints:
    import pyarrow as pa

    column = table[name]
    require(pa.types.is_integer(column.type), f"{name} in {path}", "whole numbers", column.type)
    require(column.null_count == 0, f"{name} in {path}", "there in every row", "null")
    return np.asarray(column.cast(pa.int64()))


def _ranks(table: Any, rank: Ints, path: str | Path) -> int:
    said = (table.schema.metadata or {}).get(_RANKS, b"0")
    require(said.isdigit() and len(said) <= 9, f"the ranks of {path}", "a number", said)
    return max(1, int(said), int(rank.max(initial=-1)) + 1)


def _added(cell: Ints, numbers: Ints, cells: int) -> Ints:
    """Numbers summed by cell, in whole numbers."""
    total = np.zeros(cells, dtype=np.int64)
    np.add.at(total, cell, numbers)
    return total


def _sessions(table: Any, query: Ints, known: Array, queries: int, path: str | Path) -> Ints:
    said = _numbers(table, "sessions", path)[known]
    sessions = np.zeros(queries, dtype=np.int64)
    sessions[query] = said
    same = bool(np.all(sessions[query] == said))
    require(same, f"sessions in {path}", "the same in all rows of a query", "different numbers")
    return sessions
