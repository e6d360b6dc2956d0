r"""The gradient of a weighted sum of exposures in the scores, compiled.

:math:`G = \sum_d g_d \omega(d)`. A second state goes through both sweeps of the race: whether the
one document whose exposure is counted has passed. With :math:`f_j = x_j q_j`:

- suffixes: A, it is still to come, and B, it has passed (B is the suffix of the exposures);
  A_j[a] = q_j A_{j+1}[a] + p_j A_{j+1}[a+1] + g_j f_j B_{j+1}[a];
- prefixes: a, it has not passed, and b, it has;
  b_{j+1}[i] = q_j b_j[i] + p_j b_j[i-1] + g_j f_j a_j[i].

As dq/ds = -f, dp/ds = f and df/ds = f (1 - x), at a fixed time

.. math:: dG/ds_j = f_j \sum_i a_j[i] (A[i+1] - A[i] + g_j (1 - x_j) B[i]) + b_j[i] (B[i+1] - B[i])

with the suffixes of j+1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from saferank._core.flat import Floats, Ints
from saferank._core.kernels import kernel, parallel_kernel
from saferank.plackett_luce import bands, lanes, race
from saferank.plackett_luce.nodes import Grid
from saferank.plackett_luce.race import SEEN, W

_PAIR = 2 * W  # A and B of one count of arrivals lie side by side


@kernel
def _back(v: Floats, source: int, target: int, ranks: int, q: Any, p: Any, gf: Any) -> None:
    """Suffixes before one document from those after it; source and target may be the same."""
    to_come, passed = lanes.load(v, source), lanes.load(v, source + W)
    for a in range(ranks):
        at = target + a * _PAIR
        mixed_come = lanes.multiply_add(gf, passed, q * to_come)
        mixed_passed = q * passed
        if a + 1 < ranks:
            to_come = lanes.load(v, source + (a + 1) * _PAIR)
            passed = lanes.load(v, source + (a + 1) * _PAIR + W)
            mixed_come = lanes.multiply_add(p, to_come, mixed_come)
            mixed_passed = lanes.multiply_add(p, passed, mixed_passed)
        lanes.store(v, at, mixed_come)
        lanes.store(v, at + W, mixed_passed)


@kernel
def _forth(pre: Floats, v: Floats, source: int, ranks: int, q: Any, p: Any, gf: Any) -> Any:
    """sum a (A[i+1] - A[i]) + b (B[i+1] - B[i]) and sum a B[i]; pre moves on over one document."""
    change, chosen = lanes.fill(0.0), lanes.fill(0.0)
    a_below, b_below = lanes.fill(0.0), lanes.fill(0.0)
    come, passed = lanes.load(v, source), lanes.load(v, source + W)
    for i in range(ranks):
        a, b = lanes.load(pre, i * _PAIR), lanes.load(pre, i * _PAIR + W)
        chosen = lanes.multiply_add(a, passed, chosen)
        next_come, next_passed = lanes.fill(0.0), lanes.fill(0.0)
        if i + 1 < ranks:
            next_come = lanes.load(v, source + (i + 1) * _PAIR)
            next_passed = lanes.load(v, source + (i + 1) * _PAIR + W)
        change = lanes.multiply_add(a, next_come - come, change)
        change = lanes.multiply_add(b, next_passed - passed, change)
        lanes.store(pre, i * _PAIR, lanes.multiply_add(p, a_below, q * a))
        b_mixed = lanes.multiply_add(p, b_below, q * b)
        lanes.store(pre, i * _PAIR + W, lanes.multiply_add(gf, a, b_mixed))
        a_below, b_below, come, passed = a, b, next_come, next_passed
    return change, chosen


@kernel
def _ends_of_chunks(
    rates: Floats,
    slope: Floats,
    chunk: int,
    time: Any,
    ends: Floats,
    ranks: int,
    missing: bool,
) -> None:
    """Fill `ends`, whose last entry is given, with the suffixes at the end of every chunk."""
    size = ranks * _PAIR
    for number in range(ends.size // size - 1, 0, -1):
        at = (number - 1) * size
        race.copy(ends, number * size, ends, at, size)
        for d in range(min(slope.size, (number + 1) * chunk) - 1, number * chunk - 1, -1):
            x, q, p = race.arrival(rates[d], time)
            stay, move = race.moves(q, p, missing)
            _back(ends, at, at, ranks, stay, move, lanes.fill(slope[d]) * x * q)


@kernel
def _of_chunk(
    rates: Floats,
    slope: Floats,
    time: Any,
    v: Floats,
    seen: Floats,
    pre: Floats,
    missing: bool,
    gradient: Floats,
) -> None:
    """Add one block's share to the gradient of a chunk; v holds the suffixes at its end."""
    size, ranks = pre.size, pre.size // _PAIR
    for d in range(slope.size - 1, -1, -1):
        x, q, p = race.arrival(rates[d], time)
        race.keep(seen, d * SEEN, x, q, p)
        stay, move = race.moves(q, p, missing)
        _back(v, (d + 1) * size, d * size, ranks, stay, move, lanes.fill(slope[d]) * x * q)
    for d in range(slope.size):
        x, q, p = race.recall(seen, d * SEEN)
        g, f = lanes.fill(slope[d]), x * q
        stay, move = race.moves(q, p, missing)
        change, chosen = _forth(pre, v, (d + 1) * size, ranks, stay, move, g * f)
        own = g * (lanes.fill(1.0) - x)
        if missing:  # an arrival is one less of those that are counted
            change = lanes.fill(0.0) - change
        gradient[d] += lanes.total(f * lanes.multiply_add(own, chosen, change))


@kernel
def _centred(slopes: Floats) -> Floats:
    """Slopes around 0: less is rounded, and equal slopes give a gradient of exactly 0.

    Exposures have a fixed sum, so a constant in the slopes changes nothing.
    """
    low, high = slopes[0], slopes[0]
    for slope in slopes:
        low, high = min(low, slope), max(high, slope)
    around = np.empty(slopes.size)
    for d in range(slopes.size):
        around[d] = slopes[d] - (low / 2 + high / 2)
    return around


@kernel
def _of_query(
    scores: Floats, weights: Floats, slopes: Floats, grid: Grid, gradient: Floats
) -> None:
    slope = _centred(slopes)
    documents = scores.size
    most = min(weights.size, documents)
    padded, origin, blocks, step = race.prepare(scores, most, grid)
    rates, every_pre = race.room(padded.size), race.room(most * _PAIR)
    longest = race.chunk_length(documents, (most * _PAIR + SEEN) // W)
    every_end = race.room((documents // longest + 1) * most * _PAIR)
    v, seen = race.kept_room(documents, 2 * most), race.kept_room(documents, SEEN // W)
    for block in range(blocks):
        first = grid.left + (block * W + 0.5) * step
        centre, half, time, weight = race.block_of_nodes(first, step, origin)
        race.rates_at(padded, centre, rates)
        if race.quiet(rates, documents, half, grid.tolerance):
            continue
        ranks, missing = bands.band(rates, documents, half, most, grid.tolerance)
        if ranks == 0:
            continue
        size = ranks * _PAIR
        chunk = race.chunk_length(documents, (size + SEEN) // W)
        chunks = (documents + chunk - 1) // chunk
        ends, pre = every_end[: chunks * size], every_pre[:size]
        for a in range(ranks):
            at, w = a * _PAIR, bands.weight_of(weights, documents, a, missing)
            lanes.store(ends, ends.size - size + at, lanes.fill(0.0))
            lanes.store(ends, ends.size - size + at + W, weight * lanes.fill(w))
            lanes.store(pre, at, lanes.fill(1.0 if a == 0 else 0.0))
            lanes.store(pre, at + W, lanes.fill(0.0))
        _ends_of_chunks(rates[:documents], slope, chunk, time, ends, ranks, missing)
        for number in range(chunks):
            start, stop = number * chunk, min(documents, (number + 1) * chunk)
            race.copy(ends, number * size, v, (stop - start) * size, size)
            _of_chunk(
                rates[start:stop], slope[start:stop], time, v, seen, pre, missing,
                gradient[start:stop],
            )  # fmt: skip


@parallel_kernel
def _of_queries(
    start: int,
    stop: int,
    scores: Floats,
    weights: Floats,
    slope: Floats,
    offsets: Ints,
    grid: Grid,
    gradient: Floats,
) -> None:
    for query in range(start, stop):
        first, last = offsets[query], offsets[query + 1]
        if last > first:
            _of_query(scores[first:last], weights, slope[first:last], grid, gradient[first:last])


def gradients(scores: Floats, weights: Floats, slope: Floats, offsets: Ints, grid: Grid) -> Floats:
    """Gradient in the score of each document of all queries."""
    gradient = np.zeros(scores.size)
    _of_queries(offsets.size - 1, scores, weights, slope, offsets, grid, gradient)
    return gradient
