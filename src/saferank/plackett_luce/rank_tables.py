r"""The probability of every document at every rank, compiled: all ranks from one sweep.

P(d at rank a + 1) is the integral over log t of :math:`x_d q_d c_d[a]`, where :math:`c_d` has the
coefficients of the product of all *other* documents' :math:`q_i + p_i z` (see `race`). At one time:

- a document that has hardly arrived is divided out of the product T of all of them,
  :math:`q_d c_d[a] = T[a] - (p_d / q_d)\, q_d c_d[a - 1]`: where :math:`p_d / q_d \le 2/3` the
  errors of this recursion die out;
- the others, about K of them in times that matter, are left out one by one down a binary tree, in
  which every node holds the product of all documents that are not below it: all terms are
  non-negative.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from saferank._core.flat import Floats, Ints
from saferank._core.kernels import kernel, parallel_kernel
from saferank.plackett_luce import lanes, nodes, race
from saferank.plackett_luce.nodes import Grid
from saferank.plackett_luce.race import SEEN, W

_SLOW = 0.5
"""x up to which a document is divided out: then p / q = exp(x) - 1 is at most 0.65."""


@kernel
def _multiply(products: Floats, at: int, ranks: int, degree: int, q: Any, p: Any) -> None:
    """The product of `degree` documents from `at` on, times q + p z; cut at `ranks` terms."""
    a = min(degree + 1, ranks - 1)
    here = lanes.load(products, at + a * W)
    while a > 0:
        below = lanes.load(products, at + (a - 1) * W)
        lanes.store(products, at + a * W, lanes.multiply_add(p, below, q * here))
        here = below
        a -= 1
    lanes.store(products, at, q * here)


@kernel
def _multiply_all(
    products: Floats, at: int, ranks: int, degree: int, seen: Floats, own: Ints
) -> int:
    """The product from `at` on times that of the documents `own`; how many it then is of."""
    for d in own:
        _, q, p = race.recall(seen, d * SEEN)
        _multiply(products, at, ranks, degree, q, p)
        degree += 1
    return degree


@kernel
def _start(products: Floats, ranks: int) -> None:
    """The product of no document."""
    for a in range(ranks):
        lanes.store(products, a * W, lanes.fill(1.0 if a == 0 else 0.0))


@kernel
def _divide_out(product: Floats, x: Any, weight: Any, chances: Floats) -> None:
    """Add one block's share of a document that has hardly arrived."""
    _, less = lanes.decay(lanes.fill(0.0) - x)  # 1 - exp(x) = -p / q
    scale, term = weight * x, lanes.fill(0.0)
    for a in range(chances.size):
        term = lanes.multiply_add(less, term, lanes.load(product, a * W))
        chances[a] += lanes.total(scale * term)


@kernel
def _levels(documents: int) -> int:
    """How often so many documents can be halved."""
    levels = 0
    while (1 << levels) < documents:
        levels += 1
    return levels


@kernel
def _leave_out(
    products: Floats, ranks: int, degree: int, seen: Floats, own: Ints, weight: Any, table: Floats
) -> None:
    """Add one block's share of the documents `own`; products[0] is that of all others.

    Level l of the tree cuts `own` into pieces of 2^(levels - l); the product of a level is of all
    documents but the piece of it in which the current one lies.
    """
    levels, size = _levels(own.size), ranks * W
    degrees = np.empty(levels + 1, dtype=np.int64)
    degrees[0] = degree
    for index in range(own.size):
        for level in range(1, levels + 1):
            length = 1 << (levels - level)
            if index % length:
                continue  # the same piece as that of the document before
            first = ((index // length) ^ 1) * length
            race.copy(products, (level - 1) * size, products, level * size, size)
            beside = own[min(first, own.size) : min(first + length, own.size)]
            degrees[level] = _multiply_all(
                products, level * size, ranks, degrees[level - 1], seen, beside
            )
        d = own[index]
        x, q, _ = race.recall(seen, d * SEEN)
        scale = weight * x * q
        for a in range(ranks):
            table[d, a] += lanes.total(scale * lanes.load(products, levels * size + a * W))


@kernel
def _split(rates: Floats, latest: float, slow: Ints, fast: Ints) -> tuple[int, int]:
    """Documents that have hardly arrived by the latest time of a block, and the others."""
    slows, fasts = 0, 0
    for d in range(slow.size):
        if rates[d] * latest <= _SLOW:
            slow[slows] = d
            slows += 1
        else:
            fast[fasts] = d
            fasts += 1
    return slows, fasts


@kernel
def _of_query(scores: Floats, grid: Grid, table: Floats) -> None:
    documents = scores.size
    ranks = min(table.shape[1], documents)
    padded = race.room(race.padded_length(documents))
    plan = race.prepare(scores, ranks, grid, padded)
    rates, seen = race.room(padded.size), race.room(documents * SEEN)
    products, whole = race.room((_levels(documents) + 1) * ranks * W), race.room(ranks * W)
    slow, fast = np.empty(documents, dtype=np.int64), np.empty(documents, dtype=np.int64)
    times = race.room(W)
    for block in range(plan.blocks):
        centre, half, time, weight = race.block_of_nodes(plan, block, times, 0)
        race.rates_at(padded, 0, centre, rates)
        if race.quiet(rates, documents, half, plan):
            continue
        for d in range(documents):
            race.keep(seen, d * SEEN, *race.arrival(rates[d], time))
        lanes.store(times, 0, time)
        longest = times[0]
        for lane in range(1, W):
            longest = max(longest, times[lane])
        slows, fasts = _split(rates, longest, slow, fast)
        _start(products, ranks)
        degree = _multiply_all(products, 0, ranks, 0, seen, slow[:slows])
        race.copy(products, 0, whole, 0, ranks * W)
        _multiply_all(whole, 0, ranks, degree, seen, fast[:fasts])
        for d in slow[:slows]:
            _divide_out(whole, lanes.load(seen, d * SEEN), weight, table[d, :ranks])
        _leave_out(products, ranks, degree, seen, fast[:fasts], weight, table)


@parallel_kernel
def _of_queries(
    start: int, stop: int, scores: Floats, offsets: Ints, grids: Floats, table: Floats
) -> None:
    for query in range(start, stop):
        first, last = offsets[query], offsets[query + 1]
        if last > first:
            grid = nodes.grid_of(grids, last - first)
            _of_query(scores[first:last], grid, table[first:last])


def rank_tables(scores: Floats, k: int, offsets: Ints, tol: float) -> Floats:
    """P(document at rank) of all documents, documents x k."""
    table, grids = np.zeros((scores.size, k)), nodes.grids(tol, k, 0, offsets)
    _of_queries(offsets.size - 1, scores, offsets, grids, table)
    return np.maximum(table, 0.0)
