"""A table to one sorted Parquet file per shard, by one pass of an engine over it.

Spark sorts and writes on its own machines. DuckDB writes the rows of each shard as they come, and
then sorts shard by shard, so that no sort is larger than a shard.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from saferank._core.marks import parquet_mark
from saferank.errors import EngineError, InputError
from saferank.logs.engines.running import DuckDB, Engine, Spark
from saferank.logs.sources import Files

SHARD: Final = "saferank_shard_number"
"""The column that says which shard a row belongs to; it is not written. Below 0: to none."""


def write_shards(
    engine: Engine, table: Any, order: Sequence[str], folder: Path, kind: str
) -> dict[int, Path]:
    """Write the rows of each shard to a file, sorted by some columns.

    Parameters
    ----------
    engine
        DuckDB or Spark.
    table
        An Ibis table with the column `shard`.
    order
        Columns that rows of a shard are sorted by.
    folder
        A folder that is not there yet; Spark's machines must see it, too.
    kind
        What the files are: items or counts.

    Returns
    -------
    dict of int to Path
        The file of each shard that has rows.
    """
    if isinstance(engine, Spark):
        return _by_spark(engine, table, order, folder)
    if isinstance(engine, DuckDB):
        return _by_duckdb(engine, table, order, folder, kind)
    raise InputError(f"`engine` must be duckdb or spark to write shards; got {engine.name!r}.")


def _by_spark(engine: Spark, table: Any, order: Sequence[str], folder: Path) -> dict[int, Path]:
    frame = engine.frame(table)
    frame = frame.repartition(SHARD).sortWithinPartitions(SHARD, *order)
    frame.write.partitionBy(SHARD).option("compression", "zstd").parquet(str(folder.absolute()))
    if not folder.is_dir():
        raise EngineError(
            "the folder of the shards must be on a disk that Spark's machines and this one share."
        )
    made = {}
    for number, files in _files_of(folder).items():
        if len(files) > 1:
            raise EngineError(
                f"Spark wrote {len(files)} files for one shard, which are not sorted together: "
                f"unset spark.sql.files.maxRecordsPerFile."
            )
        made[number] = files[0]
    return made


def _by_duckdb(
    engine: DuckDB, table: Any, order: Sequence[str], folder: Path, kind: str
) -> dict[int, Path]:
    engine.write_partitions(table, folder, SHARD, f"cutting {kind}")
    made = {}
    parts = _files_of(folder)
    for number, files in parts.items():
        rows = engine.read(Files(tuple(map(str, files)), "parquet"))
        made[number] = folder / f"sorted-{number}.parquet"
        title, mark = f"sorting {kind}, shard {number}", parquet_mark(kind)
        engine.write(rows.order_by(*order), made[number], title, compression="zstd", metadata=mark)
        shutil.rmtree(files[0].parent)
    return made


def _files_of(folder: Path) -> dict[int, list[Path]]:
    """The files of each shard, by the names of their folders."""
    found = sorted(folder.glob(f"{SHARD}=*"))
    return {int(part.name.partition("=")[2]): sorted(part.glob("*.parquet")) for part in found}
