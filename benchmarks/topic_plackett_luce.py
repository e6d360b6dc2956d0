"""Exact Plackett-Luce against sampling: time and error of the gradient, and how cost grows."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

import numpy as np

from benchmarks import ranks_table
from benchmarks.measure import Row, at_least, at_most, best_seconds, info
from benchmarks.samplers import numpy_pl_rank, on_threads, torch_reinforce
from saferank._core.flat import Floats, Ints
from saferank._core.threads import threads, use_threads
from saferank.metrics import dcg_weights
from saferank.plackett_luce import exposure, exposure_gradient

SAMPLES = 1000
RANKS = 5


def rows() -> Iterator[Row]:
    """All figures."""
    for spread in (1, 3):
        for documents in (20, 120, 1000):
            yield from _against_samplers(documents, spread)
    yield from ranks_table.table()
    yield from _growth()
    yield from _threads()
    yield from _starting()


def _queries(documents: int, spread: float, count: int) -> tuple[Floats, Floats, Ints]:
    rng = np.random.default_rng(documents)
    scores = spread * rng.normal(size=documents * count)
    return scores, rng.normal(size=scores.size), np.arange(count + 1) * documents


def _exact(scores: Floats, slope: Floats, offsets: Ints, ranks: int = RANKS) -> None:
    exposure(scores, dcg_weights(ranks), offsets)
    exposure_gradient(scores, dcg_weights(ranks), offsets, slope)


def _each(sampler: Callable[..., Floats], scores: Floats, slope: Floats, offsets: Ints) -> Floats:
    """A sampler on one query after another."""
    weights = dcg_weights(RANKS)
    parts = [
        sampler(scores[first:last], weights, slope[first:last], SAMPLES)
        for first, last in pairwise(offsets)
    ]
    return np.concatenate(parts)


def _error(gradient: Floats, exact: Floats) -> float:
    return float(np.linalg.norm(gradient - exact) / np.linalg.norm(exact))


def _against_samplers(documents: int, spread: float) -> Iterator[Row]:
    many = _queries(documents, spread, max(16, 40_000 // documents))
    few = _queries(documents, spread, 4)
    pl_rank = partial(numpy_pl_rank, rng=np.random.default_rng(0))
    _exact(*few)
    exact, pl, *reinforces = best_seconds(
        lambda: _exact(*many),
        lambda: _each(pl_rank, *few),
        *(partial(on_threads, count, _each, torch_reinforce, *few) for count in (1, 2)),
        repeats=7,
    )
    exact /= many[2].size - 1
    reinforce, pl = min(reinforces) / 4, pl / 4
    where = f"D={documents}, std {spread}"
    scores, slope, offsets = few
    truth = exposure_gradient(scores, dcg_weights(RANKS), offsets, slope, tol=1e-13)
    ours = exposure_gradient(scores, dcg_weights(RANKS), offsets, slope)
    yield info(f"exact exposure and gradient, {where}", exact * 1e6, "µs a query")
    yield at_least(
        f"REINFORCE in torch, {SAMPLES} samples, over exact, {where}", reinforce / exact, 100
    )
    yield at_least(f"PL-Rank-3 in NumPy, {SAMPLES} samples, over exact, {where}", pl / exact, 40)
    yield at_most(f"gradient error, exact, {where}", _error(ours, truth), 1e-7, "relative")
    yield info(
        f"gradient error, REINFORCE, {where}",
        _error(_each(torch_reinforce, *few), truth),
        "relative",
    )
    yield info(
        f"gradient error, PL-Rank-3, {where}", _error(_each(pl_rank, *few), truth), "relative"
    )


def _growth() -> Iterator[Row]:
    sizes = (100, 1000, 10_000)
    given = [_queries(documents, 1, 200_000 // documents) for documents in sizes]
    times = best_seconds(*(partial(_exact, *each) for each in given), repeats=7)
    for documents, seconds in zip(sizes, times, strict=True):
        yield info(f"time per document, D={documents}", seconds / 200_000 * 1e9, "ns")
    yield at_most(
        "time per document, slowest over fastest, D=100..10000", max(times) / min(times), 2, "x"
    )
    long = best_seconds(lambda: _exact(*_queries(100_000, 1, 1)), repeats=3)[0]
    yield info("one query of 100000 documents", long * 1e3, "ms")
    ranks = (1, 2, 5, 10)
    calls = [partial(_exact, *_queries(120, 1, 500), k) for k in ranks]
    times = best_seconds(*calls, repeats=7)
    for k, seconds in zip(ranks, times, strict=True):
        yield info(f"time per document, D=120, K={k}", seconds / 60_000 * 1e9, "ns")
    yield at_most("time of K=10 over K=5 (twice the ranks)", times[3] / times[2], 2.5, "x")


def _threads() -> Iterator[Row]:
    if threads() < 2:
        return
    given = _queries(120, 1, 1000)

    def on(count: int) -> None:
        with use_threads(count):
            _exact(*given)

    one, two = best_seconds(partial(on, 1), partial(on, 2), repeats=15)
    yield at_least("one thread over two", one / two, 1.7)


def _python_seconds(code: str, **environment: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, **environment})
    return time.perf_counter() - start


def _starting() -> Iterator[Row]:
    bare = min(_python_seconds("pass") for _ in range(3))
    package = min(_python_seconds("import saferank") for _ in range(3))
    yield at_most("import saferank", package - bare, 0.5, "s")
    part = min(_python_seconds("import saferank.plackett_luce") for _ in range(3))
    yield info("import saferank.plackett_luce", part - bare, "s")
    call = (
        "from saferank.plackett_luce import exposure, exposure_gradient\n"
        "exposure([0.0], [1.0], [0, 1]); exposure_gradient([0.0], [1.0], [0, 1], [0.0])"
    )
    with tempfile.TemporaryDirectory() as cache:
        first = _python_seconds(call, NUMBA_CACHE_DIR=cache)
        second = min(_python_seconds(call, NUMBA_CACHE_DIR=cache) for _ in range(3))
    yield info("compiling both kernels, once", first - second, "s")
    yield info("first call of both, from the cache on disk", second - part, "s")
