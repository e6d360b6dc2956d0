"""Threads beside other processes: a training on the default number against one thread.

Two processes that never rest hold two cores; the training then runs with the default threads and
with one, in turn, and the ratio is of the time that passes. Small queries are those of a shop (20
documents), large ones those of MSLR (120).
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from benchmarks.measure import Row, at_most, info
from saferank._core.threads import threads, use_threads
from saferank.clicks import simulate, trust_bias
from saferank.data import synthetic
from saferank.learning import Settings, learn

BUSY = 2
"""Processes beside the training."""
REPEATS = 5


def rows() -> Iterator[Row]:
    """Time with the default threads over time with one: cores free, and held by others."""
    yield info("threads by default", threads(), "")
    for preset, queries, scorer in (("small", 300, "mlp"), ("mslr", 150, "mlp"),
                                    ("mslr", 150, "trees")):  # fmt: skip
        train = _training(preset, queries, scorer)
        where = f"{preset}, {queries} queries, {scorer}"
        yield info(f"default over one thread, nothing beside, {where}", _ratio(train), "x")
        with _busy(BUSY):
            ratio = _ratio(train)
        yield at_most(f"default over one thread, {BUSY} busy processes, {where}", ratio, 1.1, "x")


def _training(preset: str, queries: int, scorer: str) -> Callable[[], None]:
    data, users = synthetic(preset, queries=queries, seed=0).train, trust_bias()
    shown = np.random.default_rng(0).normal(size=data.documents)
    counts = simulate(data, shown, users, sessions=10**5, seed=0, judge=0)
    settings = Settings(steps=50, patience=100, rounds=5)

    def train() -> None:
        learn(
            data,
            counts,
            users,
            method="prpo-ips",
            production=shown,
            production_kind="sampled",
            scorer=scorer,
            start="scratch",
            settings=settings,
        )

    train()  # compiled by now
    return train


def _ratio(train: Callable[[], None]) -> float:
    """The median over pairs of runs, so that what else happens hits both alike."""
    found = []
    for number in range(REPEATS):
        seconds = {}
        for alone in (number % 2 == 0, number % 2 == 1):
            start = time.perf_counter()
            if alone:
                with use_threads(1):
                    train()
            else:
                train()
            seconds[alone] = time.perf_counter() - start
        found.append(seconds[False] / seconds[True])
    return statistics.median(found)


def _never_rest() -> None:
    while True:
        sum(range(10_000))


@contextmanager
def _busy(count: int) -> Iterator[None]:
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=_never_rest, daemon=True) for _ in range(count)]
    for other in others:
        other.start()
    time.sleep(1.0)
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.join()
