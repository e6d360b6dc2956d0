"""Several processes that learn together: each takes whole queries, all add up in the same order.

Work is cut into blocks of whole queries by the data alone. Worker r of n computes blocks r, r + n,
r + 2n and so on; what it finds is gathered, and every worker adds the parts of all blocks in the
order of the blocks. So one worker, two or four of them have the same bits, after every step.

Started by `torchrun`, by PySpark's `TorchDistributor`, or whatever else sets `RANK`, `WORLD_SIZE`,
`MASTER_ADDR` and `MASTER_PORT` as they do.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from saferank._core.cores import KNOB
from saferank._core.threads import threads, use_threads
from saferank.errors import EngineError

T = TypeVar("T")


@dataclass(frozen=True)
class Workers:
    """How many learn together, and which of them this process is.

    Examples
    --------
    >>> Workers(rank=1, count=2).own(["a", "b", "c", "d", "e"])
    ['b', 'd']
    """

    rank: int = 0
    count: int = 1

    @property
    def writes(self) -> bool:
        """Whether this process writes files and prints: one of them does."""
        return self.rank == 0

    def own(self, blocks: Sequence[T]) -> list[T]:
        """The blocks that this worker computes: at least one, so that it knows their shape."""
        return self._owned(blocks, self.rank)

    def _owned(self, blocks: Sequence[T], rank: int) -> list[T]:
        if rank >= len(blocks):
            return [blocks[rank % len(blocks)]]  # more workers than blocks: what it finds is unused
        return list(blocks[rank :: self.count])

    def gather(self, parts: Sequence[Tensor], lengths: Sequence[int]) -> list[Tensor]:
        """The parts of all blocks, in their order.

        Parameters
        ----------
        parts
            Of this worker's own blocks: matrices of one width and type.
        lengths
            Rows of the part of every block.

        Returns
        -------
        list of Tensor
            As many as there are blocks; the same bits in every worker.
        """
        if self.count == 1:
            return list(parts)
        most = max(sum(self._owned(lengths, rank)) for rank in range(self.count))
        mine = torch.cat(list(parts))
        sent = mine.new_zeros((most, *mine.shape[1:]))
        sent[: len(mine)] = mine
        received = [torch.empty_like(sent) for _ in range(self.count)]
        _talk(received, sent)
        by_rank = [
            list(torch.split(rows[: sum(own)], own))
            for rows, own in (
                (received[rank], self._owned(lengths, rank)) for rank in range(self.count)
            )
        ]
        return [by_rank[block % self.count][block // self.count] for block in range(len(lengths))]

    def agree(self, number: int) -> bool:
        """Whether all workers are at the same number."""
        if self.count == 1:
            return True
        received = [torch.zeros(1, dtype=torch.int64) for _ in range(self.count)]
        _talk(received, torch.tensor([number]))
        return all(int(other) == number for other in received)


def _talk(received: list[Tensor], sent: Tensor) -> None:
    try:
        dist.all_gather(received, sent)
    except RuntimeError as error:
        raise EngineError(
            "another worker is gone; the same command goes on from the last checkpoint."
        ) from error


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
