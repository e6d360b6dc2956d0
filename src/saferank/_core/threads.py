"""One pool of threads per process: made when first needed, and made again after a fork.

Compiled loops run without the interpreter lock, so plain threads are enough. No OpenMP and no
threading layer of Numba's is used: some of them abort, and some hang, in a process that was forked
or when several threads call them at once.

How many threads is what `SAFERANK_THREADS` says, else the cores that the process may use. Whether
work is shared among them is found out as it runs: what is small is not, and where shared work got
hardly more than one core's time, as other processes hold the cores, it is done alone for a while.
Waiting threads sleep. None of this changes a bit of any result.
"""

from __future__ import annotations

import functools
import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from saferank._core.cores import allowed_cores

T = TypeVar("T")

PIECES = 8
"""Pieces per thread, so that a slow piece does not keep the other threads waiting."""

PROBE = 64
"""The first so-manieth part of a range is done alone, and tells how long the rest would take."""
SMALL = 4e-4
"""Seconds of work that are not worth waking another thread for."""
TELLING = 2e-3
"""Seconds from which shared work tells whether it got the time of more than one core."""
SHARED = 1.25
"""Cores' worth of time that shared work must get to be worth it."""
PAUSES = (0.05, 5.0)
"""Seconds without sharing after work that got less: at first, and at most (each pause doubles)."""


@dataclass
class Crowding:
    """Whether other processes hold the cores, by what shared work got of them.

    >>> crowding = Crowding()
    >>> crowding.learn(wall=0.1, processor=0.1, now=0.0)  # two threads, the time of one core
    >>> crowding.crowded(0.01), crowding.crowded(0.06)
    (True, False)
    """

    until: float = 0.0
    pause: float = PAUSES[0]

    def crowded(self, now: float) -> bool:
        """Whether work is better done alone at this time."""
        return now < self.until

    def learn(self, wall: float, processor: float, now: float) -> None:
        """Take into account what shared work got: seconds that passed, and those of processors."""
        if wall < TELLING:
            return
        if processor >= SHARED * wall:
            self.pause = PAUSES[0]
            return
        self.until = now + self.pause
        self.pause = min(2 * self.pause, PAUSES[1])


class _State:
    """What this process has; a forked child starts with a new pool, as threads do not follow."""

    count: int | None = None
    stated = False
    crowding = Crowding()
    pool: ThreadPoolExecutor | None = None
    left_behind: list[ThreadPoolExecutor] = []  # noqa: RUF012


def threads() -> int:
    """How many threads parallel work may use: `SAFERANK_THREADS`, else the usable cores."""
    if _State.count is None:
        _State.count = allowed_cores()
    return _State.count


def free_threads() -> int:
    """How many threads are worth using now: one while other processes hold the cores."""
    return threads() if _shares() else 1


def _shares() -> bool:
    return _State.stated or not _State.crowding.crowded(time.monotonic())


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Let parallel work of this process use `count` threads inside the block, whatever it brings.

    >>> with use_threads(3):
    ...     threads()
    3
    """
    before = threads(), _State.stated
    _State.count, _State.stated = max(1, count), True
    try:
        yield
    finally:
        _State.count, _State.stated = before


def over_range(work: Callable[[int, int], Any], count: int) -> None:
    """Run `work(first, last)` on pieces of 0..count until all are done, on all threads.

    >>> done = []
    >>> over_range(lambda first, last: done.extend(range(first, last)), 100)
    >>> sorted(done) == list(range(100))
    True
    """
    workers = min(threads(), count)
    if workers <= 1 or not _shares():
        work(0, count)
        return
    first = 0
    if not _State.stated:
        first = max(1, count // PROBE)
        start = time.thread_time()
        work(0, first)
        if (time.thread_time() - start) / first * (count - first) < SMALL:
            work(first, count)
            return
    pieces = min(count - first, workers * PIECES)
    cuts = [first + (count - first) * piece // pieces for piece in range(pieces + 1)]
    run_all([functools.partial(work, *ends) for ends in itertools.pairwise(cuts)])


def run_all(calls: Sequence[Callable[[], T]]) -> list[T]:
    """The results of calls that do not depend on each other, in their order, on all threads.

    The calling thread takes part: however many threads wait for the pool, each gets on by itself.
    """
    workers = min(threads(), len(calls))
    if workers <= 1 or not _shares():
        return [call() for call in calls]
    results: list[Any] = [None] * len(calls)
    numbers = itertools.count()  # advanced in one step under the interpreter lock
    failed = False
    processor: list[float] = []

    def take() -> None:
        nonlocal failed
        start = time.thread_time()
        try:
            while not failed and (number := next(numbers)) < len(calls):
                results[number] = calls[number]()
        except BaseException:
            failed = True
            raise
        finally:
            processor.append(time.thread_time() - start)

    start = time.monotonic()
    pool = _pool()
    helpers = [pool.submit(take) for _ in range(workers - 1)]
    try:
        take()
    finally:
        errors = [helper.exception() for helper in helpers if not helper.cancel()]
    for error in errors:
        if error is not None:
            raise error
    now = time.monotonic()
    _State.crowding.learn(now - start, sum(processor), now)
    return results


def _pool() -> ThreadPoolExecutor:
    if _State.pool is None:
        # the calling thread is one of the workers
        _State.pool = ThreadPoolExecutor(
            max(threads(), os.cpu_count() or 1), thread_name_prefix="saferank"
        )
    return _State.pool


def _start_again() -> None:
    if _State.pool is not None:
        # kept, so that its end does not wait for threads that are not there
        _State.left_behind.append(_State.pool)
        _State.pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_again)
