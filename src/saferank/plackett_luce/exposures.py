r"""The exposure of every document, compiled.

omega(d) is the integral over log t of x_d q_d sum_a pre_d[a] v_{d+1}[a] (see `race`): all terms
have the sign of the weights, so nothing cancels. Of a pair of documents, with pre before it and v
after it, the first one has the others' sums

.. math:: q_2 S_0 + p_2 S_1 , \qquad S_k = \sum_a \text{pre}[a]\, v[a + k] ,

and the second one q_1 S_0 + p_1 S_1. The suffixes of a chunk of pairs are kept while the prefix
passes over it; before that, one sweep without keeping finds the suffix at the end of every chunk.
So a query of any length needs no more than the processor's cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from saferank._core.flat import Floats, Ints
from saferank._core.kernels import kernel, parallel_kernel
from saferank.plackett_luce import bands, lanes, nodes, race
from saferank.plackett_luce.nodes import Grid
from saferank.plackett_luce.race import SEEN, Space, Sweep, W


@kernel
def _back(work: Floats, source: int, target: int, size: int, chances: Any) -> None:
    """The suffix before a pair from the one after it; source and target may be the same."""
    none, one, two = chances
    here, above = lanes.load(work, source), lanes.load(work, source + W)
    for a in range(0, size - 2 * W, W):
        beyond = lanes.load(work, source + a + 2 * W)
        mixed = lanes.multiply_add(one, above, none * here)
        lanes.store(work, target + a, lanes.multiply_add(two, beyond, mixed))
        here, above = above, beyond
    lanes.store(work, target + size - 2 * W, lanes.multiply_add(one, above, none * here))
    lanes.store(work, target + size - W, none * above)


@kernel
def _forth(work: Floats, pre: int, v: int, size: int, chances: Any) -> Any:
    """S_0 and S_1 of a pair; the prefix moves on over it."""
    none, one, two = chances
    level, shifted = lanes.fill(0.0), lanes.fill(0.0)
    below, further = lanes.fill(0.0), lanes.fill(0.0)
    after = lanes.load(work, v)
    for a in range(0, size - W, W):
        here, above = lanes.load(work, pre + a), lanes.load(work, v + a + W)
        level = lanes.multiply_add(here, after, level)
        shifted = lanes.multiply_add(here, above, shifted)
        mixed = lanes.multiply_add(one, below, none * here)
        lanes.store(work, pre + a, lanes.multiply_add(two, further, mixed))
        further, below, after = below, here, above
    here = lanes.load(work, pre + size - W)
    mixed = lanes.multiply_add(one, below, none * here)
    lanes.store(work, pre + size - W, lanes.multiply_add(two, further, mixed))
    return lanes.multiply_add(here, after, level), shifted


@kernel
def _find_ends(space: Space, time: Any, sweep: Sweep) -> None:
    """Fill `ends`, whose last entry is given, with the suffix at the end of every chunk."""
    work, size = space.work, sweep.size
    for number in range((sweep.pairs - 1) // sweep.chunk, 0, -1):
        at = space.ends + (number - 1) * size
        race.copy(work, at + size, work, at, size)
        stop = min(sweep.pairs, (number + 1) * sweep.chunk)
        for pair in range(stop - 1, number * sweep.chunk - 1, -1):
            _, q, p = race.arrive(space, 2 * pair, time)
            _, other_q, other_p = race.arrive(space, 2 * pair + 1, time)
            one = race.moves(q, p, sweep.missing)
            other = race.moves(other_q, other_p, sweep.missing)
            _back(work, at, at, size, race.product(one, other))


@kernel
def _add_chunk(space: Space, time: Any, sweep: Sweep, start: int, stop: int) -> None:
    """Add one block's share to the exposures of a chunk; v holds the suffix at its end."""
    work, size, sums = space.work, sweep.size, space.sums
    seen, v = space.seen - 2 * start * SEEN, space.v - start * size
    for pair in range(stop - 1, start - 1, -1):
        x, q, p = race.arrive(space, 2 * pair, time)
        race.keep(work, seen + 2 * pair * SEEN, x, q, p)
        other_x, other_q, other_p = race.arrive(space, 2 * pair + 1, time)
        race.keep(work, seen + (2 * pair + 1) * SEEN, other_x, other_q, other_p)
        one = race.moves(q, p, sweep.missing)
        other = race.moves(other_q, other_p, sweep.missing)
        _back(work, v + (pair + 1) * size, v + pair * size, size, race.product(one, other))
    for pair in range(start, stop):
        x, q, p = race.recall(work, seen + 2 * pair * SEEN)
        other_x, other_q, other_p = race.recall(work, seen + (2 * pair + 1) * SEEN)
        one = race.moves(q, p, sweep.missing)
        other = race.moves(other_q, other_p, sweep.missing)
        chances = race.product(one, other)
        level, shifted = _forth(work, space.pre, v + (pair + 1) * size, size, chances)
        others = lanes.multiply_add(other[1], shifted, other[0] * level)
        work[sums + 2 * pair] += lanes.total(x * q * others)
        others = lanes.multiply_add(one[1], shifted, one[0] * level)
        work[sums + 2 * pair + 1] += lanes.total(other_x * other_q * others)


@kernel
def _add_late(
    weights: Floats, space: Space, documents: int, present: int, counts: int, at: Any
) -> None:
    r"""Add one block's share to the exposures of documents that come much later than all others.

    They change nothing for those, and each has :math:`x_d \sum_a \text{pre}[a]\, w_a`, as small
    as it may be, with the prefix of all that are present.
    """
    work, (time, weight) = space.work, at
    level = lanes.fill(0.0)
    for a in range(counts):
        w = lanes.fill(bands.weight_of(weights, documents, a, False))
        level = lanes.multiply_add(lanes.load(work, space.pre + a * W), w, level)
    share = lanes.total(weight * time * level)
    work[space.rates + present] = work[space.beside]
    for place in range(present, documents):
        work[space.sums + place] += share * work[space.rates + place]


@kernel
def _of_query(scores: Floats, weights: Floats, grid: Grid, space: Space) -> None:
    """Fill the sums of a space with the exposures of a query."""
    documents, work = scores.size, space.work
    most = min(weights.size, documents)
    plan = race.begin(scores, most, grid, space)
    for block in range(plan.blocks):
        counts, missing, present, time, weight = race.look(space, plan, block, documents, most)
        if counts == 0:
            continue
        sweep = race.make_sweep(present, counts * W, missing)
        pairs, chunk, size = sweep.pairs, sweep.chunk, sweep.size
        last = (pairs - 1) // chunk
        for a in range(counts):
            w = bands.weight_of(weights, documents, a, missing)
            lanes.store(work, space.ends + last * size + a * W, weight * lanes.fill(w))
            lanes.store(work, space.pre + a * W, lanes.fill(1.0 if a == 0 else 0.0))
        _find_ends(space, time, sweep)
        for number in range(last + 1):
            start, stop = number * chunk, min(pairs, (number + 1) * chunk)
            end = space.v + (stop - start) * size
            race.copy(work, space.ends + number * size, work, end, size)
            _add_chunk(space, time, sweep, start, stop)
        if present < documents:
            _add_late(weights, space, documents, present, counts, (time, weight))


@parallel_kernel
def _of_queries(
    start: int,
    stop: int,
    scores: Floats,
    weights: Floats,
    offsets: Ints,
    grids: Floats,
    omega: Floats,
) -> None:
    longest = nodes.longest(offsets[start : stop + 1])
    space = race.make_space(longest, race.counts_of(weights.size, longest) * W)
    for query in range(start, stop):
        first, last = offsets[query], offsets[query + 1]
        if last > first:
            grid = nodes.grid_of(grids, last - first)
            _of_query(scores[first:last], weights, grid, space)
            race.copy_sums(space, omega, first, last)


def exposures(scores: Floats, weights: Floats, offsets: Ints, tol: float) -> Floats:
    """Exposure of each document of all queries."""
    omega = np.zeros(scores.size)
    grids = nodes.grids(tol, weights.size, 0, offsets)
    _of_queries(offsets.size - 1, scores, weights, offsets, grids, omega)
    return omega
