"""The engines that run the expressions: DuckDB, Spark, and whatever Ibis connects to by URL.

An engine reads a log as an Ibis table and writes the result of an expression to Parquet files,
without ever holding all of it in this process.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from saferank._core.marks import parquet_mark
from saferank._core.progress import bar
from saferank.errors import EngineError, InputError, MissingExtraError, require
from saferank.logs.engines.engine_errors import one_sentence
from saferank.logs.engines.memory import buffer_limit, megabytes, memory_limit
from saferank.logs.sources import InMemory, Source, TableName

LOG = "saferank_log"
"""Name of a log from this process's memory in an engine."""
_ROW_GROUP = 1 << 14
"""Rows that are written together where a table goes to many folders."""
_DUCKDB_GLOB = re.compile(r"([*?\[])")
_HADOOP_GLOB = re.compile(r"([{}\[\]*?\\])")


class Engine(Protocol):
    """Reads logs as Ibis tables, and writes expressions to Parquet."""

    name: str

    def read(self, source: Source) -> Any:
        """The log as an Ibis table."""

    def bring(self, table: Any, name: str) -> Any:
        """An Arrow table of this process as an Ibis table of the engine."""

    def write(self, expression: Any, path: Path, title: str) -> str:
        """Run the expression, write it at `path`, and say what to read back."""

    def fetch(self, expression: Any) -> Any:
        """Run an expression with a small result, and bring it here as an Arrow table."""

    def close(self) -> None:
        """Give back what the engine holds."""


@contextlib.contextmanager
def opened(name: str, *, memory: str | None = None, spill: Path) -> Iterator[Engine]:
    """An engine by name: "duckdb", "spark" or a URL of Ibis; its errors become saferank's."""
    with one_sentence():
        if name == "duckdb":
            engine: Engine = DuckDB(memory=memory, spill=spill)
        elif name.startswith("duckdb://"):
            engine = DuckDB(memory=memory, spill=spill, database=name.removeprefix("duckdb://"))
        elif name == "spark":
            engine = Spark(memory=memory, spill=spill)
        else:
            require("://" in name, "engine", "duckdb, spark or a URL such as postgres://", name)
            engine = AnyIbis(name)
        try:
            yield engine
        finally:
            engine.close()


class DuckDB:
    """DuckDB in this process: out of core, within a memory limit, spilling to a folder.

    With a `database` its tables are read, never written.
    """

    name = "duckdb"

    def __init__(
        self, *, memory: str | None = None, spill: Path, database: str | None = None
    ) -> None:
        import ibis

        if database is not None:
            require(Path(database).is_file(), "engine", "a DuckDB file that exists", database)
        self.database = database
        self.connection = ibis.duckdb.connect(
            database or ":memory:",
            read_only=database is not None,
            memory_limit=buffer_limit(memory),
            temp_directory=str(spill),
            preserve_insertion_order=False,
            autoinstall_known_extensions=False,
            autoload_known_extensions=False,
        )
        for setting in ("enable_progress_bar = true", "enable_progress_bar_print = false"):
            self.connection.con.execute(f"SET {setting}")

    def read(self, source: Source) -> Any:
        """The log as an Ibis table."""
        if isinstance(source, InMemory):
            return self.bring(source.table, LOG)
        if isinstance(source, TableName):
            if self.database is None:
                raise InputError(
                    f"`log` must name files when the engine is duckdb; {source.name!r} does not."
                )
            return _table(self.connection, source)
        if not source.local:
            raise InputError(
                f"`log` must name files of this machine when the engine is duckdb, which fetches "
                f"nothing; got {source.paths[0]!r}: copy them here, or use --engine spark."
            )
        paths = [_literal_glob(path) for path in source.paths]
        hive = source.root is not None
        if source.format == "parquet":
            return self.connection.read_parquet(paths, hive_partitioning=hive, union_by_name=True)
        if source.format == "csv":
            return self.connection.read_csv(paths, hive_partitioning=hive, union_by_name=True)
        return self.connection.read_json(paths, hive_partitioning=hive, union_by_name=True)

    def read_json(self, paths: Sequence[str], columns: Mapping[str, str]) -> Any:
        """JSON lines with the types that are given; what a line lacks is null."""
        literal = [_literal_glob(path) for path in paths]
        return self.connection.read_json(literal, columns=dict(columns))

    def table(self, name: str, source: Any) -> Any:
        """A Parquet file, or an Arrow table under a name and without a copy, as an Ibis table."""
        if isinstance(source, Path):
            return self.connection.read_parquet(_literal_glob(str(source)))
        return self.bring(source, name)

    def bring(self, table: Any, name: str) -> Any:
        """An Arrow table as an Ibis table, without a copy."""
        self.connection.con.register(name, table)
        return self.connection.table(name)

    def keep(self, expression: Any, name: str, title: str) -> Any:
        """Run the expression into a temporary table, which spills like everything else."""
        with self._progress(title):
            sql = self.connection.compile(expression)
            self.connection.con.execute(f'CREATE TEMP TABLE "{name}" AS {sql}')
        return self.connection.table(name)

    def write(
        self,
        expression: Any,
        path: Path,
        title: str,
        *,
        compression: str = "snappy",
        metadata: Mapping[str, str] | None = None,
    ) -> str:
        """Run the expression into one Parquet file, with saferank's mark in its metadata."""
        marked = {**parquet_mark("counts"), **(metadata or {})}
        pairs = ", ".join(f"{_quoted(key)}: {_quoted(value)}" for key, value in marked.items())
        with self._progress(title):
            self.connection.con.execute(
                f"COPY ({self.connection.compile(expression)}) TO {_quoted(str(path))} "
                f"(FORMAT parquet, COMPRESSION {_quoted(compression)}, KV_METADATA {{{pairs}}})"
            )
        return str(path)

    def write_partitions(self, expression: Any, folder: Path, by: str, title: str) -> None:
        """Run the expression into a folder `by=value` of Parquet files for each value of a column.

        A group of rows of each folder is held until it is written: they are small.
        """
        with self._progress(title):
            self.connection.con.execute(
                f"COPY ({self.connection.compile(expression)}) TO {_quoted(str(folder))} "
                f"(FORMAT parquet, COMPRESSION 'zstd', ROW_GROUP_SIZE {_ROW_GROUP}, "
                f"PARTITION_BY ({by}))"
            )

    def batches(self, expression: Any, rows: int) -> Any:
        """The result of an expression as a reader of Arrow batches; it is never all in memory."""
        return self.connection.con.sql(self.connection.compile(expression)).to_arrow_reader(rows)

    def fetch(self, expression: Any) -> Any:
        """The result of an expression as an Arrow table."""
        return self.connection.to_pyarrow(expression)

    def close(self) -> None:
        """Close the connection."""
        self.connection.disconnect()

    @contextlib.contextmanager
    def _progress(self, title: str) -> Iterator[None]:
        """A bar that asks DuckDB how far its query is."""
        done = threading.Event()

        def follow() -> None:
            with bar(title, 100) as advance:
                reached = 0.0
                while not done.wait(0.2):
                    now = max(reached, float(self.connection.con.query_progress()))
                    advance(now - reached)
                    reached = now

        follower = threading.Thread(target=follow, daemon=True)
        follower.start()
        try:
            yield
        finally:
            done.set()
            follower.join()


class Spark:
    """Spark through PySpark: the session that is running, else a local one."""

    name = "spark"

    def __init__(self, *, memory: str | None = None, spill: Path) -> None:
        try:
            import pyspark.sql
        except ImportError as error:
            raise MissingExtraError("pyspark", "spark") from error
        import ibis

        running = pyspark.sql.SparkSession.getActiveSession()
        if running is None and not (shutil.which("java") or os.environ.get("JAVA_HOME")):
            raise EngineError(
                "Spark needs Java 17 or newer, and there is no `java` on this machine."
            )
        self.session = running or _local_spark(pyspark.sql.SparkSession.builder, memory, spill)
        self._mine = running is None
        self.connection = ibis.pyspark.connect(self.session)

    def read(self, source: Source) -> Any:
        """The log as an Ibis table."""
        if isinstance(source, InMemory):
            return self.bring(source.table, LOG)
        if isinstance(source, TableName):
            return _table(self.connection, source)
        reader = self.session.read
        if source.root is not None:
            reader = reader.option("basePath", str(Path(source.root).absolute()))
        paths = list(source.paths)
        if source.local:
            paths = [_HADOOP_GLOB.sub(r"\\\1", str(Path(path).absolute())) for path in paths]
        if source.format == "csv":
            tabs = "\t" if ".tsv" in Path(paths[0]).name.lower() else ","
            frame = reader.csv(paths, header=True, inferSchema=True, sep=tabs)
        else:
            frame = getattr(reader, source.format)(*_spread(paths, source.format))
        view = f"{LOG}_{id(frame):x}"
        frame.createOrReplaceTempView(view)
        return self.connection.table(view)

    def bring(self, table: Any, name: str) -> Any:
        """An Arrow table as a view of the session."""
        self.session.createDataFrame(table).createOrReplaceTempView(name)
        return self.connection.table(name)

    def write(self, expression: Any, path: Path, title: str) -> str:
        """Run the expression into a folder of Parquet files, or through the driver."""
        if not self.writes_here:
            return _write_batches(self.fetch(expression).to_reader(), path, title)
        self.connection.to_parquet(expression, str(path))
        return str(path / "*.parquet")

    def fetch(self, expression: Any) -> Any:
        """The result as an Arrow table; not by Ibis, whose way through pandas rounds large ids."""
        return self.frame(expression).toArrow()

    def frame(self, expression: Any) -> Any:
        """The result of an expression as a DataFrame of Spark, which is not computed yet."""
        return self.session.sql(self.connection.compile(expression))

    @property
    def writes_here(self) -> bool:
        """Whether Spark runs on this machine; a cluster's workers may not see its disk."""
        return str(self.session.sparkContext.master).startswith("local")

    def close(self) -> None:
        """Stop the session if it was started here."""
        if self._mine:
            self.session.stop()


def _spread(paths: list[str], form: str) -> list[Any]:
    return list(paths) if form == "parquet" else [paths]


def _local_spark(builder: Any, memory: str | None, spill: Path) -> Any:
    settings = {
        "spark.app.name": "saferank",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": f"{megabytes(memory_limit(memory))}m",
        "spark.driver.maxResultSize": "0",
        "spark.local.dir": str(spill),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",  # sums that overflow are errors
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


class AnyIbis:
    """Any engine that Ibis connects to by URL: BigQuery, Snowflake, Trino, PostgreSQL, ..."""

    def __init__(self, url: str) -> None:
        import ibis

        self.name = url.split("://", 1)[0]
        try:
            self.connection = ibis.connect(url)
        except ImportError as error:
            raise InputError(
                f"`engine` {self.name} needs its driver: pip install 'ibis-framework[{self.name}]'."
            ) from error
        except ValueError as error:
            # only its beginning: the rest may hold a password
            raise InputError(
                f"`engine` must be a URL that Ibis knows; got {self.name!r}://..."
            ) from error

    def read(self, source: Source) -> Any:
        """The log as an Ibis table."""
        if isinstance(source, InMemory):
            return self.bring(source.table, LOG)
        if isinstance(source, TableName):
            return _table(self.connection, source)
        return getattr(self.connection, f"read_{source.format}")(list(source.paths))

    def bring(self, table: Any, name: str) -> Any:
        """An Arrow table as a temporary table of the engine."""
        return self.connection.create_table(name, obj=table, temp=True, overwrite=True)

    def write(self, expression: Any, path: Path, title: str) -> str:
        """Run the expression and stream its batches into one Parquet file."""
        return _write_batches(self.connection.to_pyarrow_batches(expression), path, title)

    def fetch(self, expression: Any) -> Any:
        """The result of an expression as an Arrow table."""
        return self.connection.to_pyarrow(expression)

    def close(self) -> None:
        """Close the connection."""
        self.connection.disconnect()


def _literal_glob(path: str) -> str:
    """A glob of DuckDB that matches this path only.

    >>> _literal_glob("star[1].parquet")
    'star[[]1].parquet'
    """
    glob = _DUCKDB_GLOB.sub(r"[\1]", path)
    if glob != path and "\\" in path:  # which DuckDB takes for the end of a folder's name there
        raise InputError(f"`{path}` must not have a backslash beside one of * ? [ in its name.")
    return glob


def _quoted(text: str) -> str:
    """A text as an SQL literal, whatever quotes are in it."""
    return "'" + text.replace("'", "''") + "'"


def _table(connection: Any, source: TableName) -> Any:
    *database, table = source.name.split(".")
    return connection.table(table, database=tuple(database) or None)


def _write_batches(batches: Any, path: Path, title: str) -> str:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(path, batches.schema) as writer, bar(title, None) as advance:
        for batch in batches:
            writer.write_batch(batch)
            advance(batch.num_rows)
    return str(path)
