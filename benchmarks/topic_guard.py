"""Serving behind the guard: one query from scores to the ranking of a session, on one core."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.measure import Row, at_least, at_most, best_seconds, info
from saferank._core.threads import use_threads
from saferank.data import RankingData
from saferank.metrics import dcg_weights
from saferank.plackett_luce import exposure, rank_probabilities
from saferank.safety import Guard, Promise

DOCUMENTS, K = 120, 10
REPEATS = 500
PROMISE = Promise(0.9, 0.01)


def rows() -> Iterator[Row]:
    """Milliseconds of processor time per query, of the best of several rounds."""
    rng = np.random.default_rng(0)
    new, old = rng.normal(size=(2, DOCUMENTS))
    weights = dcg_weights(K)
    with use_threads(1):
        for mode, looking, bound in (
            ("best", "fitted", 1.0),
            ("best", "any", 1.0),
            ("mix", "fitted", 0.1),
            ("mix", "any", 1.0),
        ):
            guard = Guard(
                None, None, PROMISE, weights=weights, mode=mode, examination=looking,  # type: ignore[arg-type]
            )  # fmt: skip
            taken = _milliseconds(lambda n, guard=guard: guard.rank_query(new, old, K, n, "q"))
            yield at_most(f"{DOCUMENTS} documents, K = {K}: {mode}, {looking}", taken, bound, "ms")
        yield from _many(rng, weights)
        yield from _ranks()


def _milliseconds(call: Callable[[int], object], repeats: int = REPEATS) -> float:
    """Processor time per call, of the best of five rounds."""
    call(0)
    best = np.inf
    for _ in range(5):
        start = time.process_time()
        for number in range(repeats):
            call(number)
        best = min(best, (time.process_time() - start) / repeats)
    return 1000 * best


def _many(rng: np.random.Generator, weights: np.ndarray) -> Iterator[Row]:
    """Many documents: the best policy's time is linear in them."""
    times = []
    for documents in (1000, 10_000):
        data = RankingData(np.zeros((documents, 1)), [0, documents])
        new, old = rng.normal(size=(2, documents))
        guard = Guard(new, old, PROMISE, weights=weights)
        guard.rank(data, K, 0)
        times.append(_milliseconds(lambda n, guard=guard, data=data: guard.rank(data, K, n), 5))
        yield info(f"{documents:,} documents: best, fitted", times[-1], "ms")
    yield at_most("ten times the documents take", times[1] / times[0], 20, "x")


def _ranks() -> Iterator[Row]:
    """Probabilities of all ranks from one sweep, against one exposure per rank."""
    scores, cuts = np.random.default_rng(0).normal(size=DOCUMENTS), [0, DOCUMENTS]
    for k in (10, 50):
        units = np.eye(k)
        ours, theirs, single = best_seconds(
            lambda k=k: rank_probabilities(scores, k, cuts),
            lambda units=units: [exposure(scores, unit, cuts) for unit in units],
            lambda k=k: exposure(scores, np.ones(k), cuts),
        )
        yield at_least(f"all {k} ranks in one sweep, faster by", theirs / ours, k / 4)
        yield info("...and as long as so many exposures", ours / single, "x")
