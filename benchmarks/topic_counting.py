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
import ibis

from benchmarks.click_logs import RANKS, generate
from benchmarks.measure import Row, at_most, best_seconds, info
from saferank.counts import CountTable
from saferank.counts.hashing import Hash
from saferank.logs import count, read_counts

ROWS = int(os.environ.get("SAFERANK_BENCH_ROWS", 10**8))
QUERIES = 100_000


THEIR_HASH = "hash(session_id, 1) < 3689348814741910323"
"""A fifth of the sessions by DuckDB's own hash, which is of this engine and version alone."""


def rows() -> Iterator[Row]:
    """Time against SQL: in two parts, in one, with sessions, with text; memory by rows."""
    with tempfile.TemporaryDirectory(prefix="saferank-bench-") as name:
        folder = Path(name)
        log = generate(folder / "log", sessions=ROWS // RANKS, queries=QUERIES, parts=4)
        ours, theirs = folder / "ours.parquet", folder / "theirs.parquet"
        yield from _in_parts(log, ours, theirs)
        yield info(
            "bytes per row of the counts", ours.stat().st_size / CountTable.open(ours).rows, "bytes"
        )
        yield from _onto_documents(ours)
        yield from _in_one(log, ours, theirs)
        yield info("bytes per row of the log", _size(folder / "log") / ROWS, "bytes")
        yield from _with_sessions(log, ours, theirs)
        yield from _with_text(folder)
        yield from _memory(folder)


def _in_parts(log: Path, ours: Path, theirs: Path) -> Iterator[Row]:
    """To learn from and to judge by, as `saferank count --ignore-sessions` does it."""

    def count_() -> None:
        count(log, output=ours, use_sessions=False)

    times = best_seconds(count_, lambda: by_hand(log, theirs, THEIR_HASH), repeats=5)
    yield at_most(f"count of {ROWS:.0e} rows in parts / hand-written SQL", _ratio(times), 1.15, "x")
    yield info("rows per second", ROWS / times[0] / 1e6, "million")
    work = _processor_seconds(count_)
    by_sql = _processor_seconds(lambda: by_hand(log, theirs, THEIR_HASH))
    yield info("the same in processor time", work / by_sql, "x")
    yield info("processor time a row", work / ROWS * 1e9, "ns")
    by_hand(log, theirs, our_hash())
    yield at_most("counts that differ from the SQL's", differences(ours, theirs), 0, "rows")


def _in_one(log: Path, ours: Path, theirs: Path) -> Iterator[Row]:
    """With --judge 0."""
    times = best_seconds(
        lambda: count(log, output=ours, use_sessions=False, judge=0),
        lambda: by_hand(log, theirs),
        repeats=3,
    )
    yield at_most("count without parts / hand-written SQL", _ratio(times), 1.15, "x")
    yield at_most("its counts that differ", differences(ours, theirs), 0, "rows")


def _onto_documents(counts: Path) -> Iterator[Row]:
    """From the file to arrays on documents: what learning starts from."""
    started = time.perf_counter()
    found = read_counts(counts)
    seconds = time.perf_counter() - started
    yield info("counts onto documents, a document", seconds / found.documents * 1e6, "µs")
    size = found.impressions.nbytes + found.clicks.nbytes
    yield info("bytes per document of them in memory", size / found.documents, "bytes")


def _with_sessions(log: Path, ours: Path, theirs: Path) -> Iterator[Row]:
    times = best_seconds(
        lambda: count(log, output=ours),
        lambda: by_hand_with_sessions(log, theirs, THEIR_HASH),
        repeats=1,
    )
    yield info("with sessions / SQL that does not look for two documents", _ratio(times), "x")
    yield info("with sessions, rows per second", ROWS / times[0] / 1e6, "million")
    by_hand_with_sessions(log, theirs, our_hash())
    yield at_most("counts with sessions that differ", differences(ours, theirs), 0, "rows")


def _with_text(folder: Path) -> Iterator[Row]:
    """Ids of sessions as text, whose hash is MD5 in every engine."""
    size, ours, theirs = ROWS // 5, folder / "ours.parquet", folder / "theirs.parquet"
    log = generate(folder / "text", sessions=size // RANKS, queries=QUERIES // 5, text=True)

    def count_() -> None:
        count(log, output=ours, use_sessions=False)

    work = _processor_seconds(count_)
    by_md5 = _processor_seconds(lambda: by_hand(log, theirs, our_hash(text=True)))
    yield at_most("counts of text that differ", differences(ours, theirs), 0, "rows")
    by_own = _processor_seconds(lambda: by_hand(log, theirs, THEIR_HASH))
    yield info("ids as text / SQL with MD5, processor time", work / by_md5, "x")
    yield info("ids as text / SQL with DuckDB's hash, processor time", work / by_own, "x")
    yield info("processor time a row with ids as text", work / size * 1e9, "ns")


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


def our_hash(text: bool = False) -> str:
    """The hash that every engine computes alike, as DuckDB's SQL."""
    log = ibis.table({"session_id": "string" if text else "int64"}, name="log")
    sql = str(ibis.to_sql(log.select(judged=Hash(0.2, 0).chooses(log.session_id))))
    return sql.removeprefix("SELECT").rpartition('AS "judged"')[0].replace('"t0".', "")


def _part(judged: str) -> str:
    return f"CASE WHEN {judged} THEN 'judge' ELSE 'learn' END AS part"


def by_hand(log: Path, output: Path, judged: str | None = None) -> None:
    """What one would type: no checks, no report, no order."""
    part = "" if judged is None else f"{_part(judged)},"
    with duckdb.connect(config={"preserve_insertion_order": False}) as connection:
        connection.execute(
            f"""
            COPY (
                SELECT query_id, doc_id, rank, {part} count(*) AS impressions,
                    count(*) FILTER (click) AS clicks
                FROM read_parquet('{log}') GROUP BY ALL
            ) TO '{output}' (COMPRESSION zstd)
            """
        )


def by_hand_with_sessions(log: Path, output: Path, judged: str) -> None:
    """Repeated rows once, sessions of each query beside the counts."""
    with duckdb.connect(config={"preserve_insertion_order": False}) as connection:
        connection.execute(
            f"""
            COPY (
                WITH seen AS (
                    SELECT session_id, query_id, doc_id, rank, bool_or(click) AS click
                    FROM read_parquet('{log}') GROUP BY session_id, query_id, doc_id, rank
                ), counts AS (
                    SELECT query_id, doc_id, rank, {_part(judged)}, count(*) AS impressions,
                        count(*) FILTER (click) AS clicks
                    FROM seen GROUP BY ALL
                ), sessions AS (
                    SELECT query_id, {_part(judged)}, count(DISTINCT session_id) AS sessions
                    FROM read_parquet('{log}') GROUP BY ALL
                )
                SELECT counts.*, sessions FROM counts JOIN sessions USING (query_id, part)
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
