"""Counting 10^9 rows on disk under a memory limit of 4 GB; run by name only, takes many minutes.

Needs about 15 GB of disk: `python -m benchmarks counting_billion`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb

from benchmarks.click_logs import RANKS, generate
from benchmarks.measure import Row, at_most, info

ROWS = int(os.environ.get("SAFERANK_BENCH_ROWS", 10**9))
LIMIT = "4GB"
_COUNT = f"""
import json, sys
from pathlib import Path
from saferank.logs import EngineChoice, count
choice = EngineChoice(memory="{LIMIT}")
table = count(sys.argv[1], output=sys.argv[2], engine=choice, use_sessions=False)
status = Path("/proc/self/status").read_text()
peak = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
print(json.dumps({{"peak": int(peak) * 1024, **table.report.to_dict()}}))
"""


def rows() -> Iterator[Row]:
    """Time, peak memory and sizes of one count of everything."""
    with tempfile.TemporaryDirectory(prefix="saferank-bench-") as name:
        folder = Path(name)
        started = time.perf_counter()
        log = generate(folder / "log", sessions=ROWS // RANKS, queries=ROWS // 1000, parts=10)
        yield info("seconds to generate the log", time.perf_counter() - started, "s")
        size = sum(path.stat().st_size for path in log.parent.iterdir())
        yield info("size of the log", size / 1e9, "GB")
        output = folder / "counts.parquet"
        started = time.perf_counter()
        call = [sys.executable, "-c", _COUNT, str(log), str(output)]
        told = json.loads(subprocess.run(call, check=True, capture_output=True).stdout)
        seconds = time.perf_counter() - started
        yield info("seconds to count it", seconds, "s")
        yield info("rows per second", ROWS / seconds / 1e6, "million")
        yield at_most("peak memory of the process", told["peak"] / 1e9, 4.0, "GB")
        yield info("rows of the counts", told["groups"] / 1e6, "million")
        yield info("size of the counts", output.stat().st_size / 1e9, "GB")
        yield at_most("rows that are not counted", ROWS - told["impressions"], 0, "rows")
        yield at_most("impressions not in the file", ROWS - _impressions(output), 0, "rows")


def _impressions(output: Path) -> float:
    return float(duckdb.sql(f"SELECT sum(impressions) FROM '{output}'").fetchall()[0][0])
