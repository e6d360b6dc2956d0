"""Blocks of whole queries, which worker computes which, and sums that do not depend on it.

Blocks are the leaves of a binary tree, cut by the data alone. Each worker takes neighbouring
blocks, adds up the subtrees that lie within them, and sends these sums; the rest of the tree is
added by all. Whoever computed a leaf, every sum has the same two terms, and so the same bits.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from saferank._core.flat import Ints, halve_queries
from saferank.learning.portion import Portion
from saferank.learning.workers import Workers

Node = tuple[int, int]
"""First and last (not included) of the blocks below a node of the tree."""


@dataclass(frozen=True)
class Shares:
    """The blocks of some queries, and those that each worker computes.

    Examples
    --------
    >>> Shares.of(np.arange(0, 90, 10), 20, Workers(rank=1, count=2)).own
    [(4, 6), (6, 8)]
    """

    cuts: list[tuple[int, int]]
    """First and last query of each block."""
    ranges: list[range]
    """Blocks of each worker."""
    workers: Workers
    spare: bool = True
    """Whether a worker without blocks takes the last, which is unused, to know its shape."""

    @classmethod
    def of(cls, offsets: Ints, documents: int, workers: Workers) -> Shares:
        """Cut queries into blocks of about so many documents, and share them out."""
        cuts = halve_queries(offsets, documents)
        ends = offsets[[0, *(last for _, last in cuts)]] - offsets[0]
        return cls(cuts, share_out(ends, workers.count), workers)

    @classmethod
    def of_shards(cls, offsets: Ints, borders: Ints, documents: int, portion: Portion) -> Shares:
        """Cut the queries of each shard by themselves: a block is its owner's to compute.

        >>> portion = Portion(np.arange(5), np.ones(4), np.array([0, 3, 4]),
        ...                   (range(1), range(1, 2)), Workers(1, 2), key="")
        >>> Shares.of_shards(portion.offsets, portion.borders, 2, portion)
        Shares(cuts=[(0, 1), (1, 3), (3, 4)], ranges=[range(0, 2), range(2, 3)], ...)
        """
        cuts: list[tuple[int, int]] = []
        ends = [0]
        for start, stop in itertools.pairwise(borders.tolist()):
            blocks = halve_queries(offsets[start : stop + 1], documents)
            cuts += [(start + first, start + last) for first, last in blocks]
            ends.append(len(cuts))
        ranges = [range(ends[own.start], ends[own.stop]) for own in portion.owned]
        return cls(cuts, ranges, portion.workers, spare=False)

    @property
    def own(self) -> list[tuple[int, int]]:
        """First and last query of the blocks that this worker computes."""
        mine = self.ranges[self.workers.rank]
        return self.cuts[mine.start : mine.stop] or self.cuts[-1:] * self.spare

    def join(self, parts: Sequence[Tensor], width: int = 2) -> Tensor:
        """The rows of all queries in their order, from those of this worker's blocks.

        Rows are doubles; `width` is their number of columns where this worker has no block.
        """
        queries = [self._queries(blocks) for blocks in self.ranges]
        mine = torch.cat(list(parts)) if parts else torch.zeros((0, width), dtype=torch.float64)
        return torch.cat(self.workers.swap(mine, queries))

    def add_up(
        self,
        parts: Sequence[Tensor],
        rows: Sequence[Tensor],
        blank: tuple[Tensor, int] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The sum of the parts of all blocks, and the rows of all queries, by one message.

        Parameters
        ----------
        parts
            A vector for each of this worker's own blocks.
        rows
            A matrix of numbers in double precision for each, with one row per query.
        blank
            A vector like the parts, and the columns of the rows: for a worker without a block.

        Returns
        -------
        tuple of Tensor
            The sum and the rows; the same bits in every worker, for any number of workers.
        """
        root = (0, len(self.cuts))
        nodes = [subtrees(blocks, root) for blocks in self.ranges]
        mine = self.ranges[self.workers.rank]
        leaves = {(at, at + 1): part for at, part in zip(mine, parts, strict=False)}
        sums = [add_below(node, leaves) for node in nodes[self.workers.rank]]
        like, width = (parts[0], rows[0].shape[1]) if parts or blank is None else blank
        table = torch.cat([torch.zeros((0, width), dtype=torch.float64), *rows])
        if self.workers.count == 1:
            return sums[0], table
        # rows first: they are whole doubles, so that what follows stays aligned
        said = [table[: self._queries(mine)], *sums]
        message = torch.cat([part.reshape(-1).view(torch.uint8) for part in said])
        border = [self._queries(blocks) * width * table.itemsize for blocks in self.ranges]
        lengths = [at + len(own) * like.nbytes for at, own in zip(border, nodes, strict=True)]
        tables: list[Tensor] = []
        total: dict[Node, Tensor] = {}
        for at, own, sent in zip(border, nodes, self.workers.swap(message, lengths), strict=True):
            tables.append(sent[:at].view(table.dtype))
            vectors = sent[at:].view(like.dtype).reshape(len(own), like.numel())
            total |= dict(zip(own, vectors, strict=True))
        return add_below(root, total), torch.cat(tables).reshape(-1, width)

    def _queries(self, blocks: range) -> int:
        return sum(last - first for first, last in self.cuts[blocks.start : blocks.stop])


def share_out(ends: Ints, count: int) -> list[range]:
    """Neighbouring blocks for each worker, with about as many documents as those of the others.

    >>> share_out(np.array([0, 10, 20, 30, 70]), 2)  # documents before each block, and all
    [range(0, 3), range(3, 4)]
    """
    wanted = ends[-1] * np.arange(1, count) / count
    cuts = np.abs(ends[:, None] - wanted).argmin(axis=0).tolist()
    borders = [0, *cuts, ends.size - 1]
    return [range(first, last) for first, last in itertools.pairwise(borders)]


def subtrees(blocks: range, node: Node) -> list[Node]:
    """The largest nodes, from a node of the tree on down, that lie within some blocks.

    >>> subtrees(range(1, 4), (0, 4))
    [(1, 2), (2, 4)]
    """
    first, last = node
    if last <= blocks.start or blocks.stop <= first:
        return []
    if blocks.start <= first and last <= blocks.stop:
        return [node]
    left, right = _children(node)
    return subtrees(blocks, left) + subtrees(blocks, right)


def add_below(node: Node, sums: Mapping[Node, Tensor]) -> Tensor:
    """The sum at a node, from those of nodes below it.

    >>> add_below((0, 3), {(0, 1): torch.tensor(1), (1, 3): torch.tensor(2)})
    tensor(3)
    """
    if node in sums:
        return sums[node]
    left, right = _children(node)
    return add_below(left, sums) + add_below(right, sums)


def _children(node: Node) -> tuple[Node, Node]:
    first, last = node
    middle = (first + last) // 2
    return (first, middle), (middle, last)
