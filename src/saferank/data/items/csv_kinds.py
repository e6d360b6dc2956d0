"""What the columns of a CSV file are, where not all of them are numbers.

A first pass over the whole file, not a guess from its first rows, which would break on later ones.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from saferank._core.arrow_arrays import from_arrow
from saferank.data.features import Kind
from saferank.data.items.column_readers import NULLS, parse_times
from saferank.errors import InputError

MOSTLY: Final = 0.9
"""A column with as many numbers among its values is one of numbers, and the others are mistakes."""
_NUMBER: Final = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$|^[-+]?(inf|nan|Infinity)$"


@dataclass
class _Seen:
    """What a column has held so far."""

    filled: int = 0
    numbers: int = 0
    truths: bool = True
    times: bool = True
    odd: tuple[int, str] | None = None
    """Row and text of the first value that is no number."""

    def look(self, column: pa.Array, first_row: int) -> None:
        """Take a batch into account."""
        missing = pc.is_in(column, NULLS.cast(column.type))
        texts = column.filter(pc.invert(missing))
        if not len(texts):  # tells nothing, and `pc.all` of nothing is null
            return
        number = pc.match_substring_regex(texts, _NUMBER)
        if self.odd is None and not pc.all(number).as_py():
            place = int(np.argmin(from_arrow(number)))
            row = np.flatnonzero(~from_arrow(missing))[place]
            self.odd = first_row + int(row), texts[place].as_py()
        self.filled += len(texts)
        self.numbers += pc.sum(number).as_py() or 0
        self.truths = self.truths and _all_truths(texts)
        self.times = self.times and _all_times(texts)

    def kind(self, name: str, path: Path) -> Kind:
        """What the column is."""
        if self.numbers == self.filled:
            return "number"
        if self.truths:
            return "boolean"
        if self.times:
            return "date"
        if self.numbers >= MOSTLY * self.filled:
            self._refuse(name, path)
        return "category"

    def _refuse(self, name: str, path: Path) -> NoReturn:
        row, text = self.odd or (0, "")
        raise InputError(
            f"{path}, row {row + 1}: expected a number in column `{name}`, as in most of its rows; "
            f"got {text!r}."
        )


def _all_truths(texts: pa.Array) -> bool:
    return bool(pc.all(pc.is_in(pc.utf8_lower(texts), pa.array(["true", "false"]))).as_py())


def _all_times(texts: pa.Array) -> bool:
    try:
        parse_times(texts)
    except pa.ArrowInvalid:
        return False
    return True


def csv_kinds(path: Path, columns: Collection[str]) -> dict[str, Kind]:
    """The kind of each of some columns of a CSV file."""
    convert = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(columns, pa.string()),
        include_columns=list(columns),
        strings_can_be_null=False,
    )
    seen = {name: _Seen() for name in columns}
    row = 0
    with pyarrow.csv.open_csv(path, convert_options=convert) as reader:
        for batch in reader:
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                seen[name].look(column, row)
            row += batch.num_rows
    return {name: column.kind(name, path) for name, column in seen.items()}
