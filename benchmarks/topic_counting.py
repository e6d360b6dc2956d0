"""Counting a click log of 10^8 rows against hand-written DuckDB SQL, and the memory it takes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb

from benchmarks.click_logs import RANKS, generate
from benchmarks.measure import Row, at_most, best_seconds, info
from saferank.logs import CountTable, count, read_counts

ROWS = int(os.environ.get("SAFERANK_BENCH_ROWS", 10**8))
QUERIES = 100_000


def rows() -> Iterator[Row]:
    """Time against SQL with and without sessions; memory at ten times the rows."""
    with tempfile.TemporaryDirectory(prefix="saferank-bench-") as name:
        folder = Path(name)
        log = generate(folder / "log", sessions=ROWS // RANKS, queries=QUERIES, parts=4)
        ours, theirs = folder / "ours.parquet", folder / "theirs.parquet"
        plain = best_seconds(
            lambda: count(log, output=ours, use_sessions=False),
            lambda: by_hand(log, theirs),
            repeats=5,
        )
        yield at_most(f"count of {ROWS:.0e} rows / hand-written SQL", _ratio(plain), 1.15, "x")
        yield info("rows a second", ROWS / plain[0] / 1e6, "million")
        work = _processor_seconds(lambda: count(log, output=ours, use_sessions=False))
        by_sql = _processor_seconds(lambda: by_hand(log, theirs))
        yield info("the same in processor time", work / by_sql, "x")
        yield info("processor time a row", work / ROWS * 1e9, "ns")
        yield at_most("counts that differ from the SQL's", differences(ours, theirs), 0, "rows")
        yield info("bytes a row of the log", _size(folder / "log") / ROWS, "bytes")
        yield info(
            "bytes a row of the counts", ours.stat().st_size / CountTable.open(ours).rows, "bytes"
        )
        yield from _onto_documents(ours)
        yield from _with_sessions(log, ours, theirs)
        yield from _memory(folder)


def _onto_documents(counts: Path) -> Iterator[Row]:
    """From the file to arrays on documents: what learning starts from."""
    started = time.perf_counter()
    found = read_counts(counts)
    seconds = time.perf_counter() - started
    yield info("counts onto documents, a document", seconds / found.documents * 1e6, "µs")
    size = found.impressions.nbytes + found.clicks.nbytes
    yield info("bytes a document of them in memory", size / found.documents, "bytes")


def _with_sessions(log: Path, ours: Path, theirs: Path) -> Iterator[Row]:
    times = best_seconds(
        lambda: count(log, output=ours), lambda: by_hand_with_sessions(log, theirs), repeats=1
    )
    yield info("with sessions / SQL that does not look for two documents", _ratio(times), "x")
    yield info("with sessions, rows a second", ROWS / times[0] / 1e6, "million")
    yield at_most("counts with sessions that differ", differences(ours, theirs), 0, "rows")


def _memory(folder: Path) -> Iterator[Row]:
    """Peak memory of processes that count ten times as many rows of the same counts."""
    few, many = ROWS // 50, ROWS // 5
    peaks = []
    for size in (few, many):
        log = generate(folder / f"rows-{size}", sessions=size // RANKS, queries=QUERIES // 50)
        peaks.append(_peak(log, folder))
        yield info(f"peak memory, {size:.0e} rows", peaks[-1] / 1e9, "GB")
    yield at_most("peak memory at ten times the rows", peaks[1] / peaks[0], 1.5, "x")


_COUNT = """
import sys
from pathlib import Path
from saferank.logs import count
count(sys.argv[1], output=sys.argv[2], use_sessions=False)
status = Path("/proc/self/status").read_text()
print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))
"""


def _peak(log: Path, folder: Path) -> float:
    call = [sys.executable, "-c", _COUNT, str(log), str(folder / "counts.parquet")]
    return float(subprocess.run(call, check=True, capture_output=True, text=True).stdout) * 1024


def by_hand(log: Path, output: Path) -> None:
    """What one would type: no checks, no report, no order."""
    with duckdb.connect(config={"preserve_insertion_order": False}) as connection:
        connection.execute(
            f"""
            COPY (
                SELECT query_id, doc_id, rank, count(*) AS impressions,
                    count(*) FILTER (click) AS clicks
                FROM read_parquet('{log}') GROUP BY ALL
            ) TO '{output}' (COMPRESSION zstd)
            """
        )


def by_hand_with_sessions(log: Path, output: Path) -> None:
    """Repeated rows once, sessions of each query beside the counts."""
    with duckdb.connect(config={"preserve_insertion_order": False}) as connection:
        connection.execute(
            f"""
            COPY (
                WITH seen AS (
                    SELECT query_id, doc_id, rank, bool_or(click) AS click
                    FROM read_parquet('{log}') GROUP BY session_id, query_id, doc_id, rank
                ), counts AS (
                    SELECT query_id, doc_id, rank, count(*) AS impressions,
                        count(*) FILTER (click) AS clicks
                    FROM seen GROUP BY ALL
                ), sessions AS (
                    SELECT query_id, count(DISTINCT session_id) AS sessions
                    FROM read_parquet('{log}') GROUP BY ALL
                )
                SELECT counts.*, sessions FROM counts JOIN sessions USING (query_id)
            ) TO '{output}' (COMPRESSION zstd)
            """
        )


def differences(one: Path, other: Path) -> float:
    """Rows that are in one file and not in the other."""
    found = duckdb.sql(
        f"""
        SELECT count(*) FROM (
            (FROM '{one}' EXCEPT ALL FROM '{other}') UNION ALL
            (FROM '{other}' EXCEPT ALL FROM '{one}')
        )
        """
    ).fetchall()
    return float(found[0][0])


def _processor_seconds(call: Callable[[], object]) -> float:
    """Work of all threads: a busy machine lengthens it far less than the time on the clock."""
    before = os.times()
    call()
    after = os.times()
    return after.user + after.system - before.user - before.system


def _ratio(times: list[float]) -> float:
    return times[0] / times[1]


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())
