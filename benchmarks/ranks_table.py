"""Exact exposure and gradient by number of ranks, beside sampling and a plain quadrature.

Processor time of one core throughout. The quadrature is what one would write first in NumPy: the
race of exponential arrivals on a grid in log time, and of each document how many others came
before, by adding one other at a time. It has no gradient, and takes D^2 K per node.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks.measure import Row, at_least, at_most, info
from benchmarks.samplers import numpy_pl_rank, on_threads, torch_reinforce
from saferank._core.flat import Floats, Ints
from saferank._core.threads import use_threads
from saferank.metrics import dcg_weights
from saferank.plackett_luce import exposure, exposure_gradient

DOCUMENTS = (24, 100, 1000)
RANKS = (5, 10, 20, 50, 100)
WANTED = {5: 500, 20: 150, 50: 40, 100: 10}
"""Times as long that REINFORCE is to take, by ranks."""
SAMPLES = 1000
TOGETHER = 4000
"""Documents of a call of the exact kernels, as in training; samplers take a query each."""
NODES = 320
MOST_WORK = 1.7e9
"""Of the plain quadrature: what would take longer is left out."""


def table() -> Iterator[Row]:
    """A row for each figure of each number of documents and ranks."""
    with use_threads(1):
        for documents in DOCUMENTS:
            for ranks in RANKS:
                if ranks <= documents:
                    yield from _compare(documents, ranks)
        yield _beyond_all()


def _compare(documents: int, ranks: int) -> Iterator[Row]:
    rng = np.random.default_rng(documents)
    queries = max(1, TOGETHER // documents)
    all_scores, all_slopes = rng.normal(size=(2, documents * queries))
    weights, cuts = dcg_weights(ranks), np.arange(queries + 1) * documents
    exact = _seconds(lambda: _exact(all_scores, all_slopes, weights, cuts)) / queries
    scores, slope, offsets = all_scores[:documents], all_slopes[:documents], cuts[:2]
    reinforce = _seconds(partial(on_threads, 1, torch_reinforce, scores, weights, slope, SAMPLES))
    pl_rank = _seconds(
        lambda: numpy_pl_rank(scores, weights, slope, SAMPLES, np.random.default_rng(0))
    )
    where = f"D={documents}, K={ranks}"
    yield info(f"exact exposure and gradient, {where}", exact * 1e6, "µs a query")
    ratio = reinforce / exact
    name = f"REINFORCE, {SAMPLES} samples, over exact, {where}"
    wanted = WANTED.get(ranks)
    yield info(name, ratio, "x") if wanted is None else at_least(name, ratio, wanted)
    yield info(f"PL-Rank-3, {SAMPLES} samples, over exact, {where}", pl_rank / exact, "x")
    if documents**2 * ranks * NODES <= MOST_WORK:
        alone = _seconds(lambda: exposure(all_scores, weights, cuts)) / queries
        plain = _seconds(lambda: plain_exposure(scores, weights))
        yield info(f"plain quadrature over exact exposure, {where}", plain / alone, "x")
        gap = np.abs(plain_exposure(scores, weights) - exposure(scores, weights, offsets)).max()
        yield at_most(f"exposure, plain quadrature and exact apart, {where}", gap, 1e-7, "at most")


def _exact(scores: Floats, slope: Floats, weights: Floats, offsets: Ints) -> None:
    exposure(scores, weights, offsets)
    exposure_gradient(scores, weights, offsets, slope)


def _beyond_all() -> Row:
    """Ranks that no document can have cost nothing."""
    rng = np.random.default_rng(0)
    scores, slope, offsets = rng.normal(size=2400), rng.normal(size=2400), np.arange(101) * 24
    times = [
        _seconds(partial(_exact, scores, slope, dcg_weights(ranks), offsets)) for ranks in (24, 500)
    ]
    return at_most("time of K=500 over K=24, D=24", times[1] / times[0], 1.1, "x")


def plain_exposure(scores: Floats, weights: Floats) -> Floats:
    r"""Exposures by the trapezoid rule in :math:`z = \log t`.

    .. math:: \omega_d = \int \lambda_d t e^{-\lambda_d t}
              \sum_k w_k P(k - 1 \text{ others before } t) \, dz
    """
    rates = np.exp(scores - scores.max())
    log_times = np.linspace(np.log(1e-12 / rates.sum()), np.log(45 / rates.min()), NODES)
    arrivals = np.exp(log_times)[:, None] * rates
    came = -np.expm1(-arrivals)
    documents, k = scores.size, weights.size
    before = np.zeros((NODES, documents, k))
    before[:, :, 0] = 1
    for other in range(documents):
        chance = came[:, other, None, None]
        own = before[:, other].copy()
        before[:, :, 1:] += chance * (before[:, :, :-1] - before[:, :, 1:])
        before[:, :, 0] *= 1 - chance[..., 0]
        before[:, other] = own
    density = arrivals * np.exp(-arrivals)
    values = density * (before @ weights)
    exposures: Floats = np.trapezoid(values, log_times, axis=0)
    return exposures


def _seconds(call: Callable[[], object], least: float = 0.1) -> float:
    """Processor time of a call: the best of three rounds, each as many calls as take a while."""
    call()
    start = time.process_time()
    call()
    times = max(1, int(least / max(time.process_time() - start, 1e-6)))
    best = np.inf
    for _ in range(3):
        start = time.process_time()
        for _ in range(times):
            call()
        best = min(best, (time.process_time() - start) / times)
    return float(best)
