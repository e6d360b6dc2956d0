"""Counts of partitions add: count day by day, then merge."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from saferank.logs.count_table import CountTable
from saferank.logs.counting import EngineChoice, count
from saferank.scratch import scratch_folder


def merge(
    parts: Sequence[CountTable | str | os.PathLike[str]],
    *,
    output: str | os.PathLike[str] | None = None,
    engine: str | EngineChoice = "duckdb",
) -> CountTable:
    """The counts of all parts together: the same as counting their logs at once.

    Sessions add too: a session that lies in two parts is counted in both, so cut logs where
    sessions end. Counts are a summed log, so `count` on several files of counts does the same.
    """
    with scratch_folder() as folder:
        paths = [_on_disk(part, folder / f"{i}.parquet") for i, part in enumerate(parts)]
        return count(paths, output=output, engine=engine)


def _on_disk(part: CountTable | str | os.PathLike[str], spare: Path) -> str:
    if not isinstance(part, CountTable):
        return os.fspath(part)
    if isinstance(part.source, Path):
        return str(part.source)
    pq.write_table(part.source, spare)
    return str(spare)
