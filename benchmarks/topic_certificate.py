"""The certificate of a ranker on as many queries as MSLR-WEB30K's training fold has."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator

import numpy as np

from benchmarks.measure import Row, at_most, info
from saferank import certify
from saferank.data import RankingData, synthetic
from saferank.data.synthetic import PRESETS

QUERIES = PRESETS["mslr"].queries[0]


def rows() -> Iterator[Row]:
    """Seconds, and the memory that it takes beside the data for more queries."""
    data = synthetic("mslr", queries=QUERIES, seed=0).train
    rng = np.random.default_rng(0)
    direction = rng.normal(size=(2, data.width)).astype(np.float32) / 12

    def new(part: RankingData) -> np.ndarray:
        return _scores(part, direction[0])

    def production(part: RankingData) -> np.ndarray:
        return _scores(part, direction[0] + 0.3 * direction[1])

    small = data.subset(np.arange(QUERIES // 8))
    certify(new, small, production=production)  # compiled before it is measured
    start = time.perf_counter()
    found = certify(new, data, production=production)
    seconds = time.perf_counter() - start
    yield info("documents certified", float(data.documents), "documents")
    yield at_most(f"certificate of {QUERIES} queries", seconds, 20, "s")
    yield info("queries that the guard would step in on", 100 * found.guard_share, "%")
    peaks = [
        _peak(lambda part=part: certify(new, part, production=production)) for part in (small, data)
    ]
    yield info(f"memory beside the data, {small.queries} queries", peaks[0] / 1e6, "MB")
    yield at_most(f"memory beside the data, {QUERIES} queries", peaks[1] / peaks[0], 1.3, "x")


def _scores(part: RankingData, direction: np.ndarray) -> np.ndarray:
    squeezed = np.tanh(part.features / 4)
    return (squeezed @ direction).astype(np.float64)


def _peak(call: object) -> int:
    tracemalloc.start()
    call()  # type: ignore[operator]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak
