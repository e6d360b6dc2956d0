"""Items as two tables: what is known of a query and a document, and what of a document alone.

A shop keeps a product's features once, not once for each query that finds it. The tables are
joined by the document's id while rows are read, in their order; the wide table is never made.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from saferank.data.damage import refuse_damaged
from saferank.data.frames import ArrowTable, as_arrow, is_table
from saferank.errors import InputError, require

TableSource = str | os.PathLike[str] | ArrowTable


class ItemStream(ABC):
    """Items that are read some rows at a time, from more than one file."""

    @abstractmethod
    def open(
        self, columns: Mapping[str, str] | None, rows: int
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Types of the columns, and the rows some at a time."""


@dataclass(frozen=True)
class ItemFiles(ItemStream):
    """One table of items in several Parquet files of the same columns, such as shards.

    Examples
    --------
    >>> import tempfile
    >>> from saferank.data import read_items
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name, query in (("a", 1), ("b", 2)):
    ...     table = pa.table({"query_id": [query], "doc_id": [7], "x": [0.5]})
    ...     pq.write_table(table, folder / name)
    >>> read_items(ItemFiles((folder / "a", folder / "b")))
    RankingData(2 queries, 2 documents, 1 features, unlabelled)
    """

    paths: tuple[Path, ...]

    def open(
        self, columns: Mapping[str, str] | None, rows: int
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Types of the columns, and the rows of one file after another."""
        del columns
        with refuse_damaged(self.paths[0], "readable parquet table"):
            schema = pq.read_schema(self.paths[0])
        return schema, (batch for path in self.paths for batch in self._rows(path, schema, rows))

    def _rows(self, path: Path, schema: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
        with refuse_damaged(path, "readable parquet table"):
            file = pq.ParquetFile(path)
        same = file.schema_arrow.names == schema.names
        require(same, str(path), f"with the columns {', '.join(schema.names)}", file.schema.names)
        return _rows(path, file, rows)


@dataclass(frozen=True, eq=False)
class ItemTables(ItemStream):
    """Pairs of queries and documents, and the documents' own features.

    Parameters
    ----------
    pairs : query_id, doc_id, features of the two together, and `production_score` or `label` where
        they are known: a Parquet file, or a table in memory (pandas, Polars, Arrow).
    documents : doc_id, each once, and features that do not depend on the query: likewise.

    Examples
    --------
    >>> from saferank.data import read_items
    >>> pairs = pa.table({"query_id": ["q", "q"], "doc_id": [1, 2], "bm25": [0.5, 0.7]})
    >>> documents = pa.table({"doc_id": [2, 1, 3], "price": [20.0, 10.0, 30.0]})
    >>> read_items(ItemTables(pairs, documents)).features
    array([[ 0.5, 10. ],
           [ 0.7, 20. ]], dtype=float32)
    """

    pairs: TableSource
    documents: TableSource

    def open(
        self, columns: Mapping[str, str] | None, rows: int
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Types of the joined columns, and its rows some at a time."""
        own = (columns or {}).get("doc_id", "doc_id")
        schema, batches = _batches(self.pairs, "items", rows)
        require(own in schema.names, "items", f"a table with a column `{own}`", schema.names)
        documents = _Documents.read(self.documents, own, schema)
        whole = pa.schema([*schema, *documents.table.schema])
        return whole, (documents.join(batch, whole) for batch in batches)


@dataclass(frozen=True, eq=False)
class _Documents:
    """The documents' features, and where each document stands."""

    own: str
    ids: pa.Array
    table: pa.Table
    """Features alone, each column in one piece."""
    text: bool
    """Whether ids are compared as text."""

    @classmethod
    def read(cls, source: TableSource, own: str, pairs: pa.Schema) -> _Documents:
        table = as_arrow(source, "documents") if is_table(source) else _file(source)
        name = own if own in table.column_names else "doc_id"
        require(name in table.column_names, "documents", f"with a column `{own}`",
                table.column_names)  # fmt: skip
        rest = table.drop_columns([name])
        both = [column for column in rest.column_names if column in pairs.names]
        if both:
            raise InputError(
                f"`{both[0]}` must be a column of the items or of the documents, not of both: a "
                f"document has one value of it, or a query and a document have."
            )
        text = _is_text(table.schema.field(name).type) != _is_text(pairs.field(own).type)
        ids = _plain(table[name].combine_chunks(), text)
        require(ids.null_count == 0, "documents", f"without missing `{name}`", ids.null_count)
        counts = pc.value_counts(ids)
        most = int(pc.max(counts.field("counts")).as_py() or 0)
        if most > 1:
            twice = counts.field("values")[pc.index(counts.field("counts"), most).as_py()]
            raise InputError(
                f"`documents` must have each document once; {twice} is there {most} times."
            )
        return cls(own, ids, rest.combine_chunks(), text)

    def join(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        """Rows of pairs with the features of their documents."""
        ids = _plain(batch.column(self.own), self.text)
        at = pc.index_in(ids, value_set=self.ids)
        lacking = pc.and_(pc.is_null(at), pc.is_valid(ids))
        missing = int(pc.sum(lacking).as_py() or 0)
        if missing:
            example = ids.filter(lacking)[0].as_py()
            raise InputError(
                f"`documents` must have every document of the items; {example!r} is not there, "
                f"nor are {missing - 1:,} more of its {len(ids):,} rows."
            )
        own = [column.chunk(0).take(at) if column.num_chunks else pa.nulls(len(ids), column.type)
               for column in self.table.columns]  # fmt: skip
        return pa.RecordBatch.from_arrays([*batch.columns, *own], schema=schema)


def _batches(
    source: TableSource, name: str, rows: int
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    if is_table(source):
        table = as_arrow(source, name)
        return table.schema, iter(table.to_batches(max_chunksize=rows))
    path = _path(source, name)
    with refuse_damaged(path, "readable parquet table"):
        file = pq.ParquetFile(path)
    return file.schema_arrow, _rows(path, file, rows)


def _rows(path: Path, file: pq.ParquetFile, rows: int) -> Iterator[pa.RecordBatch]:
    with refuse_damaged(path, "readable parquet table"):
        yield from file.iter_batches(batch_size=rows)


def _file(source: TableSource) -> pa.Table:
    path = _path(source, "documents")
    with refuse_damaged(path, "readable parquet table"):
        return pq.ParquetFile(path).read()


def _path(source: TableSource, name: str) -> Path:
    files = "a Parquet file that exists, where items are two tables"
    if is_table(source):
        raise InputError(f"`{name}` must be {files}; got a table in memory.")
    path = Path(os.fspath(source))
    good = path.is_file() and path.suffix.lower() in (".parquet", ".pq")
    require(good, name, files, str(path))
    return path


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _plain(ids: pa.Array, text: bool) -> pa.Array:
    """Ids as plain texts or 64-bit numbers, so that both sides compare."""
    if pa.types.is_dictionary(ids.type):
        ids = ids.dictionary_decode()
    if text or _is_text(ids.type):
        return ids.cast(pa.string())
    return ids.cast(pa.int64()) if pa.types.is_signed_integer(ids.type) else ids
