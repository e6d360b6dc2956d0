"""Tables in memory (pandas, Polars, Arrow and others) through Arrow's PyCapsule interface."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

import pyarrow as pa

from saferank.data.features import repeated
from saferank.errors import InputError, require

if TYPE_CHECKING:
    from typing_extensions import TypeIs

_INDEX: Final = re.compile(r"__index_level_\d+__")


@runtime_checkable
class ArrowTable(Protocol):
    """A table that can be handed over as Arrow: `pandas.DataFrame`, `polars.DataFrame`, ..."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The table as a stream of Arrow's C interface."""


def is_table(source: object) -> TypeIs[ArrowTable]:
    """Whether a source is a table in memory rather than the name of one."""
    return isinstance(source, ArrowTable) and not isinstance(source, type)


def as_arrow(table: ArrowTable, name: str = "table") -> pa.Table:
    """A table in memory as an Arrow table with plain types.

    Strings are of one kind (`large_string`), whether they were views, dictionaries or categories;
    pandas' unnamed index is no column.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"doc_id": pd.Categorical(["b", "a"])}, index=[7, 3])
    >>> as_arrow(frame).to_pydict()
    {'doc_id': ['b', 'a']}
    """
    try:
        arrow = pa.table(table)
    except (pa.ArrowException, TypeError, ValueError) as error:
        text = " ".join(str(error).split())
        raise InputError(f"`{name}` must be a table that Arrow can hold; {text}.") from error
    names = [column for column in arrow.column_names if not _INDEX.fullmatch(column)]
    twice = repeated(names)
    require(not twice, name, "a table of different column names", twice)
    return pa.table({column: _plain(arrow[column]) for column in names})


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = plain_type(column.type)
    if kind == column.type:
        return column
    return pa.chunked_array([plain_array(chunk) for chunk in column.chunks], type=kind)


def plain_array(array: Any) -> pa.Array:
    """An array with its strings as `large_string`, and no dictionaries."""
    if pa.types.is_dictionary(array.type):
        return plain_array(array.dictionary).take(array.indices)  # of views nothing can be taken
    kind = plain_type(array.type)
    return array if kind == array.type else array.cast(kind)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type that `plain_array` gives."""
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    return pa.large_string() if is_text(kind) else kind


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is a string, of any layout."""
    views = pa.types.is_string_view(kind) if hasattr(pa.types, "is_string_view") else False
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or views)
