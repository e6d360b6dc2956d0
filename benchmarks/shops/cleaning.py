"""What an engineer does by hand to a shop's files for a tool that takes only the usual form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.shops.files import Files, save


def clean_items(files: Files, path: Path) -> Path:
    """Items with the usual names and numbers only.

    Gaps become the column's median, text its place by frequency, dates a number of days.
    """
    table = _read(files.items)
    names = {theirs: name for name, theirs in files.item_columns.items()}
    table = table.rename_columns([names.get(name, name) for name in table.column_names])
    for index, name in enumerate(table.column_names):
        if name not in ("query_id", "doc_id"):
            column = pa.array(_numbers(table[name].combine_chunks()))
            table = table.set_column(index, name, column)
    save(table, path)
    return path


def clean_log(files: Files, path: Path) -> Path:
    """The log with the usual names, ranks from 1."""
    parts = sorted(Path(files.log).parent.glob(Path(files.log).name))
    table = pa.concat_tables([_read(part) for part in parts])
    names = {theirs: name for name, theirs in files.log_columns.items()}
    table = table.rename_columns([names.get(name, name) for name in table.column_names])
    index = table.column_names.index("rank")
    table = table.set_column(index, "rank", pc.add(table["rank"], 1 - files.rank_from))
    save(table, path)
    return path


def _read(path: Path) -> pa.Table:
    if path.suffix == ".csv":
        options = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
        return pyarrow.csv.read_csv(path, convert_options=options)
    return pq.read_table(path)


def _numbers(column: pa.Array) -> np.ndarray:
    if pa.types.is_string(column.type):
        counts = sorted(column.value_counts().to_pylist(), key=lambda c: (-c["counts"], str(c)))
        place = {entry["values"]: index for index, entry in enumerate(counts)}
        return np.array([place[value] for value in column.to_pylist()], dtype=np.float64)
    if pa.types.is_date(column.type):
        column = column.cast(pa.date32()).cast(pa.int32())
    values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    gaps = np.isnan(values)
    return np.where(gaps, np.median(values[~gaps]) if (~gaps).any() else 0.0, values)
