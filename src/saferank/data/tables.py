"""Items as tables: one row a query-document pair, in Parquet, CSV or LETOR text.

Columns `query_id` and `doc_id` (strings or whole numbers), the features (every other numeric
column, or in Parquet one list column `features`), optionally `label` and `production_score`.
Rows of a query need not stand together; queries and their documents keep the order of first
appearance. Ids in CSV are whole numbers where all of them are, in their usual spelling.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from saferank.data.ids import from_words
from saferank.data.letor import LIMIT, read_letor
from saferank.data.ranking import Features, RankingData
from saferank.errors import InputError, require
from saferank.flat import Array, Ints

IDS: Final = ("query_id", "doc_id")
VALUES: Final = ("label", "production_score")
LIST: Final = "features"
PARQUET: Final = (".parquet", ".pq")
CSV: Final = (".csv", ".csv.gz")
TEXT: Final = tuple(
    end + gz for end in (".txt", ".letor", ".svm", ".svmlight", ".dat") for gz in ("", ".gz")
)


def kind_of(path: Path) -> str:
    """`parquet`, `csv` or `letor`, by the end of the name."""
    for kind, ends in {"parquet": PARQUET, "csv": CSV, "letor": TEXT}.items():
        if path.name.lower().endswith(ends):
            return kind
    known = ", ".join((*PARQUET, *CSV, *TEXT))
    raise InputError(f"`path` must end with one of {known}; got {path.name!r}.")


def read_items(path: str | Path) -> RankingData:
    """Read items from a table or LETOR text, by the end of the name.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "items.csv"
    >>> _ = path.write_text("query_id,doc_id,bm25,label\\nb,1,0.5,2\\na,7,1.5,0\\nb,3,0,1\\n")
    >>> items = read_items(path)
    >>> items.query_ids, items.doc_ids, items.feature_names, items.features[:, 0]
    (array(['b', 'a'], dtype='<U1'), array([1, 3, 7]), ('bm25',), array([0.5, 0. , 1.5], ...))
    """
    source = Path(path)
    kind = kind_of(source)
    require(source.is_file(), "path", "a file that exists", str(path))
    if kind == "letor":
        return read_letor(source, sort=True)
    try:
        table = _Table(source, *(_open_parquet if kind == "parquet" else _open_csv)(source))
        for batch in table.batches:
            table.add(batch)
    except (pa.ArrowException, OSError, csv.Error) as error:
        text = " ".join(str(error).split())
        raise InputError(f"`{source}` must be a readable {kind} table; {text}.") from error
    return table.data(spelled_ids=kind == "csv")


Opened = tuple[pa.Schema, Iterator[pa.RecordBatch]]


def _open_parquet(path: Path) -> Opened:
    file = pq.ParquetFile(path)
    return file.schema_arrow, file.iter_batches(batch_size=1 << 14)


def _open_csv(path: Path) -> Opened:
    """Types are set, not guessed: guesses from the first rows break on later ones."""
    with pa.input_stream(path, compression="detect") as stream:
        header = next(csv.reader([_first_line(path, stream)]), [])
    types = {name: pa.string() if name in IDS else pa.float64() for name in header}
    _check_names(path, header)
    convert = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
    reader = pyarrow.csv.open_csv(path, convert_options=convert)
    return reader.schema, iter(reader)


def _first_line(path: Path, stream: Any) -> str:
    start: bytes = stream.read(1 << 20)
    try:
        return start.split(b"\n", 1)[0].decode("utf-8-sig").rstrip("\r")
    except UnicodeDecodeError as error:
        raise InputError(f"`{path}` must be a CSV table in UTF-8; {error}.") from error


def _check_names(path: Path, names: list[str]) -> None:
    for name in IDS:
        require(name in names, str(path), f"a table with a column `{name}`", names)
    twice = sorted({name for name in names if names.count(name) > 1})
    require(not twice, str(path), "a table of different column names", twice)


def _is_number(kind: Any) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    )


def _is_list(kind: Any) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _floats(column: pa.Array) -> Array:
    """Numbers as float64; null is NaN."""
    numbers: Array = (
        column.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy(zero_copy_only=False)
    )
    return numbers


def _usable(values: Array) -> Array:
    """Finite in float32."""
    with np.errstate(over="ignore"):
        return np.isfinite(values.astype(np.float32))


@dataclass
class _Table:
    """A table while it is read: what each batch held, checked."""

    path: Path
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    rows: int = 0
    ids: dict[str, list[pa.Array]] = field(default_factory=lambda: {name: [] for name in IDS})
    values: dict[str, list[Array]] = field(default_factory=dict)
    features: list[Features] = field(default_factory=list)

    def __post_init__(self) -> None:
        _check_names(self.path, self.schema.names)
        self.columns = [name for name in self.schema.names if name not in (*IDS, *VALUES)]
        self.listed = LIST in self.columns and _is_list(self.schema.field(LIST).type)
        if self.listed:
            rule = f"a table with features in the list column `{LIST}` or in others, not both"
            require(self.columns == [LIST], str(self.path), rule, self.columns)
        self.values = {name: [] for name in VALUES if name in self.schema.names}
        for name in (*self.values, *([] if self.listed else self.columns)):
            kind = self.schema.field(name).type
            require(_is_number(kind), f"{self.path}: {name}", "a column of numbers", str(kind))

    def add(self, batch: pa.RecordBatch) -> None:
        for name in IDS:
            self.ids[name].append(self._identities(name, batch.column(name)))
        for name, parts in self.values.items():
            parts.append(self._numbers(name, batch.column(name)))
        block = self._lists(batch.column(LIST)) if self.listed else self._matrix(batch)
        taken = (self.rows + block.shape[0]) * block.shape[1] * 4
        require(taken <= LIMIT, str(self.path), f"features of at most {LIMIT} bytes", taken)
        self.features.append(block)
        self.rows += batch.num_rows

    def _identities(self, name: str, column: pa.Array) -> pa.Array:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        kind = column.type
        if pa.types.is_integer(kind):
            column = column.cast(pa.int64())
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
            column = column.cast(pa.large_string())
        else:
            rule = "a column of strings or whole numbers"
            require(False, f"{self.path}: {name}", rule, str(kind))
        empty = column.is_null().to_numpy(zero_copy_only=False)
        if not pa.types.is_integer(kind):
            empty = empty | pc.equal(column, "").fill_null(True).to_numpy(zero_copy_only=False)
        if empty.any():
            self._refuse(int(np.argmax(empty)), f"an id in column `{name}`", None)
        return column

    def _numbers(self, name: str, column: pa.Array) -> Array:
        """A column as float64, or a refusal where one is null, not finite or beyond float32."""
        values = _floats(column)
        good = _usable(values)
        if name == "label":
            good &= values >= 0
        if not good.all():
            rule = "number, at least 0," if name == "label" else "number"
            row = int(np.argmin(good))
            self._refuse(row, f"a finite {rule} in column `{name}`", float(values[row]))
        return values

    def _matrix(self, batch: pa.RecordBatch) -> Features:
        block = np.empty((batch.num_rows, len(self.columns)), dtype=np.float32)
        for place, name in enumerate(self.columns):
            block[:, place] = self._numbers(name, batch.column(name))
        return block

    def _lists(self, column: pa.Array) -> Features:
        column = column.cast(pa.large_list(column.type.value_type))
        lengths = pc.list_value_length(column).fill_null(-1).to_numpy(zero_copy_only=False)
        width = self.features[0].shape[1] if self.features else int(lengths[0])
        ragged = (lengths != width) | (lengths < 0)
        if ragged.any():
            row = int(np.argmax(ragged))
            self._refuse(row, f"a list of {max(width, 0)} features", int(lengths[row]))
        inner = column.flatten()
        require(_is_number(inner.type), f"{self.path}: {LIST}", "lists of numbers", str(inner.type))
        values = _floats(inner)
        good = _usable(values)
        if not good.all():
            bad = int(np.argmin(good))
            self._refuse(bad // width, "finite features", float(values[bad]))
        return values.astype(np.float32).reshape(len(column), width)

    def _refuse(self, row: int, expected: str, got: object) -> NoReturn:
        number = self.rows + row + 1
        raise InputError(f"{self.path}, row {number}: expected {expected}; got {got}.")

    def data(self, *, spelled_ids: bool) -> RankingData:
        """Everything together, grouped by query."""
        require(self.rows > 0, str(self.path), "a table with at least one row", "none")
        query, query_ids = _encoded(self.ids["query_id"], spelled_ids)
        document, doc_ids = _encoded(self.ids["doc_id"], spelled_ids)
        self._check_pairs(query, document, query_ids, doc_ids)
        order = np.argsort(query, kind="stable")
        values = {name: np.concatenate(parts)[order] for name, parts in self.values.items()}
        return RankingData(
            _in_order(self.features, order),
            np.concatenate([[0], np.cumsum(np.bincount(query))]),
            labels=values.get("label"),
            query_ids=query_ids,
            doc_ids=doc_ids[document[order]],
            feature_names=None if self.listed else tuple(self.columns),
            production=values.get("production_score"),
        )

    def _check_pairs(self, query: Ints, document: Ints, query_ids: Array, doc_ids: Array) -> None:
        pair = query * doc_ids.size + document
        order = np.argsort(pair, kind="stable")
        again = order[1:][np.diff(pair[order]) == 0]
        if again.size:
            row = int(again.min())
            raise InputError(
                f"{self.path}, row {row + 1}: expected each document of a query once; got query "
                f"{query_ids[query[row]]!s} and document {doc_ids[document[row]]!s} again."
            )


def _encoded(parts: list[pa.Array], spelled: bool) -> tuple[Ints, Array]:
    """A number for each row's id, by first appearance, and the different ids."""
    encoded = pa.chunked_array(parts).combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0)
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    distinct = encoded.dictionary
    if pa.types.is_integer(distinct.type):
        return codes, distinct.to_numpy()
    if spelled:
        ids, _ = from_words(np.array([word.encode() for word in distinct.to_pylist()]))
        return codes, ids
    return codes, np.array(distinct.to_pylist(), dtype=np.str_)


def _in_order(blocks: list[Features], order: Ints) -> Features:
    """The rows of all blocks in one matrix; a block is given back as soon as it is copied."""
    matrix = np.empty((order.size, blocks[0].shape[1]), dtype=np.float32)
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    row = 0
    blocks.reverse()
    while blocks:
        block = blocks.pop()
        matrix[place[row : row + block.shape[0]]] = block
        row += block.shape[0]
    return matrix
