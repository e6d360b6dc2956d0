"""One pool of threads per process: made when first needed, and made again after a fork.

Compiled loops run without the interpreter lock, so plain threads are enough. No OpenMP and no
threading layer of Numba's is used: some of them abort, and some hang, in a process that was forked
or when several threads call them at once.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

PIECES = 8
"""Pieces per thread, so that a slow piece does not keep the other threads waiting."""


class _State:
    """What this process has; a forked child starts with a new pool, as threads do not follow."""

    count: int | None = None
    pool: ThreadPoolExecutor | None = None
    left_behind: list[ThreadPoolExecutor] = []  # noqa: RUF012


def threads() -> int:
    """How many threads parallel work may use: `NUMBA_NUM_THREADS`, else the usable cores."""
    if _State.count is None:
        stated = os.environ.get("NUMBA_NUM_THREADS", "")
        _State.count = int(stated) if stated.isdecimal() and int(stated) > 0 else _cores()
    return _State.count


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Let parallel work of this process use `count` threads inside the block.

    >>> with use_threads(3):
    ...     threads()
    3
    """
    before = threads()
    _State.count = max(1, count)
    try:
        yield
    finally:
        _State.count = before


def over_range(work: Callable[[int, int], Any], count: int) -> None:
    """Run `work(first, last)` on pieces of 0..count until all are done, on all threads.

    >>> done = []
    >>> over_range(lambda first, last: done.extend(range(first, last)), 100)
    >>> sorted(done) == list(range(100))
    True
    """
    workers = min(threads(), count)
    if workers <= 1:
        work(0, count)
        return
    pieces = min(count, workers * PIECES)
    cuts = [count * piece // pieces for piece in range(pieces + 1)]
    run_all([lambda a=a, b=b: work(a, b) for a, b in itertools.pairwise(cuts)])  # type: ignore[misc]


def run_all(calls: Sequence[Callable[[], T]]) -> list[T]:
    """The results of calls that do not depend on each other, in their order, on all threads.

    The calling thread takes part: however many threads wait for the pool, each gets on by itself.
    """
    workers = min(threads(), len(calls))
    if workers <= 1:
        return [call() for call in calls]
    results: list[Any] = [None] * len(calls)
    numbers = itertools.count()  # advanced in one step under the interpreter lock
    failed = False

    def take() -> None:
        nonlocal failed
        try:
            while not failed and (number := next(numbers)) < len(calls):
                results[number] = calls[number]()
        except BaseException:
            failed = True
            raise

    pool = _pool()
    helpers = [pool.submit(take) for _ in range(workers - 1)]
    try:
        take()
    finally:
        errors = [helper.exception() for helper in helpers if not helper.cancel()]
    for error in errors:
        if error is not None:
            raise error
    return results


def _pool() -> ThreadPoolExecutor:
    if _State.pool is None:
        # the calling thread is one of the workers
        _State.pool = ThreadPoolExecutor(max(threads(), _cores()), thread_name_prefix="saferank")
    return _State.pool


def _start_again() -> None:
    if _State.pool is not None:
        # kept, so that its end does not wait for threads that are not there
        _State.left_behind.append(_State.pool)
        _State.pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_again)
