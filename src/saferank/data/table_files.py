"""Results as table files, in the format that the end of the name says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from saferank._core.files import atomic_file
from saferank._core.marks import parquet_mark
from saferank.errors import InputError

_ROWS: Final = 1 << 16


def write_table(table: pa.Table, path: str | Path, kind: str = "table") -> None:
    """Write a table as Parquet, CSV, JSON or JSON lines, whole or not at all.

    Parameters
    ----------
    table
        Any Arrow table.
    path
        Ends with .parquet, .csv, .csv.gz, .json (a list of records) or .jsonl (one per line).
    kind
        What it is, for the mark of Parquet files.

    Raises
    ------
    InputError
        Where the end of the name is none of these.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "rankings.csv"
    >>> write_table(pa.table({"doc_id": ["a", "b"], "rank": [1, 2]}), path)
    >>> print(path.read_text())
    "doc_id","rank"
    "a",1
    "b",2
    """
    target = Path(path)
    write = next((w for end, w in _WRITERS.items() if target.name.lower().endswith(end)), None)
    if write is None:
        endings = ", ".join(_WRITERS)
        raise InputError(f"`output` must end with one of {endings}; got {target.name!r}.")
    with atomic_file(target) as temporary:
        write(table.replace_schema_metadata(parquet_mark(kind)), temporary)


def read_table(path: str | Path) -> pa.Table:
    """Read a small table from Parquet or CSV; `InputError` where it is neither."""
    source = Path(path)
    if not source.is_file():
        raise InputError(f"`{source.name}` must be a Parquet or CSV file; there is none.")
    read = pq.read_table if source.name.lower().endswith(".parquet") else pyarrow.csv.read_csv
    try:
        return read(source)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        first = str(error).strip().splitlines()[0][:120]
        raise InputError(f"`{source.name}` must be a Parquet or CSV file; {first}.") from error


def _write_parquet(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, compression="zstd")


def _write_csv(table: pa.Table, path: Path) -> None:
    pyarrow.csv.write_csv(table, path)


def _write_zipped_csv(table: pa.Table, path: Path) -> None:
    with pa.output_stream(path, compression="gzip") as stream:
        pyarrow.csv.write_csv(table, stream)


def _write_json(table: pa.Table, path: Path) -> None:
    text = json.dumps(table.to_pylist(), indent=2, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def _write_lines(table: pa.Table, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        for batch in table.to_batches(max_chunksize=_ROWS):
            for row in batch.to_pylist():
                file.write(json.dumps(row, ensure_ascii=False) + "\n")


_WRITERS: Final[dict[str, Callable[[pa.Table, Path], None]]] = {
    ".parquet": _write_parquet,
    ".pq": _write_parquet,
    ".csv": _write_csv,
    ".csv.gz": _write_zipped_csv,
    ".json": _write_json,
    ".jsonl": _write_lines,
}
