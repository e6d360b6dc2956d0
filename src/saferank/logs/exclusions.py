"""Rows that are left out because a list says so: robots, tests, one's own staff.

The list is a table whose columns are named as the log's; a row of the log is left out when its
value of any of these columns is in the list. `logs check --robots FILE` writes such a list.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from saferank.data.frames import ArrowTable, as_arrow, is_table
from saferank.errors import InputError, require

if TYPE_CHECKING:
    from saferank.logs.engines.running import Engine

ExclusionList = str | os.PathLike[str] | ArrowTable


@dataclass(frozen=True, eq=False)
class Exclusions:
    """Values of columns whose rows are left out, as text."""

    values: Mapping[str, pa.Array]

    @classmethod
    def read(cls, source: ExclusionList) -> Exclusions:
        """Read a list from CSV, Parquet or a table in memory.

        >>> listed = Exclusions.read(pa.table({"session_id": [7, None], "query_id": [None, "x"]}))
        >>> {name: values.to_pylist() for name, values in listed.values.items()}
        {'session_id': ['7'], 'query_id': ['x']}
        """
        table = _table(source)
        values = {name: _texts(name, table[name]) for name in table.column_names}
        filled = {name: texts for name, texts in values.items() if len(texts)}
        require(bool(filled), "exclude", "a list of at least one value", [])
        return cls(filled)

    def columns(self, names: Mapping[str, str]) -> set[str]:
        """The log's columns that are compared, where `names` are the log's own names."""
        return {names.get(name, name) for name in self.values}

    def without(self, table: Any, names: Mapping[str, str], engine: Engine) -> Any:
        """The rows of an Ibis table that no list names."""
        for number, (name, values) in enumerate(self.values.items()):
            own = names.get(name, name)
            if own not in table.columns:
                raise InputError(
                    f"`exclude` must list values of columns of the log "
                    f"({', '.join(table.columns)}); got {own!r}: where yours has another name, "
                    f"say --column {name}=YOURS."
                )
            listed = engine.bring(pa.table({"listed": values}), f"saferank_excluded_{number}")
            table = table.anti_join(listed, table[own].cast("string") == listed.listed)
        return table


def _table(source: ExclusionList) -> pa.Table:
    if is_table(source):
        return as_arrow(source, "exclude")
    path = Path(os.fspath(source))
    require(path.is_file(), "exclude", "a file that exists", str(path))
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            return as_arrow(pq.read_table(path), "exclude")
        names = pyarrow.csv.open_csv(path).schema.names
        texts = pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=True,
            null_values=[""],
        )
        return as_arrow(pyarrow.csv.read_csv(path, convert_options=texts), "exclude")
    except (pa.ArrowException, OSError) as error:
        text = " ".join(str(error).split())
        raise InputError(f"`{path}` must be a list as CSV or Parquet; {text}.") from error


def _texts(name: str, column: pa.ChunkedArray) -> pa.Array:
    """The different values as text, without the missing ones."""
    try:
        return column.drop_null().cast(pa.large_string()).unique()
    except pa.ArrowException as error:
        raise InputError(
            f"`{name}` of the exclusions must be strings or whole numbers; got {column.type}."
        ) from error
