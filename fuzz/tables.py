"""Parquet tables, mutated by columns and values as well as by bytes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.mutation import mutate_bytes

_TYPES = [
    pa.int8(), pa.uint8(), pa.int32(), pa.int64(), pa.uint64(), pa.float16(), pa.float32(),
    pa.float64(), pa.string(), pa.large_string(), pa.binary(), pa.bool_(), pa.decimal128(20, 2),
    pa.date32(), pa.timestamp("us"), pa.timestamp("ns", tz="UTC"), pa.null(),
    pa.list_(pa.float32()), pa.dictionary(pa.int8(), pa.string()), pa.struct([("a", pa.int32())]),
    pa.map_(pa.string(), pa.int32()), pa.duration("s"), pa.list_(pa.int32(), 2),
]  # fmt: skip
_VALUES: list[Any] = [
    None, 0, 1, -1, 2, 0.5, 255, 2**31, 2**62, 2**63 - 1, -(2**63), 1e308, float("nan"),
    float("inf"), "", "a", "1", "\x00", "x" * 300, "\u202e", True, b"\xff", [], [1, 2], {"a": 1},
]  # fmt: skip
_NAMES = [
    "query_id", "doc_id", "rank", "click", "clicks", "impressions", "sessions", "session_id",
    "part", "label", "production_score", "features", "", " ", "a b", "\u202e", "x\x00y", "x" * 300,
    "'; DROP TABLE x", "query_id ", "Rank",
]  # fmt: skip


def to_bytes(table: pa.Table) -> bytes:
    """A Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return bytes(sink.getvalue())


def read_again(path: Path, names: Sequence[str]) -> pa.Table | None:
    """Some columns of a file by Arrow; none where the file is damaged in a way of no one reading.

    That is a part that only one of both readers looks at, or statistics that contradict the values,
    which engines believe.
    """
    try:
        file = pq.ParquetFile(path)
        there = [name for name in file.schema_arrow.names if name in names]
        table = file.read(columns=there)
        return table if all(_statistics_hold(file, name) for name in there) else None
    except (pa.ArrowException, OSError, UnicodeError):
        return None


def _statistics_hold(file: pq.ParquetFile, name: str) -> bool:
    """Whether smallest and largest values and gaps of a column are as the file says."""
    for group in range(file.metadata.num_row_groups):
        parts = file.metadata.row_group(group)
        for said in (parts.column(at) for at in range(parts.num_columns)):
            if said.path_in_schema != name or said.statistics is None:
                continue
            column, stated = file.read_row_group(group, [name]).column(0), said.statistics
            if stated.has_null_count and stated.null_count != column.null_count:
                return False
            if stated.has_min_max and not _between(column, stated):
                return False
    return True


def _between(column: pa.ChunkedArray, stated: Any) -> bool:
    try:
        values = [value for value in column.to_pylist() if value is not None and value == value]
        return all(stated.min <= value <= stated.max for value in values)
    except (TypeError, OverflowError):  # kept in another type than it is shown in
        return True


def mutate_parquet(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    """A table with another column, type, value or row; the bytes where that cannot be."""
    if rng.random() < 0.3:
        return mutate_bytes(data, rng, others)
    try:
        table = pq.ParquetFile(pa.BufferReader(data)).read()
        for _ in range(rng.choice((1, 1, 2, 3))):
            table = _changed(table, rng)
        return to_bytes(table)
    except (pa.ArrowException, OSError, ValueError, TypeError, OverflowError, IndexError):
        return mutate_bytes(data, rng, others)


def _changed(table: pa.Table, rng: random.Random) -> pa.Table:
    at = rng.randrange(table.num_columns)
    name, column = table.column_names[at], table.column(at)
    what = rng.randrange(10)
    if what == 0:
        return table.remove_column(at)
    if what == 1:
        return table.append_column(rng.choice(_NAMES), column)
    if what == 2:
        names = [*table.column_names]
        names[at] = rng.choice(_NAMES)
        return table.rename_columns(names)
    if what == 3:
        return table.set_column(at, name, _as(column.to_pylist(), rng.choice(_TYPES)))
    if what == 4:
        rows = [rng.randrange(table.num_rows) for _ in range(rng.choice((0, 1, 3, 20)))]
        return table.take(rows)
    if what == 5:
        return table.replace_schema_metadata(
            {b"saferank.ranks": rng.choice([b"", b"0", b"9" * 30])}
        )
    values = column.to_pylist()
    for _ in range(rng.choice((1, 1, 2))):
        near = rng.random() < 0.5
        values[rng.randrange(len(values))] = rng.choice(values if near else _VALUES)
    kind = column.type if rng.random() < 0.8 else rng.choice(_TYPES)
    return table.set_column(at, name, _as(values, kind))


def _as(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Values as a type has them; those that it cannot hold are null."""
    try:
        return pa.array(values, type=kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.array([_one(value, kind) for value in values], type=kind)


def _one(value: Any, kind: pa.DataType) -> Any:
    for tried in (value, str(value)):
        try:
            return pa.array([tried], type=kind)[0].as_py()
        except (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError):
            continue
    return None
