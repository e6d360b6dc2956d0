"""Results of a study's curves: arrays over seeds, intervals, and comparisons seed by seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from saferank._core.files import read_json
from saferank._core.flat import Floats
from saferank._core.tails import student_quantile
from saferank.errors import InputError
from saferank.experiments.jobs import Job, Store
from saferank.experiments.learning_curves import Curve
from saferank.experiments.study import Study

LEVEL = 0.8
"""Of every interval, as in the paper."""


@dataclass(frozen=True)
class Interval:
    """A mean with the two ends of an interval around it."""

    mean: float
    low: float
    high: float


def prediction_interval(values: Floats) -> Interval:
    """Mean over seeds, and the percentiles between which 80 % of runs fall."""
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(values.mean()), float(low), float(high))


def mean_interval(values: Floats) -> Interval:
    """Mean over seeds and its 80 % confidence interval (Student's t); endless with one seed.

    >>> mean_interval(np.array([1.0, 1.0])).low
    1.0
    """
    mean = float(values.mean())
    if values.size < 2:
        return Interval(mean, -np.inf, np.inf)
    error = float(values.std(ddof=1) / np.sqrt(values.size))
    wide = error * float(student_quantile((1 - LEVEL) / 2, values.size - 1))
    return Interval(mean, mean - wide, mean + wide)


@dataclass(frozen=True)
class Results:
    """What the jobs of a study gave; a curve's points are asked for by curve and sessions."""

    study: Study
    collection: str
    measures: Mapping[Job, Mapping[str, float]]
    errors: Mapping[Job, str] = field(default_factory=dict)

    def values(self, curve: Curve, sessions: int, measure: str = "expected") -> Floats:
        """One value a seed, of the seeds that have a result; production's as often as those."""
        jobs = (self.job(curve, sessions, seed) for seed in range(self.study.seeds))
        return np.array([self.measures[job][measure] for job in jobs if job in self.measures])

    def job(self, curve: Curve, sessions: int, seed: int) -> Job:
        """The job behind a point."""
        return curve.job(self.study, self.collection, sessions, seed)

    def against(
        self, curve: Curve, sessions: int, other: Curve, other_sessions: int | None = None
    ) -> Floats:
        """Differences of expected NDCG between two curves, seed by seed."""
        at = sessions if other_sessions is None else other_sessions
        pairs = [
            (self.job(curve, sessions, seed), self.job(other, at, seed))
            for seed in range(self.study.seeds)
        ]
        both = [p for p in pairs if p[0] in self.measures and p[1] in self.measures]
        return np.array(
            [self.measures[a]["expected"] - self.measures[b]["expected"] for a, b in both]
        )

    def sessions(self, *curves: Curve) -> list[int]:
        """Numbers of sessions at which all of these curves have results."""
        return [
            n
            for n in self.study.sessions
            if all(n in c.sessions(self.study) and self.values(c, n).size for c in curves)
        ]


def read_results(study: Study, collection: str, jobs: list[Job], folder: str | Path) -> Results:
    """The results and the failures of jobs that lie in a folder."""
    store = Store(Path(folder))
    measures, errors = {}, {}
    for job in jobs:
        measured = store.measures(job)
        if measured is not None:
            measures[job] = measured
        elif store.result(job).is_file():
            raise InputError(f"`{store.result(job)}` must be the result of a job; it is damaged.")
        elif store.failure(job).is_file():
            errors[job] = _error(store.failure(job))
    return Results(study, collection, measures, errors)


def _error(path: Path) -> str:
    """Why a job failed, as it was recorded."""
    try:
        return str(read_json(path, limit=1 << 20)["error"])
    except (InputError, LookupError, TypeError):
        return "unknown: its record is damaged"
