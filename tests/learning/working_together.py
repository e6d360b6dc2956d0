"""Several workers in one process: a thread each, and a place to meet."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, local
from typing import TypeVar

import pytest
import torch

from saferank.learning import workers
from saferank.learning.workers import Workers

T = TypeVar("T")


def at_all(count: int, learn: Callable[[Workers], T]) -> list[T]:
    """What `learn` returns at each of so many workers."""
    meeting, said = Barrier(count), [torch.empty(0)] * count
    ranks = local()

    def talk(received: list[torch.Tensor], message: torch.Tensor) -> None:
        said[ranks.own] = message
        meeting.wait(timeout=60)
        for place, other in zip(received, said, strict=True):
            place.copy_(other)
        meeting.wait(timeout=60)

    def work(rank: int) -> T:
        ranks.own = rank
        return learn(Workers(rank, count))

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(count) as pool:
        patch.setattr(workers, "_talk", talk)
        return list(pool.map(work, range(count)))
