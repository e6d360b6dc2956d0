"""How often intervals cover the truth, and how often a worse ranker is shipped: by simulation.

`python -m benchmarks.coverage` prints the table of docs/safety.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from saferank._core.flat import Array, Floats, Ints, query_sums
from saferank.clicks import relevance, trust_bias
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.estimators import Evidence, Propensities
from saferank.estimators.propensities import exact
from saferank.evaluation import interval
from saferank.evaluation.controls import joint_scores
from saferank.evaluation.intervals import QueryScores
from saferank.evaluation.measuring import measured_scores
from saferank.plackett_luce import exposure

USERS = trust_bias(3)
METHODS = ("normal", "normal, counts", "bernstein", "cantelli")
"""With `, counts` the variance is what counts tell of it, else that of the sessions."""


class World:
    """A pool of small queries with known relevance, a production ranker and a new one."""

    def __init__(self, queries: int, documents: int = 6, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        count = queries * documents
        labels = rng.integers(0, 5, count).astype(float)
        self.data = RankingData(
            rng.normal(size=(count, 1)),
            np.arange(queries + 1) * documents,
            labels=labels,
            query_ids=np.arange(queries),
        )
        self.old = rng.normal(size=count)
        self.new = 0.7 * self.old + 0.6 * rng.normal(size=count)
        self.relevance = relevance(labels, 4)
        weights = USERS.exposure_weights
        self.omega = exposure(self.new, weights, self.data.offsets)
        self.known = exact(self.old, self.data.offsets, USERS, weights)
        self.truth = query_sums((self.omega - self.known.omega) * self.relevance, self.data.offsets)

    def log(
        self, sessions: int, seed: int, estimator: str, control: str, sample: int | None
    ) -> tuple[QueryScores, QueryScores, float]:
        """Scores of a log, their variance from its counts and its sessions; and the truth.

        The log is of all queries, or of some drawn from the pool.
        """
        rng = np.random.default_rng(seed)
        size = self.data.documents // self.data.queries
        chosen = np.arange(self.data.queries)
        if sample is not None:
            chosen = rng.choice(self.data.queries, sample, replace=False)
        rows = (chosen[:, None] * size + np.arange(size)).ravel()
        query = np.sort(rng.integers(0, chosen.size, sessions))
        race = self.old[rows].reshape(-1, size)[query] + rng.gumbel(size=(sessions, size))
        shown = query[:, None] * size + np.argsort(-race, axis=1)[:, : USERS.ranks]
        chance = USERS.alpha * self.relevance[rows][shown] + USERS.beta
        clicked = rng.random(chance.shape) < chance
        counts = _counted(query, shown, clicked, chosen.size, size)
        props = Propensities(self.known.rho[rows], self.known.omega[rows], self.known.seen[rows])
        guess = np.clip(0.3 + 0.4 * self.relevance[rows], 0, 1)
        known = Evidence(counts, USERS, props, guess)
        score = joint_scores(self.omega[rows], props.omega, known, estimator, control)[2]
        omega = self.omega[rows] - props.omega
        found = measured_scores(score, omega, known, "ranks")
        ranks = np.arange(USERS.ranks)
        said = np.where(clicked, score.clicked[shown, ranks], score.missed[shown, ranks])
        exact_ = replace(
            found, variance=_variance(said.sum(axis=1), query, found), variance_from="sessions"
        )
        logged = float(found.share @ self.truth[chosen])
        return found, exact_, logged if sample is None else float(self.truth.mean())


def _counted(query: Ints, shown: Ints, clicked: Array, queries: int, size: int) -> Counts:
    cells = (shown * USERS.ranks + np.arange(USERS.ranks)).ravel()
    shape = (queries * size, USERS.ranks)
    n, c = (
        np.bincount(cells, weights, shape[0] * shape[1]).reshape(shape).astype(np.int64)
        for weights in (None, clicked.ravel())
    )
    sessions = np.bincount(query, minlength=queries)
    return Counts(np.arange(queries + 1) * size, n, c, sessions)


def _variance(said: Floats, query: Ints, found: QueryScores) -> Floats:
    """The sample variance of sessions within queries, where there are several."""
    count = np.bincount(query, minlength=found.sessions.size)
    mean = np.bincount(query, said, count.size) / np.maximum(count, 1)
    squares = np.bincount(query, (said - mean[query]) ** 2, count.size)
    return np.where(count > 1, squares / np.maximum(count - 1, 1), found.variance)


@dataclass(frozen=True)
class Coverage:
    """Shares of logs: two-sided intervals and lower bounds that hold; wrong ships of SEA."""

    method: str
    covered: float
    lower_holds: float
    wrongly_shipped: float


def coverage(
    world: World,
    sessions: int,
    logs: int,
    *,
    estimator: str = "affine-ips",
    control: str = "none",
    sample: int | None = None,
    methods: tuple[str, ...] = METHODS,
    confidence: float = 0.95,
) -> list[Coverage]:
    """Simulate logs; the ranker that SEA is asked about is worse by a hair than it tolerates."""
    hits = np.zeros((len(methods), 3))
    for seed in range(logs):
        *both, truth = world.log(sessions, seed, estimator, control, sample)
        for row, name in enumerate(methods):
            method = name.removesuffix(", counts")
            found = both[0] if name != method else both[1]
            shifted = replace(found, mean=found.mean - truth - 1e-9)
            two = interval(found, method, confidence)
            one = interval(found, method, 2 * confidence - 1)
            shipped = interval(shifted, method, 2 * confidence - 1).lower >= 0
            hits[row] += (two.lower <= truth <= two.upper, one.lower <= truth, shipped)
    return [Coverage(m, *map(float, h / logs)) for m, h in zip(methods, hits, strict=True)]


def main(logs: int = 2000) -> None:
    """Print the table."""
    world = World(30)
    pool = World(3000, seed=1)
    print("| estimator | queries | sessions | method | covered | lower holds | wrongly shipped |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for estimator, control in (("affine-ips", "none"), ("affine-ips", "additive"), ("dr", "none")):
        for sessions in (300, 1000, 10_000):
            rows = coverage(world, sessions, logs, estimator=estimator, control=control)
            for row in rows:
                _line(f"{estimator}, {control}", "30, fixed", sessions, row)
    for sessions, sample in ((1000, 10), (2000, 200)):
        rows = coverage(pool, sessions, logs, sample=sample, methods=("clustered", "bootstrap"))
        for row in rows:
            _line("affine-ips, none", f"{sample} drawn", sessions, row)


def _line(estimator: str, queries: str, sessions: int, row: Coverage) -> None:
    print(
        f"| {estimator} | {queries} | {sessions:,} | {row.method} | {row.covered:.1%} "
        f"| {row.lower_holds:.1%} | {row.wrongly_shipped:.1%} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
