"""Several processes that learn together: who they are, and what they tell each other.

Who computes what is in `shares`: one worker, two or four of them have the same bits.

Started by `torchrun`, by PySpark's `TorchDistributor`, or whatever else sets `RANK`, `WORLD_SIZE`,
`MASTER_ADDR` and `MASTER_PORT` as they do.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from saferank._core.cores import KNOB
from saferank._core.threads import threads, use_threads
from saferank.errors import EngineError


@dataclass(frozen=True)
class Workers:
    """How many learn together, and which of them this process is.

    Examples
    --------
    >>> Workers(rank=1, count=2).writes
    False
    """

    rank: int = 0
    count: int = 1

    @property
    def writes(self) -> bool:
        """Whether this process writes files and prints: one of them does."""
        return self.rank == 0

    def swap(self, mine: Tensor, lengths: Sequence[int]) -> list[Tensor]:
        """What each worker has to say to all, by rank.

        Parameters
        ----------
        mine
            What this worker says: rows of the width and type of the others'.
        lengths
            Rows of each worker's; of `mine` the first so many count.

        Returns
        -------
        list of Tensor
            As many as there are workers; the same bits in each of them.
        """
        mine = mine[: lengths[self.rank]]
        if self.count == 1:
            return [mine]
        sent = mine.contiguous()
        if len(mine) < max(lengths):
            sent = mine.new_zeros((max(lengths), *mine.shape[1:]))
            sent[: len(mine)] = mine
        received = [torch.empty_like(sent) for _ in range(self.count)]
        _talk(received, sent)
        return [rows[:length] for rows, length in zip(received, lengths, strict=True)]

    def agree(self, number: int) -> bool:
        """Whether all workers are at the same number."""
        if self.count == 1:
            return True
        received = [torch.zeros(1, dtype=torch.int64) for _ in range(self.count)]
        _talk(received, torch.tensor([number]))
        return all(int(other) == number for other in received)


def _talk(received: list[Tensor], sent: Tensor) -> None:
    try:
        if len(received) == 2:
            _swap_two(received, sent)
        else:
            dist.all_gather(received, sent)
    except RuntimeError as error:
        raise EngineError(
            "another worker is gone; the same command goes on from the last checkpoint."
        ) from error


def _swap_two(received: list[Tensor], sent: Tensor) -> None:
    """What two workers tell each other, in about half the processor time of gathering it."""
    own = dist.get_rank()
    received[own].copy_(sent)
    sending = dist.isend(sent, 1 - own)
    dist.recv(received[1 - own], 1 - own)
    if sending is not None:
        sending.wait()


def workers() -> Workers:
    """Those that this process learns with; itself alone unless inside `together`."""
    if dist.is_available() and dist.is_initialized():
        return Workers(dist.get_rank(), dist.get_world_size())
    return Workers()


@contextmanager
def together() -> Iterator[Workers]:
    """Learn together with the other processes that `torchrun` has started, if it has.

    Each gets its share of the cores unless `SAFERANK_THREADS` says how many.

    Examples
    --------
    >>> with together() as all_of_us:
    ...     all_of_us.count
    1
    """
    if int(os.environ.get("WORLD_SIZE", "1")) <= 1 or "RANK" not in os.environ:
        yield Workers()
        return
    beside = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    share = threads() if KNOB in os.environ else max(1, threads() // beside)
    dist.init_process_group("gloo")
    try:
        with use_threads(share):
            yield workers()
    finally:
        dist.destroy_process_group()
