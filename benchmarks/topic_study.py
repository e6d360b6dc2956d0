"""Jobs of the study an hour: a collection in the shape of MSLR, one and two workers.

`SAFERANK_STUDY_QUERIES` (default 2000) says how many training queries; 18919 is the full size.
Every job trains as the preset `SAFERANK_STUDY_PRESET` says: `quick` (default) or `paper`, which at
full size takes about 50 minutes.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Row, info
from saferank.experiments import PRESETS
from saferank.experiments.learning_curves import Curve
from saferank.experiments.study import fingerprint, open_collection
from saferank.experiments.sweep import sweep

QUERIES = int(os.environ.get("SAFERANK_STUDY_QUERIES", "2000"))
PRESET = os.environ.get("SAFERANK_STUDY_PRESET", "quick")
METHODS = ("dr", "prpo")


def jobs_an_hour(sessions: int, workers: int, folder: Path) -> float:
    """Run the methods on one log a worker; data and production rankers are there already."""
    study = PRESETS[PRESET].replace(
        data=f"synthetic:mslr:{QUERIES}", sessions=(sessions,), seeds=workers
    )
    address = fingerprint(open_collection(study.data, folder / "data"))
    references = list(Curve("", "production", "production").jobs(study, address))
    sweep(references, study.data, folder, workers=workers)
    curves = [Curve("", method, method) for method in METHODS]
    jobs = [job for curve in curves for job in curve.jobs(study, address)]
    for done in (folder / "jobs").iterdir():
        done.unlink()
    start = time.perf_counter()
    outcome = sweep(jobs, study.data, folder, workers=workers)
    seconds = time.perf_counter() - start
    assert outcome.ran == len(jobs), outcome
    return 3600 * len(jobs) / seconds


def rows() -> Iterator[Row]:
    """The figures."""
    yield info("training queries in the shape of MSLR (18919: all)", QUERIES, "queries")
    with tempfile.TemporaryDirectory() as folder:
        for sessions in (10**4, 10**8):
            found = {}
            for workers in (1, 2):
                found[workers] = jobs_an_hour(sessions, workers, Path(folder))
                yield info(f"N = {sessions:.0e}, {workers} workers", found[workers], "jobs an hour")
            yield info(f"N = {sessions:.0e}: two workers over one", found[2] / found[1], "x")
