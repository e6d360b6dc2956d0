"""A round of boosting towards a policy's value, against LightGBM's own lambdarank, in one run.

`QUERIES` of the `mslr` preset; SAFERANK_BENCH_QUERIES=18919 is its full size.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import lightgbm
import numpy as np

from benchmarks.measure import Row, info
from saferank._core.flat import Floats
from saferank.data import RankingData, synthetic
from saferank.estimators import ESTIMATORS
from saferank.learning.boosting import Boosting, Trees
from saferank.learning.descent import GoalQueries, Settings
from saferank.learning.families import Run
from saferank.learning.problem import label_terms
from saferank.metrics import dcg_weights
from saferank.objectives import OBJECTIVES, Context
from saferank.objectives.in_exposures import ExposureGoal

QUERIES = int(os.environ.get("SAFERANK_BENCH_QUERIES", "1000"))
ROUNDS = 8
LEAVES = 31


class Timed(Boosting):
    """Boosting that notes when rounds end, and how long its objective takes."""

    def __init__(self, *rest: Any) -> None:
        super().__init__(*rest)
        self.objective_seconds: list[float] = []
        self.ends: list[float] = []
        self.after: list[float] = []

    def _objective(self, scores: Floats, data: Any) -> tuple[Floats, Floats]:
        start = time.perf_counter()
        found = super()._objective(scores, data)
        self.objective_seconds.append(time.perf_counter() - start)
        return found

    def _look(self, model: Any) -> bool:
        self.ends.append(time.perf_counter())
        grew = super()._look(model)
        self.after.append(time.perf_counter() - self.ends[-1])
        return grew


def ours(data: RankingData, tiny: RankingData) -> tuple[float, float]:
    """Seconds of a round, and of the objective in it: the fastest of each."""
    weights = dcg_weights(5)
    objective = OBJECTIVES["utility"].build(Context(1, 1.0, weights, None))

    def part(of: RankingData) -> GoalQueries:
        share = np.full(of.queries, 1 / of.queries)
        terms = label_terms(of, ESTIMATORS["labels"], weights, 4.0)
        return GoalQueries(of, ExposureGoal(of.queries, objective, terms, weights, share))

    settings = Settings(rounds=ROUNDS, leaves=LEAVES, patience=1000)
    run = Timed(Trees().fresh(data.width, settings, 0), part(data), part(tiny), Run(settings, 0))
    run.run()
    rounds = np.diff(run.ends) - run.after[:-1]
    return float(rounds.min()), min(run.objective_seconds)


def theirs(data: RankingData) -> float:
    """Seconds of a round of lambdarank."""
    ends: list[float] = []
    lightgbm.train(
        {
            "objective": "lambdarank",
            "num_leaves": LEAVES,
            "verbosity": -1,
            "deterministic": True,
            "force_col_wise": True,
            "metric": "none",
        },
        lightgbm.Dataset(data.features, label=data.labels, group=data.sizes),
        num_boost_round=ROUNDS,
        callbacks=[lambda _: ends.append(time.perf_counter())],
    )
    return float(np.diff(ends).min())


def rows() -> Iterator[Row]:
    """The figures."""
    data = synthetic("mslr", queries=QUERIES, seed=0).train
    tiny = data.subset(np.arange(2))
    ours(tiny, tiny)  # compiles
    lambdarank = theirs(data)
    whole, objective = ours(data, tiny)
    lambdarank = min(lambdarank, theirs(data))
    yield info(f"documents ({QUERIES} queries like MSLR)", data.documents, "")
    yield info("a round of LightGBM's lambdarank", lambdarank * 1e3, "ms")
    yield info("a round towards the exact value of the policy", whole * 1e3, "ms")
    yield info("times a round of lambdarank", whole / lambdarank, "x")
    yield info("the exact value, gradient and curvature in it", 100 * objective / whole, "%")
