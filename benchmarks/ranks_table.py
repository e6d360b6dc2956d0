"""Exact exposure and gradient by number of ranks, beside sampling and a plain quadrature.

Processor time of one core throughout, what is compared measured in turns. Exposures are right to
1e-10 and gradients to 1e-9 or, as `learn` asks for them, to 1e-6. The quadrature is what one would
write first in NumPy: the race of exponential arrivals on a grid in log time, and of each document
how many others came before, by adding one other at a time. It has no gradient, and takes D^2 K per
node.
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
from saferank.learning.training_run import GRADIENT_TOLERANCE as IN_TRAINING
from saferank.metrics import dcg_weights
from saferank.plackett_luce import exposure, exposure_gradient
from saferank.plackett_luce.exact import GRADIENT_TOLERANCE

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
    scores, slope, offsets = all_scores[:documents], all_slopes[:documents], cuts[:2]
    calls: list[Callable[[], object]] = [
        partial(_exact, all_scores, all_slopes, weights, cuts),
        partial(_exact, all_scores, all_slopes, weights, cuts, tol=IN_TRAINING),
        partial(on_threads, 1, torch_reinforce, scores, weights, slope, SAMPLES),
        lambda: numpy_pl_rank(scores, weights, slope, SAMPLES, np.random.default_rng(0)),
    ]
    exact, in_training, reinforce, pl_rank = _seconds(*calls)
    where = f"D={documents}, K={ranks}"
    for name, seconds in (
        (f"exact, {where}", exact / queries),
        (f"exact with gradients to {IN_TRAINING:g} as in training, {where}", in_training / queries),
    ):
        yield info(f"exposure and gradient, {name}", seconds * 1e6, "µs per query")
        ratio, wanted = reinforce / seconds, WANTED.get(ranks)
        what = f"REINFORCE, {SAMPLES} samples, over {name}"
        yield info(what, ratio, "x") if wanted is None else at_least(what, ratio, wanted)
        yield info(f"PL-Rank-3, {SAMPLES} samples, over {name}", pl_rank / seconds, "x")
    yield from _errors(scores, slope, weights, where)
    if documents**2 * ranks * NODES <= MOST_WORK:
        alone, plain = _seconds(
            lambda: exposure(all_scores, weights, cuts), lambda: plain_exposure(scores, weights)
        )
        yield info(f"plain quadrature over exact exposure, {where}", plain / alone * queries, "x")
        gap = np.abs(plain_exposure(scores, weights) - exposure(scores, weights, offsets)).max()
        yield at_most(f"exposure, plain quadrature and exact apart, {where}", gap, 1e-7, "at most")


def _errors(scores: Floats, slope: Floats, weights: Floats, where: str) -> Iterator[Row]:
    """Errors over what is stated: the tolerance times largest weight and difference of slopes."""
    offsets = np.array([0, scores.size])
    unit = np.abs(weights).max() * (slope.max() - slope.min())
    exact = exposure_gradient(scores, weights, offsets, slope, tol=1e-13)
    for tol in (GRADIENT_TOLERANCE, IN_TRAINING):
        gradient = exposure_gradient(scores, weights, offsets, slope, tol=tol)
        error = np.abs(gradient - exact).max() / (unit * tol)
        yield at_most(f"gradient, error over the tolerance {tol:g}, {where}", error, 1, "x")


def _exact(
    scores: Floats,
    slope: Floats,
    weights: Floats,
    offsets: Ints,
    *,
    tol: float = GRADIENT_TOLERANCE,
) -> None:
    exposure(scores, weights, offsets)
    exposure_gradient(scores, weights, offsets, slope, tol=tol)


def _beyond_all() -> Row:
    """Ranks that no document can have cost nothing."""
    rng = np.random.default_rng(0)
    scores, slope, offsets = rng.normal(size=2400), rng.normal(size=2400), np.arange(101) * 24
    calls = [partial(_exact, scores, slope, dcg_weights(ranks), offsets) for ranks in (24, 500)]
    all_ranks, more = _seconds(*calls)
    return at_most("time of K=500 over K=24, D=24", more / all_ranks, 1.1, "x")


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


def _seconds(*calls: Callable[[], object], least: float = 0.1, rounds: int = 5) -> list[float]:
    """Processor time of each call: the best of some rounds, in each of which all have their turn.

    A turn is as many calls as take a while.
    """
    repeats = []
    for call in calls:
        call()
        repeats.append(max(1, int(least / max(_time(call, 1), 1e-6))))
    best = [float("inf")] * len(calls)
    for _ in range(rounds):
        for index, call in enumerate(calls):
            best[index] = min(best[index], _time(call, repeats[index]))
    return best


def _time(call: Callable[[], object], repeats: int) -> float:
    start = time.process_time()
    for _ in range(repeats):
        call()
    return (time.process_time() - start) / repeats
