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

    @classmethod
    def of(cls, offsets: Ints, documents: int, workers: Workers) -> Shares:
        """Cut queries into blocks of about so many documents, and share them out."""
        cuts = halve_queries(offsets, documents)
        ends = offsets[[0, *(last for _, last in cuts)]] - offsets[0]
        return cls(cuts, share_out(ends, workers.count), workers)

    @property
    def own(self) -> list[tuple[int, int]]:
        """First and last query of the blocks that this worker computes.

        At least one, so that it knows their shape: where workers outnumber blocks it is unused.
        """
        mine = self.ranges[self.workers.rank]
        return self.cuts[mine.start : mine.stop] or self.cuts[-1:]

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """The rows of all queries in their order, from those of this worker's blocks."""
        queries = [self._queries(blocks) for blocks in self.ranges]
        return torch.cat(self.workers.swap(torch.cat(list(parts)), queries))

    def add_up(self, parts: Sequence[Tensor], rows: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """The sum of the parts of all blocks, and the rows of all queries, by one message.

        Parameters
        ----------
        parts
            A vector for each of this worker's own blocks.
        rows
            A matrix of numbers in double precision for each, with one row per query.

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
        table = torch.cat(list(rows))
        if self.workers.count == 1:
            return sums[0], table
        # rows first: they are whole doubles, so that what follows stays aligned
        said = [table[: self._queries(mine)], *sums]
        message = torch.cat([part.reshape(-1).view(torch.uint8) for part in said])
        border = [self._queries(blocks) * table[0].nbytes for blocks in self.ranges]
        lengths = [at + len(own) * parts[0].nbytes for at, own in zip(border, nodes, strict=True)]
        tables: list[Tensor] = []
        total: dict[Node, Tensor] = {}
        for at, own, sent in zip(border, nodes, self.workers.swap(message, lengths), strict=True):
            tables.append(sent[:at].view(table.dtype))
            vectors = sent[at:].view(parts[0].dtype).reshape(len(own), parts[0].numel())
            total |= dict(zip(own, vectors, strict=True))
        return add_below(root, total), torch.cat(tables).reshape(-1, table.shape[1])

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
