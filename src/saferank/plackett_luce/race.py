r"""The race behind Plackett-Luce, at eight times side by side: what the kernels are made of.

Document d arrives at :math:`T_d \sim Exp(\lambda_d)`, :math:`\lambda = e^s`, and its rank is 1 plus
the number of others that came before it. At one time t, with :math:`x_d = \lambda_d t`,
:math:`q_d = e^{-x_d}` (not yet there) and :math:`p_d = 1 - q_d` (arrived):

- suffix, carries the weights backwards: v_j[a] = q_j v_{j+1}[a] + p_j v_{j+1}[a+1], v_D = w;
- prefix, counts the arrivals: pre_{j+1}[a] = q_j pre_j[a] + p_j pre_j[a-1], pre_0 = (1, 0, ...).

Both pass over two documents at a time, by the product

.. math:: (q_1 + p_1 z)(q_2 + p_2 z) = e_0 + e_1 z + e_2 z^2 ,

so that half as many states are read and written. Where missing documents are counted (`bands`), q
and p change places: a document *stays* or *moves* the count.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from saferank._core.flat import Floats
from saferank._core.kernels import kernel
from saferank.plackett_luce import bands, lanes, nodes
from saferank.plackett_luce.nodes import Grid

W = lanes.WIDTH
SEEN = 3 * W
"""Doubles in which a document's x, q and p are kept between the two sweeps."""

_KEPT_LANES = 6144  # of 64 bytes, between the two sweeps: within the second-level cache
_FEWEST_PAIRS = 8
_FAR = 24.0
"""Scores this far apart are worth sorting."""
LEVELS = 64
"""Of scores, from the highest down; all that are lower are of the last one."""
_LEVEL = 4.0
_ARRIVED = 60.0  # exp(-60) is as good as 0, and exact zeros are faster than the tiniest numbers


class Space(NamedTuple):
    """One array that queries are computed in, one after another, and where in it what lies.

    One array, as each that a kernel is handed is counted in and out again.
    """

    work: Floats
    scores: int
    rates: int
    slope: int
    sums: int
    """Of each document, over all blocks of nodes: what is computed."""
    members: int
    """Which document stands at each place: they are sorted where scores are far apart."""
    levels: int
    """How many documents have scores of a level or higher, where they are sorted by levels."""
    beside: int
    """The rate at the place beside an odd document, which is another's where some are left out."""
    times: int
    pre: int
    seen: int
    ends: int
    v: int


class Plan(NamedTuple):
    """What the blocks of nodes of a query have in common."""

    origin: float
    """Log of the sum of the rates."""
    blocks: int
    step: float
    left: float
    tolerance: float
    late: float
    """A document whose rate times t is less has no share in exposures worth counting,"""
    early: float
    """and one for which it is more has arrived."""
    sorted: bool
    """Whether documents are sorted by levels of their scores, so that those without a share yet
    come last and can be left out."""


class Sweep(NamedTuple):
    """How the documents of a query are swept over in one block."""

    pairs: int
    chunk: int
    """Pairs whose states are kept at a time."""
    size: int
    """Doubles of a state."""
    missing: bool
    """Whether missing documents are counted."""


@kernel
def room(count: int) -> Floats:
    """Space for `count` doubles from a 64-byte border on."""
    raw = np.empty(count + W)
    start = -(raw.ctypes.data // 8) % W
    return raw[start : start + count]


@kernel
def padded_length(documents: int) -> int:
    """Documents and as many more as fill the last eight."""
    return (documents + W - 1) // W * W


@kernel
def space_length(documents: int) -> int:
    """The same with at least one more, which an odd document is paired with."""
    return padded_length(documents + 1)


@kernel
def pairs_of(documents: int) -> int:
    """Pairs of documents, where an odd one has none beside it."""
    return (documents + 1) // 2


@kernel
def chunk_length(pairs: int, state: int) -> int:
    """Pairs of documents whose sweep is kept at a time, with `state` doubles each."""
    return min(pairs, max(_FEWEST_PAIRS, _KEPT_LANES * W // (state + 2 * SEEN)))


@kernel
def counts_of(ranks: int, documents: int) -> int:
    """Counts of arrivals that a sweep has room for: at least two."""
    return max(2, min(ranks, documents))


@kernel
def make_sweep(documents: int, size: int, missing: bool) -> Sweep:
    """The sweep with states of so many doubles."""
    pairs = pairs_of(documents)
    return Sweep(pairs, chunk_length(pairs, size), size, missing)


@kernel
def make_space(documents: int, state: int) -> Space:
    """Space for queries of up to so many documents, with up to `state` doubles per sweep."""
    padded, pairs = space_length(documents), pairs_of(documents)
    kept = max(_KEPT_LANES * W, _FEWEST_PAIRS * (state + 2 * SEEN))
    chunks = (pairs - 1) // max(1, chunk_length(pairs, state)) + 1
    members = 4 * padded
    levels = members + padded
    beside = levels + LEVELS
    times = beside + W
    pre = times + W
    seen = pre + state
    ends = seen + min(kept, pairs * 2 * SEEN)
    v = ends + chunks * state
    work = room(v + min(kept, pairs * state) + state)
    return Space(
        work, 0, padded, 2 * padded, 3 * padded, members, levels, beside, times, pre, seen, ends, v
    )


@kernel
def prepare(scores: Floats, ranks: int, grid: Grid, padded: Floats) -> Plan:
    """Put the scores from 0 down into `padded`, and see how many nodes they need."""
    for index in range(padded.size):
        padded[index] = scores[index] if index < scores.size else -np.inf
    last = nodes.close_gaps(padded, nodes.fastest(scores, ranks))
    origin = math.log(nodes.sum_of_rates(padded, 0.0))
    rest = nodes.sum_of_rates(padded, last) - (ranks - 1)
    end = math.log(grid.rho / rest) - last + origin
    window = end + math.exp(nodes.BEND - end) - grid.left
    blocks = math.ceil(window / (grid.step * W))
    late = 1e-3 * grid.tolerance / scores.size
    early = 20.0 + math.log(scores.size / grid.tolerance)
    step = window / (blocks * W)
    far = padded[: scores.size].min() < -_FAR
    return Plan(origin, blocks, step, grid.left, grid.tolerance, late, early, far)


@kernel
def _level(score: float) -> int:
    """The level of a score, 0 for the highest."""
    return int(min(-score / _LEVEL, LEVELS - 1.0))


@kernel
def _sort(space: Space, documents: int) -> None:
    """Sort scores by their levels, those of one level as they are."""
    work, scores, sorted_scores = space.work, space.scores, space.rates
    ends = work[space.levels : space.levels + LEVELS]
    ends[:] = 0.0
    for d in range(documents):
        ends[_level(work[scores + d])] += 1.0
    start = 0.0
    for level in range(LEVELS):
        ends[level], start = start, start + ends[level]
    for d in range(documents):
        level = _level(work[scores + d])
        place = int(ends[level])
        work[sorted_scores + place] = work[scores + d]
        work[space.members + place] = d
        ends[level] += 1.0
    for place in range(documents):
        work[scores + place] = work[sorted_scores + place]


@kernel
def begin(scores: Floats, ranks: int, grid: Grid, space: Space) -> Plan:
    """Prepare a query in a space: its scores, in their order or sorted, and sums of 0."""
    work, documents, length = space.work, scores.size, space_length(scores.size)
    placed = work[space.scores : space.scores + length]
    plan = prepare(scores, ranks, grid, placed)
    for place in range(length):
        work[space.sums + place] = 0.0
        work[space.members + place] = place
    if plan.sorted:
        _sort(space, documents)
    return plan


@kernel
def member(space: Space, place: int) -> int:
    """The document at a place."""
    return int(space.work[space.members + place])


@kernel
def copy_sums(space: Space, target: Floats, first: int, last: int) -> None:
    """target[first:last] = what was computed of a query."""
    for place in range(last - first):
        target[first + member(space, place)] = space.work[space.sums + place]


@kernel
def block_of_nodes(plan: Plan, block: int, work: Floats, at: int) -> Any:
    """Eight nodes: centre of log t, half its width, t / centre, weights; by way of work[at:]."""
    first = plan.left + (block * W + 0.5) * plan.step
    for lane in range(W):
        work[at + lane] = first + lane * plan.step
    y = lanes.load(work, at)
    curve, _ = lanes.decay(lanes.between(-700.0, y - lanes.fill(nodes.BEND), 700.0))
    tau = y - curve - lanes.fill(plan.origin)
    lanes.store(work, at, tau)
    early, late = work[at], work[at + W - 1]
    centre, half = (early + late) / 2, (late - early) / 2
    time, _ = lanes.decay(lanes.fill(centre) - tau)
    return centre, half, time, (curve + lanes.fill(1.0)) * lanes.fill(plan.step)


@kernel
def rates_at(scores: Floats, at: int, centre: float, rates: Floats) -> None:
    """exp(score + centre) of the scores from `at` on, kept within what a double can hold."""
    for start in range(0, rates.size, W):
        behind = lanes.fill(-centre) - lanes.load(scores, at + start)
        rate, _ = lanes.decay(lanes.between(-690.0, behind, 690.0))
        lanes.store(rates, start, rate)


@kernel
def quiet(rates: Floats, documents: int, half: float, plan: Plan) -> bool:
    """Whether no document can arrive in a block: each is there already or comes much later."""
    widest = math.exp(half)
    late, early = plan.late / widest, plan.early * widest
    active = 0
    for rate in rates[:documents]:
        active += late < rate < early
    return active == 0


@kernel
def _present(space: Space, plan: Plan, documents: int, latest: float) -> int:
    """How many of the first documents can have a share by a log time; all that are not sorted."""
    if not plan.sorted:
        return documents
    level = math.ceil((latest - math.log(plan.late)) / _LEVEL)
    if level >= LEVELS:
        return documents
    return int(space.work[space.levels + max(level, 1) - 1])


@kernel
def look(space: Space, plan: Plan, block: int, documents: int, ranks: int) -> Any:
    """Rates at a block of times: how many counts matter, which are counted, of how many documents.

    And times and weights. Where no count matters the block adds nothing. The document that only
    fills up the last pair stays as it is, whatever is counted.
    """
    work = space.work
    centre, half, time, weight = block_of_nodes(plan, block, work, space.times)
    present = _present(space, plan, documents, centre + half)
    rates = work[space.rates : space.rates + space_length(documents)]
    rates_at(work, space.scores, centre, rates)
    counts, missing = 0, False
    if not quiet(rates, present, half, plan):
        counts, missing = bands.band(rates, documents, half, ranks, plan.tolerance)
    if missing:
        present = documents
    elif counts > 0:
        counts = max(2, min(counts, present + 1))
    work[space.beside] = rates[present]
    rates[present] = 1e300 if missing else 0.0
    return counts, missing, present, time, weight


@kernel
def arrival(rate: float, time: Any) -> Any:
    """x, q and p of one document at eight times."""
    x = lanes.between(0.0, lanes.fill(rate) * time, 700.0)
    q, p = lanes.decay(x)
    return x, lanes.if_less(x, lanes.fill(_ARRIVED), q, lanes.fill(0.0)), p


@kernel
def moves(q: Any, p: Any, missing: bool) -> Any:
    """The chances that a document leaves the count as it is, and that it adds to it."""
    if missing:
        return p, q
    return q, p


@kernel
def product(one: Any, other: Any) -> Any:
    """The chances that two documents add 0, 1 and 2, from those (stay, move) of each."""
    both = lanes.multiply_add(one[0], other[1], one[1] * other[0])
    return one[0] * other[0], both, one[1] * other[1]


@kernel
def keep(seen: Floats, at: int, x: Any, q: Any, p: Any) -> None:
    """Note x, q and p for the forward sweep."""
    lanes.store(seen, at, x)
    lanes.store(seen, at + W, q)
    lanes.store(seen, at + 2 * W, p)


@kernel
def recall(seen: Floats, at: int) -> Any:
    """What `keep` noted."""
    return lanes.load(seen, at), lanes.load(seen, at + W), lanes.load(seen, at + 2 * W)


@kernel
def copy(source: Floats, start: int, target: Floats, place: int, count: int) -> None:
    """target[place : place + count] = source[start : start + count]."""
    for step in range(0, count, W):
        lanes.store(target, place + step, lanes.load(source, start + step))


@kernel
def arrive(space: Space, d: int, time: Any) -> Any:
    """x, q and p of document d at the times of the block."""
    return arrival(space.work[space.rates + d], time)
