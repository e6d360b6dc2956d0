"""Jobs of the study: how many an hour, what each takes, on one and two workers.

The collection has the shape of MSLR. Processor seconds are those of all processes, starting them
included; memory is that of the largest worker so far, mapped files included.

`SAFERANK_STUDY_QUERIES` (default 2000) says how many training queries; 18919 is the full size.
Every job trains as the preset `SAFERANK_STUDY_PRESET` says: `quick` (default) or `paper`, which at
full size takes about 50 minutes.
"""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import Row, info
from saferank.experiments import PRESETS
from saferank.experiments.learning_curves import Curve
from saferank.experiments.study import fingerprint, open_collection
from saferank.experiments.sweep import sweep

QUERIES = int(os.environ.get("SAFERANK_STUDY_QUERIES", "2000"))
PRESET = os.environ.get("SAFERANK_STUDY_PRESET", "quick")
METHODS = ("dr", "prpo")


class Cost(NamedTuple):
    """What a sweep took."""

    an_hour: float
    """Jobs, by the clock."""
    processor: float
    """Processor seconds per job, of all processes."""
    memory: float
    """Of the largest worker, in GB."""


def processor_seconds() -> float:
    """Of this process and of those that it started and that have ended."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in both)


def cost(sessions: int, workers: int, folder: Path) -> Cost:
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
    start, before = time.perf_counter(), processor_seconds()
    outcome = sweep(jobs, study.data, folder, workers=workers)
    seconds, processor = time.perf_counter() - start, processor_seconds() - before
    assert outcome.ran == len(jobs), outcome
    whose = resource.RUSAGE_SELF if workers == 1 else resource.RUSAGE_CHILDREN
    memory = resource.getrusage(whose).ru_maxrss / 1e6
    return Cost(3600 * len(jobs) / seconds, processor / len(jobs), memory)


def rows() -> Iterator[Row]:
    """The figures."""
    yield info("training queries in the shape of MSLR (18919: all)", QUERIES, "queries")
    with tempfile.TemporaryDirectory() as folder:
        for sessions in (10**4, 10**8):
            costs = {}
            for workers in (1, 2):
                costs[workers] = cost(sessions, workers, Path(folder))
                name = f"N = {sessions:.0e}, {workers} workers"
                yield info(name, costs[workers].an_hour, "jobs an hour")
                yield info(name, costs[workers].processor, "processor seconds per job")
                yield info(f"{name}: largest worker", costs[workers].memory, "GB")
            ratio = costs[2].an_hour / costs[1].an_hour
            yield info(f"N = {sessions:.0e}: two workers over one", ratio, "x")
