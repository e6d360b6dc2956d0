"""Engines by URL: tables of a DuckDB file and of SQLite, streamed into the same counts."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import duckdb
import pytest

import saferank as sr
from saferank.errors import EngineError, InputError

ROWS = [("a", 1, 1, 1), ("a", 2, 2, 0), ("a", 1, 1, 0), ("b", 1, 1, 0), ("b", 1, 0, 0)]
COUNTS = [
    ("a", 1, 1, "judge", 2, 1),
    ("a", 2, 2, "judge", 1, 0),
    ("b", 1, 1, "learn", 1, 0),
]


def counted(engine: str, table: str = "clicks") -> list[tuple[object, ...]]:
    counts = sr.logs.count(table, engine=engine, skip_bad=True)
    assert counts.report is not None
    assert counts.report.bad[0].rows == 1
    assert "rank 0" in counts.report.bad[0].example
    return [tuple(row.values()) for row in counts.to_arrow().to_pylist()]


def test_a_duckdb_file(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "site.db") as connection:
        connection.execute("CREATE SCHEMA web")
        for name in ("clicks", "web.clicks"):
            connection.execute(
                f"CREATE TABLE {name} (query_id TEXT, doc_id INT, rank INT, click INT)"
            )
            connection.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?)", ROWS)
    assert counted(f"duckdb://{tmp_path / 'site.db'}") == COUNTS
    assert counted(f"duckdb://{tmp_path / 'site.db'}", "web.clicks") == COUNTS
    with pytest.raises(InputError, match="the log cannot be read"):
        sr.logs.count("nothing", engine=f"duckdb://{tmp_path / 'site.db'}")


@pytest.mark.filterwarnings("ignore:The 'future.infer_string' option:DeprecationWarning")
def test_sqlite(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "site.sqlite")
    connection.execute("CREATE TABLE clicks (query_id TEXT, doc_id INT, rank INT, click INT)")
    connection.executemany("INSERT INTO clicks VALUES (?, ?, ?, ?)", ROWS)
    connection.commit()
    connection.close()
    assert counted(f"sqlite://{tmp_path / 'site.sqlite'}") == COUNTS


def test_an_engine_that_nobody_knows() -> None:
    with pytest.raises((InputError, EngineError), match="nosuch"):
        sr.logs.count("clicks", engine="nosuch://host")
