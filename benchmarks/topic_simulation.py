"""Simulated sessions a second, against a vectorised Gumbel-and-partial-sort simulator in NumPy.

The collection has the shape of MSLR-WEB30K's training fold: 18,919 queries of about 120 documents.
Ours simulates 10^9 sessions at once; the NumPy simulator gets a few queries (its time does not
depend on which) before and after. Both count impressions and clicks of the paper's users.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator

import numpy as np

from benchmarks.measure import Row, at_least, at_most, best_seconds, info
from saferank._core.flat import Array, Floats
from saferank.clicks import ClickModel, simulate, trust_bias
from saferank.data import RankingData

QUERIES, DOCUMENTS = 18_919, 120
SPREADS = {"flat": 0.5, "usual": 1.5, "peaked": 4.0}
"""Standard deviation of the scores."""
NUMPY_QUERIES, NUMPY_SESSIONS = 4, 16_384
OUR_SESSIONS = 10**9


def collection() -> RankingData:
    """Queries of different length and labels in MSLR's shares; no features are needed."""
    rng = np.random.default_rng(0)
    sizes = np.clip(rng.gamma(4.0, DOCUMENTS / 4, QUERIES).round(), 1, 1251).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    labels = rng.choice(5, size=offsets[-1], p=[0.515, 0.325, 0.134, 0.018, 0.008])
    return RankingData(np.zeros((offsets[-1], 0)), offsets, labels=labels)


def numpy_simulator(
    scores: Floats, relevance: Floats, model: ClickModel, sessions: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Counts of one query: Gumbel noise, the top K by partial sort, clicks, bincounts."""
    k = model.ranks
    shown, clicked = np.zeros((2, scores.size * k), dtype=np.int64)
    click = model.probability(relevance).ravel()
    for start in range(0, sessions, 4096):
        noisy = scores + rng.gumbel(size=(min(4096, sessions - start), scores.size))
        top = np.argpartition(noisy, -k, axis=1)[:, -k:]
        order = np.argsort(-np.take_along_axis(noisy, top, axis=1), axis=1)
        cell = np.take_along_axis(top, order, axis=1) * k + np.arange(k)
        clicks = rng.random(cell.shape) < click[cell]
        shown += np.bincount(cell.ravel(), minlength=shown.size)
        clicked += np.bincount(cell[clicks], minlength=shown.size)
    return shown, clicked


def rows() -> Iterator[Row]:
    """Time, sessions a second and the ratio for flat and peaked policies; the memory of it all."""
    data, model, rng = collection(), trust_bias(), np.random.default_rng(1)
    noise = rng.normal(size=data.documents)
    simulate(data, noise, model, 1000, seed=0, judge=0)
    usual = np.flatnonzero(data.sizes == DOCUMENTS)[:NUMPY_QUERIES]

    def by_numpy(scores: Floats) -> None:
        for query in usual:
            part = slice(data.offsets[query], data.offsets[query + 1])
            relevance = data.known_labels[part] / 4
            numpy_simulator(scores[part], relevance, model, NUMPY_SESSIONS, rng)

    for name, spread in SPREADS.items():
        scores = spread * noise
        before = best_seconds(lambda scores=scores: by_numpy(scores), repeats=2)[0]  # type: ignore[misc]
        start = time.perf_counter()
        counts = simulate(data, scores, model, OUR_SESSIONS, seed=0, judge=0)
        ours = time.perf_counter() - start
        assert counts.total == OUR_SESSIONS
        after = best_seconds(lambda scores=scores: by_numpy(scores), repeats=2)[0]  # type: ignore[misc]
        theirs = min(before, after) / (usual.size * NUMPY_SESSIONS)
        yield at_most(f"{name}: 10^9 sessions", ours, 90, "s")
        yield info(f"{name}: sessions a second", OUR_SESSIONS / ours, "1/s")
        yield at_least(f"{name}: against NumPy", theirs / (ours / OUR_SESSIONS), 60)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    yield at_most("memory of the whole run, at its peak", peak, 2.0, "GB")
