"""Counts of partitions add: count day by day, then merge."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from saferank._core.scratch import scratch_folder
from saferank.counts.count_table import CountTable
from saferank.counts.split import JUDGE_SHARE
from saferank.logs.counting import EngineChoice, count


def merge(
    tables: Sequence[CountTable | str | os.PathLike[str]],
    *,
    output: str | os.PathLike[str] | None = None,
    engine: str | EngineChoice = "duckdb",
    judge: float = JUDGE_SHARE,
    seed: int = 0,
) -> CountTable:
    """The counts of all tables together: the same as counting their logs at once.

    Sessions to learn from and to judge by add among themselves; tables that were split in another
    way, by another share or seed, are refused. Sessions add too: a session that lies in two tables
    is counted in both, so cut logs where sessions end. Counts are a summed log, so `count` on
    several files of counts does the same, and `judge` and `seed` are as there: they matter for
    tables without parts, and `judge=0` adds all of a table up.

    Parameters
    ----------
    tables
        Counts, or files of counts.
    output
        A Parquet file to write; without it the counts stay in memory.
    engine
        As in `count`.
    judge, seed
        As in `count`, for tables without parts; `judge=0` adds all of a table up.

    Returns
    -------
    CountTable
        The sum.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from saferank.logs import count
    >>> log = pa.table({"query_id": ["q"], "doc_id": ["a"], "rank": [1], "click": [1]})
    >>> day = count(log, judge=0)
    >>> merge([day, day], judge=0).to_arrow(["clicks"])["clicks"].to_pylist()
    [2]
    """
    with scratch_folder() as folder:
        paths = [_on_disk(table, folder / f"{i}.parquet") for i, table in enumerate(tables)]
        return count(paths, output=output, engine=engine, judge=judge, seed=seed)


def _on_disk(table: CountTable | str | os.PathLike[str], spare: Path) -> str:
    if not isinstance(table, CountTable):
        return os.fspath(table)
    if isinstance(table.source, Path):
        return str(table.source)
    pq.write_table(table.source, spare)
    return str(spare)
