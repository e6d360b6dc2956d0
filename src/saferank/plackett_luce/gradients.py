r"""The gradient of a weighted sum of exposures in the scores, compiled.

:math:`G = \sum_d g_d \omega(d)`. A second state goes through both sweeps of the race: whether the
one document whose exposure is counted has passed. With :math:`f_j = x_j q_j`:

- suffixes: A, it is still to come, and B, it has passed (B is the suffix of the exposures);
  A_j[a] = q_j A_{j+1}[a] + p_j A_{j+1}[a+1] + g_j f_j B_{j+1}[a];
- prefixes: a, it has not passed, and b, it has;
  b_{j+1}[i] = q_j b_j[i] + p_j b_j[i-1] + g_j f_j a_j[i].

Two documents at a time: beside e_0, e_1, e_2 (see `race`) for none of the two being the one, there
are h_0 + h_1 z = g_1 f_1 (q_2 + p_2 z) + g_2 f_2 (q_1 + p_1 z) for one of them being it.

As dq/ds = -f, dp/ds = f and df/ds = f (1 - x), at a fixed time

.. math:: dG/ds_1 = f_1 (q_2 D_0 + p_2 D_1 + g_2 f_2 (S_1 - S_0)
                         + g_1 (1 - x_1) (q_2 S_0 + p_2 S_1))

with a, b before the pair, A, B after it, :math:`S_k = \sum_i a[i] B[i+k]` and
:math:`D_k = \sum_i a[i] (A[i+k+1] - A[i+k]) + b[i] (B[i+k+1] - B[i+k])`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from saferank._core.flat import Floats, Ints
from saferank._core.kernels import kernel, parallel_kernel
from saferank.plackett_luce import bands, lanes, nodes, race
from saferank.plackett_luce.nodes import Grid
from saferank.plackett_luce.race import SEEN, Space, Sweep, W

_BOTH = 2 * W  # A and B of one count of arrivals lie side by side


@kernel
def _back(work: Floats, source: int, target: int, size: int, chances: Any, chosen: Any) -> None:
    """Suffixes before a pair from those after it; source and target may be the same."""
    none, one, two = chances
    level, shifted = chosen
    come, passed = lanes.load(work, source), lanes.load(work, source + W)
    next_come, next_passed = lanes.load(work, source + _BOTH), lanes.load(work, source + _BOTH + W)
    for a in range(0, size - 2 * _BOTH, _BOTH):
        last_come = lanes.load(work, source + a + 2 * _BOTH)
        last_passed = lanes.load(work, source + a + 2 * _BOTH + W)
        mixed = lanes.multiply_add(two, last_come, none * come)
        paid = lanes.multiply_add(shifted, next_passed, level * passed)
        lanes.store(work, target + a, lanes.multiply_add(one, next_come, mixed) + paid)
        mixed = lanes.multiply_add(one, next_passed, none * passed)
        lanes.store(work, target + a + W, lanes.multiply_add(two, last_passed, mixed))
        come, passed, next_come, next_passed = next_come, next_passed, last_come, last_passed
    end = target + size - 2 * _BOTH
    paid = lanes.multiply_add(shifted, next_passed, level * passed)
    lanes.store(work, end, lanes.multiply_add(one, next_come, none * come) + paid)
    lanes.store(work, end + W, lanes.multiply_add(one, next_passed, none * passed))
    lanes.store(work, end + _BOTH, lanes.multiply_add(level, next_passed, none * next_come))
    lanes.store(work, end + _BOTH + W, none * next_passed)


@kernel
def _advance(work: Floats, pre: int, here: Any, below: Any, further: Any, factors: Any) -> None:
    """Prefixes after a pair at one count, from those before it at this count and two below."""
    none, one, two, level, shifted = factors
    a, b = here
    mixed = lanes.multiply_add(one, below[0], none * a)
    lanes.store(work, pre, lanes.multiply_add(two, further[0], mixed))
    mixed = lanes.multiply_add(one, below[1], none * b)
    paid = lanes.multiply_add(shifted, below[0], level * a)
    lanes.store(work, pre + W, lanes.multiply_add(two, further[1], mixed) + paid)


@kernel
def _forth(work: Floats, pre: int, v: int, size: int, chances: Any, chosen: Any) -> Any:
    """D_0, D_1, S_0 and S_1 of a pair; the prefixes move on over it."""
    zero = lanes.fill(0.0)
    factors = (*chances, *chosen)
    first, second, level, shifted = zero, zero, zero, zero
    below, further = (zero, zero), (zero, zero)
    passed, next_passed = lanes.load(work, v + W), lanes.load(work, v + _BOTH + W)
    come = lanes.load(work, v + _BOTH)
    rise, rise_passed = come - lanes.load(work, v), next_passed - passed
    for at in range(0, size, _BOTH):
        a, b = lanes.load(work, pre + at), lanes.load(work, pre + at + W)
        level = lanes.multiply_add(a, passed, level)
        shifted = lanes.multiply_add(a, next_passed, shifted)
        first = lanes.multiply_add(b, rise_passed, lanes.multiply_add(a, rise, first))
        last_come, last_passed = zero, zero
        if at < size - 2 * _BOTH:
            last_come = lanes.load(work, v + at + 2 * _BOTH)
            last_passed = lanes.load(work, v + at + 2 * _BOTH + W)
        rise, rise_passed = last_come - come, last_passed - next_passed
        second = lanes.multiply_add(b, rise_passed, lanes.multiply_add(a, rise, second))
        _advance(work, pre + at, (a, b), below, further, factors)
        further, below = below, (a, b)
        come, passed, next_passed = last_come, next_passed, last_passed
    return first, second, level, shifted


@kernel
def _choosing(one: Any, gf: Any, other: Any, other_gf: Any) -> Any:
    """h_0 and h_1 of a pair, from (stay, move) and g f of each."""
    level = lanes.multiply_add(other_gf, one[0], gf * other[0])
    return level, lanes.multiply_add(other_gf, one[1], gf * other[1])


@kernel
def _weighted(space: Space, d: int, x: Any, q: Any) -> Any:
    """g f of document d."""
    return lanes.fill(space.work[space.slope + d]) * x * q


@kernel
def _find_ends(space: Space, time: Any, sweep: Sweep) -> None:
    """Fill `ends`, whose last entry is given, with the suffixes at the end of every chunk."""
    work, size = space.work, sweep.size
    for number in range((sweep.pairs - 1) // sweep.chunk, 0, -1):
        at = space.ends + (number - 1) * size
        race.copy(work, at + size, work, at, size)
        stop = min(sweep.pairs, (number + 1) * sweep.chunk)
        for pair in range(stop - 1, number * sweep.chunk - 1, -1):
            x, q, p = race.arrive(space, 2 * pair, time)
            other_x, other_q, other_p = race.arrive(space, 2 * pair + 1, time)
            one = race.moves(q, p, sweep.missing)
            other = race.moves(other_q, other_p, sweep.missing)
            gf = _weighted(space, 2 * pair, x, q)
            other_gf = _weighted(space, 2 * pair + 1, other_x, other_q)
            chosen = _choosing(one, gf, other, other_gf)
            _back(work, at, at, size, race.product(one, other), chosen)


@kernel
def _share(g: float, x: Any, q: Any, other: Any, other_gf: Any, sums: Any, missing: bool) -> float:
    """One block's share of the derivative in the score of one of a pair."""
    first, second, level, shifted = sums
    stay, move = other
    change = lanes.multiply_add(move, second, stay * first)
    change = lanes.multiply_add(other_gf, shifted - level, change)
    if missing:  # an arrival is one less of those that are counted
        change = lanes.fill(0.0) - change
    others = lanes.multiply_add(move, shifted, stay * level)
    own = lanes.fill(g) * (lanes.fill(1.0) - x)
    return float(lanes.total(x * q * lanes.multiply_add(own, others, change)))


@kernel
def _keep_chunk(space: Space, time: Any, sweep: Sweep, start: int, stop: int) -> None:
    """The suffixes of a chunk, backwards from those at its end, which v holds."""
    work, size = space.work, sweep.size
    seen, v = space.seen - 2 * start * SEEN, space.v - start * size
    for pair in range(stop - 1, start - 1, -1):
        x, q, p = race.arrive(space, 2 * pair, time)
        race.keep(work, seen + 2 * pair * SEEN, x, q, p)
        other_x, other_q, other_p = race.arrive(space, 2 * pair + 1, time)
        race.keep(work, seen + (2 * pair + 1) * SEEN, other_x, other_q, other_p)
        one = race.moves(q, p, sweep.missing)
        other = race.moves(other_q, other_p, sweep.missing)
        gf = _weighted(space, 2 * pair, x, q)
        other_gf = _weighted(space, 2 * pair + 1, other_x, other_q)
        chosen, chances = _choosing(one, gf, other, other_gf), race.product(one, other)
        _back(work, v + (pair + 1) * size, v + pair * size, size, chances, chosen)


@kernel
def _add_chunk(space: Space, sweep: Sweep, start: int, stop: int) -> None:
    """Add one block's share to the gradient of a chunk whose suffixes are kept."""
    work, size, missing = space.work, sweep.size, sweep.missing
    seen, v = space.seen - 2 * start * SEEN, space.v - start * size
    for pair in range(start, stop):
        d = 2 * pair
        x, q, p = race.recall(work, seen + d * SEEN)
        other_x, other_q, other_p = race.recall(work, seen + (d + 1) * SEEN)
        one, other = race.moves(q, p, missing), race.moves(other_q, other_p, missing)
        gf = _weighted(space, d, x, q)
        other_gf = _weighted(space, d + 1, other_x, other_q)
        chosen, chances = _choosing(one, gf, other, other_gf), race.product(one, other)
        sums = _forth(work, space.pre, v + (pair + 1) * size, size, chances, chosen)
        g, other_g = work[space.slope + d], work[space.slope + d + 1]
        work[space.sums + d] += _share(g, x, q, other, other_gf, sums, missing)
        work[space.sums + d + 1] += _share(other_g, other_x, other_q, one, gf, sums, missing)


@kernel
def _centre(slopes: Floats, space: Space) -> None:
    """Slopes around 0: less is rounded, and equal slopes give a gradient of exactly 0.

    Exposures have a fixed sum, so a constant in the slopes changes nothing.
    """
    low, high = slopes[0], slopes[0]
    for slope in slopes:
        low, high = min(low, slope), max(high, slope)
    for place in range(race.space_length(slopes.size)):
        own = slopes[race.member(space, place)] if place < slopes.size else 0.0
        space.work[space.slope + place] = own - (low / 2 + high / 2)


@kernel
def _of_query(scores: Floats, weights: Floats, slopes: Floats, grid: Grid, space: Space) -> None:
    """Fill the sums of a space with the gradient of a query."""
    documents, work = scores.size, space.work
    most = min(weights.size, documents)
    plan = race.begin(scores, most, grid, space)
    _centre(slopes, space)
    for block in range(plan.blocks):
        counts, missing, present, time, weight = race.look(space, plan, block, documents, most)
        if counts == 0:
            continue
        sweep = race.make_sweep(present, counts * _BOTH, missing)
        pairs, chunk, size = sweep.pairs, sweep.chunk, sweep.size
        last = (pairs - 1) // chunk
        for a in range(counts):
            w = bands.weight_of(weights, documents, a, missing)
            end, start = space.ends + last * size + a * _BOTH, space.pre + a * _BOTH
            lanes.store(work, end, lanes.fill(0.0))
            lanes.store(work, end + W, weight * lanes.fill(w))
            lanes.store(work, start, lanes.fill(1.0 if a == 0 else 0.0))
            lanes.store(work, start + W, lanes.fill(0.0))
        _find_ends(space, time, sweep)
        for number in range(last + 1):
            start, stop = number * chunk, min(pairs, (number + 1) * chunk)
            end = space.v + (stop - start) * size
            race.copy(work, space.ends + number * size, work, end, size)
            _keep_chunk(space, time, sweep, start, stop)
            _add_chunk(space, sweep, start, stop)


@parallel_kernel
def _of_queries(
    start: int,
    stop: int,
    scores: Floats,
    weights: Floats,
    slopes: Floats,
    offsets: Ints,
    grids: Floats,
    gradient: Floats,
) -> None:
    longest = nodes.longest(offsets[start : stop + 1])
    space = race.make_space(longest, race.counts_of(weights.size, longest) * _BOTH)
    for query in range(start, stop):
        first, last = offsets[query], offsets[query + 1]
        if last > first:
            grid = nodes.grid_of(grids, last - first)
            _of_query(scores[first:last], weights, slopes[first:last], grid, space)
            race.copy_sums(space, gradient, first, last)


def gradients(scores: Floats, weights: Floats, slope: Floats, offsets: Ints, tol: float) -> Floats:
    """Gradient in the score of each document of all queries."""
    gradient = np.zeros(scores.size)
    grids = nodes.grids(tol, weights.size, 1, offsets)
    _of_queries(offsets.size - 1, scores, weights, slope, offsets, grids, gradient)
    return gradient
