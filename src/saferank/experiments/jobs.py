"""Jobs: one ranker each, learned and measured; a job's address is the hash of its content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from saferank._core.files import read_json, write_json
from saferank._core.records import convert
from saferank._core.seeds import derive, generator
from saferank.clicks import simulate
from saferank.counts import Counts
from saferank.data import Collection, RankingData
from saferank.errors import InputError, SaferankError
from saferank.estimators.estimator_table import estimator_of
from saferank.experiments.study import STUDY_USERS, Conditions
from saferank.experiments.study_measures import MEASURES, Measuring
from saferank.experiments.study_world import SCALING, ScoredRanker
from saferank.learning import METHODS, Ranker, fit_relevance, learn
from saferank.scorers.networks import NetworkScorer

VERSION = 6
"""Of the results: another version has other addresses, so that old results are never mixed in."""
LEAST_QUERIES = 5
"""Production is trained on at least this many queries, and stopped by as many."""
REFERENCES = ("production", "skyline")
"""Methods that use no clicks: their jobs have no sessions."""


@dataclass(frozen=True)
class Production:
    """A production ranker: trained on the labels of a few queries, one for each seed."""

    collection: str
    conditions: Conditions
    seed: int
    version: int = VERSION

    @property
    def key(self) -> str:
        """The address."""
        return address({"production": asdict(self)})

    def train(self, collection: Collection) -> Ranker:
        """Train on the labels of a share of the queries, and stop by a share of the validation."""
        few = _few(collection.train, self.conditions.fraction, self.seed, "train")
        validation = _few(collection.validation, self.conditions.fraction, self.seed, "validation")
        ranker = learn(
            few,
            method="skyline",
            validation=(validation, None),
            seed=derive(self.seed, "production"),
            scorer=self.conditions.production_scorer,
            scaling=SCALING,
            settings=self.conditions.settings,
            k=self.conditions.ranks,
        )
        if isinstance(ranker.scorer, NetworkScorer) and self.conditions.peak != 1:
            return replace(ranker, scorer=ranker.scorer.scaled(self.conditions.peak))
        return ranker


def _few(data: RankingData, fraction: float, seed: int, part: str) -> RankingData:
    order = generator(seed, "production", part).permutation(data.queries)
    return data.subset(np.sort(order[: max(LEAST_QUERIES, round(fraction * data.queries))]))


@dataclass(frozen=True)
class Log:
    """Clicks to learn from; no sessions: labels."""

    production: Production
    users: str
    sessions: int


@dataclass(frozen=True, eq=False)
class World:
    """What all jobs of one log share, made once: production, the clicks, the regression on them."""

    log: Log
    bare: Collection
    production: ScoredRanker
    """Production, with its scores of all parts."""

    @cached_property
    def collection(self) -> Collection:
        """The collection with production's scores, which rankers may add to."""
        parts: dict[str, Any] = {
            name: replace(part, production=self.production.scores(part))
            for name, part in self.bare.parts().items()
        }
        return replace(self.bare, **parts)

    @cached_property
    def measuring(self) -> Measuring:
        """How rankers are measured, with what is known of production."""
        return Measuring(self.production, self.collection, self.conditions.click_model())

    @property
    def conditions(self) -> Conditions:
        """The conditions of the study."""
        return self.log.production.conditions

    @cached_property
    def clicks(self) -> tuple[Counts, Counts]:
        """Counts on the training queries and, of a share of the sessions, on validation."""
        validation = max(1, round(self.conditions.validation * self.log.sessions))
        return self._simulated("train", self.log.sessions), self._simulated(
            "validation", validation
        )

    def _simulated(self, part: str, sessions: int) -> Counts:
        data = self.collection.parts()[part]
        assert data.production is not None
        return simulate(
            data,
            data.production,
            STUDY_USERS[self.log.users](self.conditions.ranks),
            sessions=sessions,
            seed=derive(self.log.production.seed, "clicks", part, sessions),
            highest_grade=self.collection.highest_grade,
            judge=0,
            progress=False,
        )

    @cached_property
    def predictor(self) -> ScoredRanker:
        """The regression behind DM and DR, with its scores of what is learned from."""
        train, validation = self.clicks
        fitted = fit_relevance(
            self.collection.train,
            train,
            self.conditions.click_model(),
            production=self.production,
            validation=(self.collection.validation, validation),
            **self.options(),
        )
        return ScoredRanker.of(fitted, (self.collection.train, self.collection.validation))

    def options(self) -> dict[str, Any]:
        """Options of every call that learns."""
        return {
            "seed": derive(self.log.production.seed, "learning"),
            "scorer": self.conditions.scorer,
            "scaling": SCALING,
            "regression": self.conditions.regression,
            "settings": self.conditions.settings,
        }


@dataclass(frozen=True)
class Job:
    """One ranker: a method (with its delta), learned from a log."""

    log: Log
    method: str
    delta: str | None = None
    """None: the method's own."""

    @property
    def key(self) -> str:
        """The address of the result."""
        return address({"job": asdict(self)})

    def learn(self, world: World) -> Ranker:
        """The ranker of this job."""
        if self.method == "production":
            return world.production
        data, options = world.collection, world.options()
        if not self.log.sessions:
            validation: tuple[RankingData, Counts | None] = (data.validation, None)
            ranks = world.conditions.ranks
            return learn(data.train, method=self.method, validation=validation, k=ranks, **options)
        if self.delta is not None:
            options["delta"] = self.delta
        method = METHODS[self.method]
        if estimator_of(method.gain).needs == "predictions":
            options["predictor"] = world.predictor
        if method.start == "production" and world.conditions.shown_by is not None:
            options["start"] = "add"
        return learn(
            data.train,
            world.clicks[0],
            world.conditions.click_model(),
            method=self.method,
            production=world.production,
            production_kind="sampled",
            validation=(data.validation, world.clicks[1]),
            **options,
        )


def address(record: Mapping[str, Any]) -> str:
    """The hash of a record's canonical JSON.

    >>> address({"a": 1, "b": 2}) == address({"b": 2, "a": 1})
    True
    """
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Store:
    """Where results lie: production rankers, finished jobs, and jobs that failed."""

    folder: Path

    def production(self, production: Production) -> Path:
        """The folder of a production ranker."""
        return self.folder / "production" / production.key

    def result(self, job: Job) -> Path:
        """The file of a finished job."""
        return self.folder / "jobs" / f"{job.key}.json"

    def failure(self, job: Job) -> Path:
        """The file that tells why a job failed."""
        return self.folder / "failed" / f"{job.key}.json"

    def measures(self, job: Job) -> dict[str, float] | None:
        """What was measured of a finished job; None without a result, or with a damaged one."""
        try:
            record = read_json(self.result(job), limit=1 << 20)
            measured: dict[str, float] = convert(dict[str, float], record["measures"], "measures")
        except (InputError, LookupError, TypeError):
            return None
        return measured if set(MEASURES) <= measured.keys() else None

    def missing(self, jobs: Iterable[Job]) -> list[Job]:
        """Jobs without a whole result, which are to be run; those that failed are among them."""
        return [job for job in jobs if self.measures(job) is None]


FAILURES = (SaferankError, ArithmeticError, LookupError, MemoryError, RuntimeError, ValueError)
"""What fails a job; a full disk or a lost folder ends the sweep instead."""


def production_ranker(production: Production, collection: Collection, store: Store) -> Ranker:
    """A production ranker: the one that is kept, or else trained now and kept."""
    folder = store.production(production)
    if not (folder / "ranker.json").is_file():
        production.train(collection).save(folder)
    return Ranker.load(folder)


@lru_cache(maxsize=1)
def scored_production(production: Production, collection: Collection, store: Store) -> ScoredRanker:
    """A production ranker with its scores of all parts, which all logs that it made share."""
    ranker = production_ranker(production, collection, store)
    return ScoredRanker.of(ranker, collection.parts().values())


def run_jobs(jobs: Iterable[Job], collection: Collection, store: Store) -> int:
    """Run jobs of one log, which is made once; returns how many failed (each is recorded)."""
    failed = 0
    world: World | None = None
    for job in store.missing(jobs):
        try:
            if world is None:
                production = scored_production(job.log.production, collection, store)
                world = World(job.log, collection, production)
            _run_job(job, world, store)
        except FAILURES as error:
            failed += 1
            failure = {"job": asdict(job), "error": f"{type(error).__name__}: {error}"}
            write_json(store.failure(job), failure)
    return failed


def _run_job(job: Job, world: World, store: Store) -> None:
    ranker = job.learn(world)
    measures = world.measuring.measure(ranker)
    write_json(store.result(job), {"job": asdict(job), "measures": measures})
    store.failure(job).unlink(missing_ok=True)
