"""The queries of all shards, of which a process has those of its own shards.

Queries have one number each, shard by shard, and workers own neighbouring shards: what each has of
its own queries stands together among all. What learning needs of all queries at once is put
together of shards in their order, whoever has them, so that every number of workers has the same
bits. Numbers of each query (documents, sessions, risk) are known to all; numbers of documents
(features, counts, scores, gains) are only where the shard is, and are computed shard by shard.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from saferank._core.flat import Array, Floats, Ints
from saferank._core.seeds import generator
from saferank.data.scaling import Parts
from saferank.errors import require
from saferank.learning.workers import Workers


@dataclass(frozen=True, eq=False)
class Portion:
    """All queries by shard, and which shards are this process's own.

    Examples
    --------
    >>> cuts, visits = np.array([0, 2, 3, 7]), np.array([5, 0, 4])
    >>> portion = Portion(cuts, visits, np.array([0, 2, 3]), (range(2),), Workers(), key="")
    >>> portion.subset(np.array([0, 2])).borders
    array([0, 1, 2])
    """

    offsets: Ints
    """Where the documents of each query begin, of all shards together."""
    sessions: Ints
    """Of each query, to learn from."""
    borders: Ints
    """The first query of each shard, and the number of all."""
    owned: tuple[range, ...]
    """Shards of each worker."""
    workers: Workers
    key: str
    """Names the shards, for checkpoints."""

    @classmethod
    def gather(
        cls,
        sizes: Sequence[Ints],
        sessions: Sequence[Ints],
        owned: tuple[range, ...],
        workers: Workers,
        key: str,
    ) -> Portion:
        """From documents and sessions of the queries of each own shard."""
        queries = join_rows(workers, np.array([len(one) for one in sizes], dtype=np.int64))
        every = join_rows(workers, np.stack([np.concatenate(sizes), np.concatenate(sessions)], 1))
        offsets, borders = (
            np.concatenate([[0], np.cumsum(numbers)]) for numbers in (every[:, 0], queries)
        )
        visits = np.ascontiguousarray(every[:, 1])
        return cls(offsets, visits, borders, owned, workers, key)

    @property
    def queries(self) -> int:
        """Number of all queries."""
        return self.sessions.size

    @property
    def own(self) -> range:
        """This process's shards."""
        return self.owned[self.workers.rank]

    @property
    def first(self) -> int:
        """The first of this process's queries."""
        return int(self.borders[self.own.start])

    @property
    def last(self) -> int:
        """The query after the last of this process's."""
        return int(self.borders[self.own.stop])

    @property
    def own_shards(self) -> list[tuple[int, int]]:
        """First and last (not included) query of each own shard, counted from the own first."""
        cuts = self.borders[self.own.start : self.own.stop + 1] - self.first
        return [(int(a), int(b)) for a, b in itertools.pairwise(cuts)]

    def local(self, queries: Ints) -> Ints:
        """The own among some queries, counted from the own first."""
        inside = (queries >= self.first) & (queries < self.last)
        return queries[inside] - self.first

    def subset(self, queries: Ints) -> Portion:
        """Some queries of all shards, in ascending order."""
        cuts = np.concatenate([[0], np.cumsum(np.diff(self.offsets)[queries])])
        borders = np.searchsorted(queries, self.borders)
        return Portion(cuts, self.sessions[queries], borders, self.owned, self.workers, self.key)

    def shard_borders(self, queries: Ints) -> Ints:
        """Where the queries of each shard begin among some queries that stand shard by shard."""
        shards = np.searchsorted(self.borders, queries, side="right") - 1
        return np.searchsorted(shards, np.arange(self.borders.size))

    def order(self, seed: int, epoch: int) -> Ints:
        """All queries in the order of an epoch: shuffled within each shard."""
        drawn = [
            first + generator(seed, "epoch", epoch, shard).permutation(last - first)
            for shard, (first, last) in enumerate(
                zip(self.borders[:-1].tolist(), self.borders[1:].tolist(), strict=True)
            )
        ]
        return np.concatenate(drawn).astype(np.int64)

    def total(self, own: Sequence[Array]) -> Any:
        """The sum of what each shard has, in the order of the shards; `own` are those of own."""
        rows = join_rows(self.workers, np.stack([np.asarray(one) for one in own]))
        total = rows[0].copy()
        for row in rows[1:]:
            total += row
        return total

    def parts(self) -> Parts:
        """All queries as parts, for what is fitted to them."""
        return Parts(self.own_shards, self.total, whole=False)

    def most(self, own: float) -> float:
        """The largest of what each worker has."""
        return float(join_rows(self.workers, np.array([own])).max())


def join_rows(workers: Workers, own: Array) -> Array:
    """The rows of all workers, one after another."""
    mine = torch.from_numpy(np.ascontiguousarray(own))
    lengths = torch.tensor([len(mine)])
    counted = torch.cat(workers.swap(lengths, [1] * workers.count)).tolist()
    rows: Array = torch.cat(workers.swap(mine, counted)).numpy()
    return rows


def share_shards(documents: Sequence[int], workers: int) -> tuple[range, ...]:
    """Neighbouring shards for each worker, about as many documents each, and at least one shard.

    >>> share_shards([10, 1, 1, 10], 2), share_shards([9, 1, 1], 3)
    ((range(0, 2), range(2, 4)), (range(0, 1), range(1, 2), range(2, 3)))
    """
    shards = len(documents)
    rule = f"at most {shards}, as there are {shards} shards"
    require(workers <= shards, "workers", rule, workers)
    ends = np.concatenate([[0], np.cumsum(documents)])
    wanted = ends[-1] * np.arange(1, workers) / workers
    cuts = [0, *np.abs(ends[:, None] - wanted).argmin(axis=0).tolist(), shards]
    for at in range(1, workers):
        cuts[at] = min(max(cuts[at], cuts[at - 1] + 1), shards - workers + at)
    return tuple(range(a, b) for a, b in itertools.pairwise(cuts))


def merge(parts: Sequence[Sequence[Floats]]) -> tuple[Floats, ...]:
    """Arrays of documents shard by shard as arrays of all own documents; of one shard as it is."""
    if len(parts) == 1:
        return tuple(parts[0])
    return tuple(np.concatenate(each) for each in zip(*parts, strict=True))
