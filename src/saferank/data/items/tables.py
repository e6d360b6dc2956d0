"""Items as tables: one row per query-document pair, in Parquet, CSV, LETOR text or memory.

Columns `query_id` and `doc_id` (strings or whole numbers), optionally `label` and
`production_score`; every other column of numbers, booleans, dates or categories (texts) is a
feature, or in Parquet one list column `features`. Missing values are NaN. Rows of a query need not
stand together; queries and their documents keep the order of first appearance. Ids in CSV are
whole numbers where all of them are, in their usual spelling.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from saferank._core.flat import Ints
from saferank._core.storage import allowed_memory
from saferank.data.damage import refuse_damaged
from saferank.data.features import FeatureSchema, Kind
from saferank.data.frames import ArrowTable, as_arrow, is_table
from saferank.data.items.csv_kinds import csv_kinds
from saferank.data.items.table_building import TableBuilder
from saferank.data.items.table_layout import IDS, Layout, Wanted
from saferank.data.items.two_tables import ItemStream
from saferank.data.letor.reading import read_letor
from saferank.data.ranking import RankingData
from saferank.errors import InputError, require

PARQUET: Final = (".parquet", ".pq")
CSV: Final = (".csv", ".csv.gz")
TEXT: Final = tuple(
    end + gz for end in (".txt", ".letor", ".svm", ".svmlight", ".dat") for gz in ("", ".gz")
)
_ROWS: Final = 1 << 14
_READ_AHEAD: Final = 1 << 20
"""Bytes of each column."""

ItemsSource = str | os.PathLike[str] | ArrowTable | ItemStream


def kind_of(path: Path) -> str:
    """`parquet`, `csv` or `letor`, by the end of the name."""
    for kind, ends in {"parquet": PARQUET, "csv": CSV, "letor": TEXT}.items():
        if path.name.lower().endswith(ends):
            return kind
    endings = ", ".join((*PARQUET, *CSV, *TEXT))
    raise InputError(f"`path` must end with one of {endings}; got {path.name!r}.")


def read_items(
    source: ItemsSource,
    *,
    columns: Mapping[str, str] | None = None,
    schema: FeatureSchema | None = None,
    leave_out: Sequence[str] = (),
    group: str | None = None,
) -> RankingData:
    """Read items from a table or LETOR text (by the end of the name), or from a table in memory.

    Parameters
    ----------
    source
        A Parquet, CSV or LETOR file, or a table: pandas, Polars, Arrow; or two of them
        (`ItemTables`): pairs of query and document, and documents.
    columns
        The table's own names where they differ, as {"query_id": "search term"}.
    schema
        Features that a ranker knows (`Ranker.features`): they come first, of its kinds and with
        its categories. Without it kinds are found out, and categories ordered by frequency.
    leave_out
        The table's columns that are to be no features; a ranker that is learned without them
        needs them nowhere.
    group
        The column that names groups, which `saferank.data.read_groups` reads: it may stand beside
        a list column `features`, and is no feature then.

    Returns
    -------
    RankingData
        Queries in the order of their first rows, documents in the order of their rows.

    Raises
    ------
    InputError
        With the row, where the table is malformed or misses a feature of the schema.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "items.csv"
    >>> rows = ["query_id,doc_id,bm25,brand", "b,1,0.5,x", "a,7,,y", "b,3,0,y"]
    >>> _ = path.write_text("\\n".join(rows))
    >>> items = read_items(path)
    >>> items.query_ids, items.doc_ids, items.feature_names
    (array(['b', 'a'], dtype='<U1'), array([1, 3, 7]), ('bm25', 'brand'))
    >>> items.features
    array([[0.5, 1. ],
           [0. , 0. ],
           [nan, 0. ]], dtype=float32)
    >>> items.schema.get("brand").categories
    ('y', 'x')
    """
    if not is_table(source) and not isinstance(source, ItemStream):
        path = Path(os.fspath(source))
        if kind_of(path) == "letor":
            require(path.is_file(), "path", "a file that exists", str(path))
            named = "a column of a Parquet or CSV table; LETOR has none"
            require(not leave_out, "leave_out", named, list(leave_out))
            endings = schema is not None and schema.is_numbered
            return read_letor(
                path, sort=True, features=schema.width if endings and schema else None
            )
    return read_rows(source, Wanted(columns or {}, schema, tuple(leave_out), group))[0]


def read_rows(source: ItemsSource, wanted: Wanted) -> tuple[RankingData, Ints]:
    """Items of a table as `read_items` has them, and the table's row of each document."""
    if isinstance(source, ItemStream):
        return _built("items", _Opened(*source.open(wanted.columns, _ROWS)), wanted)
    if is_table(source):
        arrow = as_arrow(source, "items")
        batches = iter(arrow.to_batches(max_chunksize=_ROWS))
        return _built("items", _Opened(arrow.schema, batches), wanted)
    path = Path(os.fspath(source))
    kind = kind_of(path)
    require(path.is_file(), "path", "a file that exists", str(path))
    read: Callable[..., Read] = _read_parquet if kind == "parquet" else _read_csv
    with refuse_damaged(path, f"readable {kind} table"):
        try:
            return read(path, wanted)
        except csv.Error as error:
            raise InputError(f"`{path}` must be a readable csv table; {error}.") from error


class _Opened(NamedTuple):
    """Types of the columns, and the rows some at a time."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


Read = tuple[RankingData, Ints]


def _built(
    name: str, opened: _Opened, wanted: Wanted, kinds: Mapping[str, Kind] | None = None
) -> Read:
    layout = Layout.of(name, opened.schema, wanted, kinds)
    builder = TableBuilder(layout)
    for batch in opened.batches:
        builder.add(batch)
    return builder.data(spelled_ids=kinds is not None)


def _read_parquet(path: Path, wanted: Wanted) -> Read:
    # read ahead only where memory is no matter
    file = pq.ParquetFile(path, pre_buffer=allowed_memory() is None, buffer_size=_READ_AHEAD)
    opened = _Opened(file.schema_arrow, file.iter_batches(batch_size=_ROWS))
    return _built(str(path), opened, wanted)


def _read_csv(path: Path, wanted: Wanted) -> Read:
    """Types are set, not guessed: all numbers first, and where that fails, what a pass finds."""
    header = csv_header(path)
    kinds: dict[str, Kind] = dict.fromkeys(header, "number")
    types = pa.schema([(name, pa.float64()) for name in header])
    layout = Layout.of(str(path), types, wanted, kinds)
    texts = {*(layout.ids[name] for name in IDS), *wanted.leave_out}
    kinds |= {own: feature.kind for own, feature in layout.expected.items()}
    try:
        return _read_csv_as(path, kinds, texts, wanted)
    except pa.ArrowInvalid:
        unsure = [own for own in layout.features.values() if own not in layout.expected]
        text_kinds = csv_kinds(path, unsure) if unsure else {}
        if all(kind == "number" for kind in text_kinds.values()):
            raise
        return _read_csv_as(path, kinds | text_kinds, texts, wanted)


def _read_csv_as(path: Path, kinds: dict[str, Kind], texts: set[str], wanted: Wanted) -> Read:
    types = {
        own: pa.float64() if kind == "number" and own not in texts else pa.string()
        for own, kind in kinds.items()
    }
    convert = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
    with pyarrow.csv.open_csv(path, convert_options=convert) as reader:
        return _built(str(path), _Opened(reader.schema, iter(reader)), wanted, kinds)


def csv_header(path: Path) -> list[str]:
    """The names of a CSV table's columns."""
    with pa.input_stream(path, compression="detect") as stream:
        start: bytes = stream.read(1 << 20)
    try:
        line = start.split(b"\n", 1)[0].decode("utf-8-sig").rstrip("\r")
    except UnicodeDecodeError as error:
        raise InputError(f"`{path}` must be a CSV table in UTF-8; {error}.") from error
    return next(csv.reader([line]), [])
