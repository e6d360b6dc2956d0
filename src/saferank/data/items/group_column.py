"""The column of an items table that names the group of each document."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from saferank._core.flat import Array
from saferank.data.damage import refuse_damaged
from saferank.data.frames import as_arrow, is_table
from saferank.data.groups import Groups
from saferank.data.items.tables import ItemsSource, csv_header, kind_of
from saferank.data.items.two_tables import ItemStream
from saferank.data.ranking import RankingData
from saferank.errors import InputError, require

_ROWS = 1 << 16


def read_groups(
    source: ItemsSource,
    column: str,
    data: RankingData,
    *,
    columns: Mapping[str, str] | None = None,
) -> Groups:
    """The groups that a column of the items names, in the order of the data's documents.

    Parameters
    ----------
    source
        The table that the data was read from.
    column
        Its column, of any kind; an empty value is a group of its own, "(none)".
    data
        The items, as `read_items` has them.
    columns
        The table's own names where they differ, as for `read_items`.

    Returns
    -------
    Groups
        One group per document.

    Examples
    --------
    >>> import pyarrow as pa, saferank as sr
    >>> table = pa.table({"query_id": [7, 8, 7], "doc_id": [1, 1, 2], "f": [0.0, 1.0, 2.0],
    ...                   "brand": ["b", "a", None]})
    >>> groups = read_groups(table, "brand", sr.data.read_items(table))
    >>> [groups.names[code] for code in groups.codes]
    ['b', '(none)', 'a']
    """
    own_query = (columns or {}).get("query_id", "query_id")
    queries, values = _columns(source, [own_query, column], columns)
    _, first, code = np.unique(queries, return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int64)
    rank[np.argsort(first)] = np.arange(first.size)  # queries in the order of their first rows
    order = np.argsort(rank[code], kind="stable")
    same = order.size == data.documents and np.array_equal(
        np.bincount(rank[code], minlength=data.queries), data.sizes
    )
    require(bool(same), "group", "a column of the table that the items are from", column)
    return Groups.of(values[order], column)


def _columns(
    source: ItemsSource, names: list[str], columns: Mapping[str, str] | None
) -> list[Array]:
    """Some columns of a table as texts."""
    if isinstance(source, ItemStream):
        schema, batches = source.open(columns, _ROWS)
        _check_names(schema.names, names)
        some = list(dict.fromkeys(names))
        pieces = [batch.select(some) for batch in batches]
        kinds = pa.schema([schema.field(name) for name in some])
        joined = pa.Table.from_batches(pieces, schema=kinds)
        return [_texts(joined[name]) for name in names]
    if is_table(source):
        table = as_arrow(source, "items")
        _check_names(table.schema.names, names)
        return [_texts(table[name]) for name in names]
    path = Path(os.fspath(source))
    kind = kind_of(path)
    if kind == "letor":
        raise InputError("`--group` must be a column of a Parquet or CSV table; LETOR has none.")
    with refuse_damaged(path, "whole table"):
        if kind == "parquet":
            _check_names(pq.ParquetFile(path).schema_arrow.names, names)
            table = pq.read_table(path, columns=list(dict.fromkeys(names)))
        else:
            _check_names(csv_header(path), names)
            types = dict.fromkeys(names, pa.string())
            convert = pyarrow.csv.ConvertOptions(
                column_types=types, include_columns=list(types), strings_can_be_null=False
            )
            table = pyarrow.csv.read_csv(path, convert_options=convert)
    return [_texts(table[name]) for name in names]


def _check_names(there: list[str], names: list[str]) -> None:
    for name in names:
        require(name in there, "group", f"one of the columns {', '.join(there)}", name)


def _texts(column: Any) -> Array:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return np.asarray(pc.fill_null(column.cast(pa.string()), "").to_pylist(), dtype=np.str_)
