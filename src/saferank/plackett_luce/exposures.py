r"""The exposure of every document, compiled.

omega(d) is the integral over log t of x_d q_d sum_a pre_d[a] v_{d+1}[a] (see `race`): all terms
have the sign of the weights, so nothing cancels. The suffixes of a chunk of documents are kept
while the prefix passes over it; before that, one sweep without keeping finds the suffix at the end
of every chunk. So a query of any length needs no more than the processor's cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from saferank._core.flat import Floats, Ints
from saferank._core.kernels import kernel, parallel_kernel
from saferank.plackett_luce import bands, lanes, race
from saferank.plackett_luce.nodes import Grid
from saferank.plackett_luce.race import SEEN, W


@kernel
def _back(v: Floats, source: int, target: int, ranks: int, q: Any, p: Any) -> None:
    """v_target[a] = q v_source[a] + p v_source[a+1]; source and target may be the same."""
    here = lanes.load(v, source)
    for a in range(ranks - 1):
        above = lanes.load(v, source + (a + 1) * W)
        lanes.store(v, target + a * W, lanes.multiply_add(p, above, q * here))
        here = above
    lanes.store(v, target + (ranks - 1) * W, q * here)


@kernel
def _forth(pre: Floats, v: Floats, source: int, ranks: int, q: Any, p: Any) -> Any:
    """sum_a pre[a] v_source[a]; pre moves on over one document."""
    product, below = lanes.fill(0.0), lanes.fill(0.0)
    for a in range(ranks):
        here = lanes.load(pre, a * W)
        product = lanes.multiply_add(here, lanes.load(v, source + a * W), product)
        lanes.store(pre, a * W, lanes.multiply_add(p, below, q * here))
        below = here
    return product


@kernel
def _ends_of_chunks(
    rates: Floats, chunk: int, time: Any, ends: Floats, ranks: int, missing: bool
) -> None:
    """Fill `ends`, whose last entry is given, with the suffix at the end of every chunk."""
    size = ranks * W
    for number in range(ends.size // size - 1, 0, -1):
        race.copy(ends, number * size, ends, (number - 1) * size, size)
        for d in range(min(rates.size, (number + 1) * chunk) - 1, number * chunk - 1, -1):
            _, q, p = race.arrival(rates[d], time)
            stay, move = race.moves(q, p, missing)
            _back(ends, (number - 1) * size, (number - 1) * size, ranks, stay, move)


@kernel
def _of_chunk(
    rates: Floats,
    time: Any,
    v: Floats,
    seen: Floats,
    pre: Floats,
    missing: bool,
    omega: Floats,
) -> None:
    """Add one block's share to the exposures of a chunk; v holds the suffix at its end."""
    size, ranks = pre.size, pre.size // W
    for d in range(omega.size - 1, -1, -1):
        x, q, p = race.arrival(rates[d], time)
        race.keep(seen, d * SEEN, x, q, p)
        stay, move = race.moves(q, p, missing)
        _back(v, (d + 1) * size, d * size, ranks, stay, move)
    for d in range(omega.size):
        x, q, p = race.recall(seen, d * SEEN)
        stay, move = race.moves(q, p, missing)
        omega[d] += lanes.total(x * q * _forth(pre, v, (d + 1) * size, ranks, stay, move))


@kernel
def _of_query(scores: Floats, weights: Floats, grid: Grid, omega: Floats) -> None:
    documents = scores.size
    most = min(weights.size, documents)
    padded, origin, blocks, step = race.prepare(scores, most, grid)
    rates, every_pre = race.room(padded.size), race.room(most * W)
    every_end = race.room(
        (documents // race.chunk_length(documents, most + SEEN // W) + 1) * most * W
    )
    v, seen = race.kept_room(documents, most), race.kept_room(documents, SEEN // W)
    for block in range(blocks):
        first = grid.left + (block * W + 0.5) * step
        centre, half, time, weight = race.block_of_nodes(first, step, origin)
        race.rates_at(padded, centre, rates)
        if race.quiet(rates, documents, half, grid.tolerance):
            continue
        ranks, missing = bands.band(rates, documents, half, most, grid.tolerance)
        if ranks == 0:
            continue
        size = ranks * W
        chunk = race.chunk_length(documents, ranks + SEEN // W)
        chunks = (documents + chunk - 1) // chunk
        ends, pre = every_end[: chunks * size], every_pre[:size]
        for a in range(ranks):
            w = bands.weight_of(weights, documents, a, missing)
            lanes.store(ends, ends.size - size + a * W, weight * lanes.fill(w))
            lanes.store(pre, a * W, lanes.fill(1.0 if a == 0 else 0.0))
        _ends_of_chunks(rates[:documents], chunk, time, ends, ranks, missing)
        for number in range(chunks):
            start, stop = number * chunk, min(documents, (number + 1) * chunk)
            race.copy(ends, number * size, v, (stop - start) * size, size)
            _of_chunk(rates[start:stop], time, v, seen, pre, missing, omega[start:stop])


@parallel_kernel
def _of_queries(
    start: int,
    stop: int,
    scores: Floats,
    weights: Floats,
    offsets: Ints,
    grid: Grid,
    omega: Floats,
) -> None:
    for query in range(start, stop):
        first, last = offsets[query], offsets[query + 1]
        if last > first:
            _of_query(scores[first:last], weights, grid, omega[first:last])


def exposures(scores: Floats, weights: Floats, offsets: Ints, grid: Grid) -> Floats:
    """Exposure of each document of all queries."""
    omega = np.zeros(scores.size)
    _of_queries(offsets.size - 1, scores, weights, offsets, grid, omega)
    return omega
