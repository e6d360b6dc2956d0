"""Columns of Arrow as NumPy's arrays and back, by their buffers.

Arrow's own conversions import pandas, which takes longer than many a table to be read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from saferank._core.flat import Array


def from_arrow(column: pa.Array | pa.ChunkedArray) -> Array:
    """The values of a column, as `to_numpy(zero_copy_only=False)` has them; maybe read-only.

    >>> from_arrow(pa.array([3, 1, 2])[1:])
    array([1, 2])
    """
    if isinstance(column, pa.ChunkedArray):
        parts = [from_arrow(chunk) for chunk in column.chunks if len(chunk)]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else from_arrow(pa.nulls(0, column.type))
    kind, first, length = column.type, column.offset, len(column)
    plain = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if column.null_count or not plain or length == 0:
        values: Array = column.to_numpy(zero_copy_only=False)
        return values
    data = column.buffers()[1]
    if pa.types.is_boolean(kind):
        bits = np.unpackbits(np.frombuffer(data, np.uint8), count=first + length, bitorder="little")
        return bits[first:].astype(np.bool_)
    return np.frombuffer(data, kind.to_pandas_dtype(), count=first + length)[first:]


def whole_numbers(values: Array) -> pa.Array:
    """Whole numbers as a column of `int64`.

    >>> whole_numbers(np.arange(2)).to_pylist()
    [0, 1]
    """
    return _of_buffers(pa.int64(), values.size, np.ascontiguousarray(values, np.int64))


def texts(values: Array | list[str]) -> pa.Array:
    """Texts as a column of `large_string`.

    >>> texts(["a", "", "é"]).to_pylist()
    ['a', '', 'é']
    """
    words = [str(text).encode() for text in values]
    ends = np.cumsum([0, *map(len, words)], dtype=np.int64)
    return _of_buffers(pa.large_string(), len(words), ends, b"".join(words))


def _of_buffers(kind: pa.DataType, length: int, *data: Any) -> pa.Array:
    return pa.Array.from_buffers(kind, length, [None, *map(pa.py_buffer, data)])
