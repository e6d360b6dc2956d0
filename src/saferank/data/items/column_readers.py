"""Columns of tables as numbers: one reader per kind of feature, fed batch by batch.

Missing values become NaN. A category's value is its place among the categories of a schema or,
without one, among those found, the most frequent first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from saferank._core.arrow_arrays import from_arrow
from saferank._core.arrow_arrays import texts as arrow_texts
from saferank._core.flat import Array
from saferank.data.features import Feature, Kind
from saferank.data.frames import is_text, plain_array
from saferank.data.matching import codes_between
from saferank.data.ranking import Features

MANY_TEXTS: Final = 1000
"""A column with more different texts than this, and than half of its rows, is no category."""
TOO_MANY_TEXTS: Final = 20_000
NULLS: Final = arrow_texts(pyarrow.csv.ConvertOptions().null_values)
"""Spellings of a missing number, boolean or date; "" among them."""
_DAY: Final = 86_400_000_000  # microseconds
_TRUTHS: Final = arrow_texts(["true", "false"])

Refuse = Callable[[int, str, object], None]
"""Called with the first bad row of a batch, what was expected there, and what came."""


def is_category(texts: int, rows: int, many: int = MANY_TEXTS) -> bool:
    """Whether a column of so many different texts in so many rows has categories.

    >>> is_category(1000, rows=1500), is_category(1001, rows=1500)
    (True, False)
    """
    return texts <= max(many, rows / 2)


class ColumnReader(Protocol):
    """Turns a column into numbers, batch by batch, and says what it is in the end."""

    def read(self, column: pa.Array, refuse: Refuse) -> Array:
        """The values of a batch."""

    def feature(self) -> Feature | str:
        """The feature that it is, or why it is none."""

    def codes(self) -> Features | None:
        """What each value that was read becomes, now that all are known; None: itself."""


def kind_of_type(kind: pa.DataType) -> Kind | None:
    """What a column of an Arrow type holds; None: nothing that is a feature."""
    if pa.types.is_boolean(kind):
        return "boolean"
    if is_number(kind) or pa.types.is_null(kind):
        return "number"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "date"
    if pa.types.is_dictionary(kind):
        return kind_of_type(kind.value_type)
    return "category" if is_text(kind) else None


def is_number(kind: pa.DataType) -> bool:
    """Whether a type is one of numbers."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def reader_of(name: str, kind: Kind, schema: Feature | None) -> ColumnReader:
    """A reader of a column; `known` is the feature as a ranker knows it."""
    if kind == "category":
        return _Categories(name, schema)
    return _Plain(name, kind)


class _Plain:
    """Numbers, booleans and dates, which need no look at other rows."""

    def __init__(self, name: str, kind: Kind) -> None:
        self.name, self.kind = name, kind
        self._as_numbers = {"number": floats, "boolean": _truths, "date": _days}[kind]

    def read(self, column: pa.Array, refuse: Refuse) -> Array:
        """The values of a batch; refused where one is not of the kind or beyond float32."""
        try:
            values = self._as_numbers(plain_array(column))
        except pa.ArrowException:
            row, got = _first_that_fails(column, self._as_numbers)
            refuse(row, f"a {self.kind} in column `{self.name}`", got)
            raise
        return singles(values, self.name, refuse)

    def feature(self) -> Feature | str:
        """The feature."""
        return Feature(self.name, self.kind)

    def codes(self) -> Features | None:
        """As they were read."""
        return None


class _Categories:
    """Texts by the number of their first appearance, until all of them are known."""

    def __init__(self, name: str, schema: Feature | None) -> None:
        self.name, self.schema = name, schema
        self.numbers: dict[str, int] = {}
        self.rows, self.counts = 0, np.zeros(0, dtype=np.int64)

    def read(self, column: pa.Array, refuse: Refuse) -> Array:
        """The values of a batch; an empty text is a missing one."""
        del refuse
        self.rows += len(column)
        if self._is_text(TOO_MANY_TEXTS):
            return np.full(len(column), np.nan)
        encoded = plain_array(column).cast(pa.large_string()).dictionary_encode()
        texts = encoded.dictionary.to_pylist()
        local = [self.numbers.setdefault(t, len(self.numbers)) if t else -1 for t in texts]
        numbers = np.array([*local, -1], dtype=np.int64)
        codes = numbers[from_arrow(encoded.indices.fill_null(-1))]
        counted = np.bincount(codes[codes >= 0], minlength=len(self.numbers))
        counted[: self.counts.size] += self.counts
        self.counts = counted
        return np.where(codes >= 0, codes.astype(np.float64), np.nan)

    def _is_text(self, many: int) -> bool:
        """Whether there are more different texts than categories could have."""
        return self.schema is None and not is_category(len(self.numbers), self.rows, many)

    def feature(self) -> Feature | str:
        """The feature with its categories, or that it has too many different texts."""
        if self.schema is not None:
            return self.schema
        if self._is_text(MANY_TEXTS):
            return f"text of {len(self.numbers):,} or more different values"
        return Feature(self.name, "category", self._by_frequency())

    def _by_frequency(self) -> tuple[str, ...]:
        texts = sorted(self.numbers, key=lambda text: (-self.counts[self.numbers[text]], text))
        return tuple(texts)

    def codes(self) -> Features | None:
        """Places among the feature's categories."""
        feature = self.feature()
        if isinstance(feature, str):
            return None
        return codes_between(tuple(self.numbers), feature.categories)


def floats(column: pa.Array) -> Array:
    """Numbers, or texts of them, as float64 (float32 stays as it is); null is NaN."""
    if not pa.types.is_float32(column.type):
        column = _without_blanks(column).cast(pa.float64(), safe=False)
    if column.null_count:
        column = column.fill_null(np.nan)
    return from_arrow(column)


def _without_blanks(column: pa.Array) -> pa.Array:
    """Null instead of a text that says so."""
    if not is_text(column.type):
        return column
    blank = pc.is_in(column, NULLS.cast(column.type))
    return pc.if_else(blank, pa.scalar(None, column.type), column)


def _truths(column: pa.Array) -> Array:
    """1 and 0 of booleans, numbers, or the texts true and false."""
    if not is_text(column.type):
        return floats(column)
    texts = pc.utf8_lower(_without_blanks(column))
    place = pc.index_in(texts, _TRUTHS)
    if place.null_count > texts.null_count:
        raise pa.ArrowInvalid("neither true nor false")
    return 1 - floats(place)


def _days(column: pa.Array) -> Array:
    """Days since 1970 of dates, times, or texts of them as ISO 8601 has them."""
    if is_text(column.type):
        column = parse_times(_without_blanks(column))
    elif kind_of_type(column.type) != "date":
        if column.null_count < len(column):
            raise pa.ArrowInvalid("no date")
        return np.full(len(column), np.nan)
    zone = getattr(column.type, "tz", None)
    return floats(column.cast(pa.timestamp("us", zone)).cast(pa.int64())) / _DAY


def parse_times(texts: pa.Array) -> pa.Array:
    """Times of texts in the form of ISO 8601, with or without a zone."""
    try:
        return texts.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        return texts.cast(pa.timestamp("us", "UTC"))


def _first_that_fails(column: pa.Array, convert: Callable[[pa.Array], Array]) -> tuple[int, object]:
    for row in range(len(column)):
        value = plain_array(column.slice(row, 1))
        try:
            convert(value)
        except pa.ArrowException:
            return row, value[0].as_py()
    return 0, None


def singles(values: Array, name: str, refuse: Refuse) -> Features:
    """The values in single precision; the first that it cannot hold is refused, NaN is none."""
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32, copy=False)
    infinite = np.isinf(rounded)
    if infinite.any():
        row = int(np.argmax(infinite))
        refuse(row, f"a finite number in column `{name}`", float(values[row]))
    return rounded
