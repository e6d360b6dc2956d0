r"""The race behind Plackett-Luce, at eight times side by side: what both kernels are made of.

Document d arrives at :math:`T_d \sim Exp(\lambda_d)`, :math:`\lambda = e^s`, and its rank is 1 plus
the number of others that came before it. At one time t, with :math:`x_d = \lambda_d t`,
:math:`q_d = e^{-x_d}` (not yet there) and :math:`p_d = 1 - q_d` (arrived):

- suffix, carries the weights backwards: v_j[a] = q_j v_{j+1}[a] + p_j v_{j+1}[a+1], v_D = w;
- prefix, counts the arrivals: pre_{j+1}[a] = q_j pre_j[a] + p_j pre_j[a-1], pre_0 = (1, 0, ...).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from saferank._core.flat import Floats
from saferank._core.kernels import kernel
from saferank.plackett_luce import lanes, nodes
from saferank.plackett_luce.nodes import Grid

W = lanes.WIDTH
SEEN = 3 * W
"""Doubles in which a document's x, q and p are kept between the two sweeps."""

_KEPT_LANES = 6144  # of 64 bytes, between the two sweeps: within the second-level cache
_ARRIVED = 60.0  # exp(-60) is as good as 0, and exact zeros are faster than the tiniest numbers


@kernel
def room(count: int) -> Floats:
    """Space for `count` doubles from a 64-byte border on."""
    raw = np.empty(count + W)
    start = -(raw.ctypes.data // 8) % W
    return raw[start : start + count]


@kernel
def chunk_length(documents: int, lanes_each: int) -> int:
    """Documents whose sweep is kept at a time."""
    return min(documents, max(16, _KEPT_LANES // lanes_each))


@kernel
def kept_room(documents: int, lanes_each: int) -> Floats:
    """Space for what a chunk keeps, and one more, with up to so many lanes per document."""
    most = max(_KEPT_LANES, 16 * lanes_each)
    return room((min(most, documents * lanes_each) + lanes_each) * W)


@kernel
def prepare(scores: Floats, ranks: int, grid: Grid) -> Any:
    """Padded scores from 0 down; log of the sum of their rates; blocks of nodes; step in y."""
    padded = room((scores.size + W - 1) // W * W)
    for index in range(padded.size):
        padded[index] = scores[index] if index < scores.size else -np.inf
    last = nodes.close_gaps(padded, nodes.fastest(scores, ranks))
    origin = math.log(nodes.sum_of_rates(padded, 0.0))
    rest = nodes.sum_of_rates(padded, last) - (ranks - 1)
    end = math.log(grid.rho / rest) - last + origin
    window = end + math.exp(nodes.BEND - end) - grid.left
    blocks = math.ceil(window / (grid.step * W))
    return padded, origin, blocks, window / (blocks * W)


@kernel
def block_of_nodes(first: float, step: float, origin: float) -> Any:
    """Eight nodes from y = `first` on: centre of log t, half its width, t / centre, weights."""
    ends = room(W)
    for lane in range(W):
        ends[lane] = first + lane * step
    y = lanes.load(ends, 0)
    curve, _ = lanes.decay(lanes.between(-700.0, y - lanes.fill(nodes.BEND), 700.0))
    tau = y - curve - lanes.fill(origin)
    lanes.store(ends, 0, tau)
    centre, half = (ends[0] + ends[W - 1]) / 2, (ends[W - 1] - ends[0]) / 2
    time, _ = lanes.decay(lanes.fill(centre) - tau)
    return centre, half, time, (curve + lanes.fill(1.0)) * lanes.fill(step)


@kernel
def rates_at(scores: Floats, centre: float, rates: Floats) -> None:
    """exp(score + centre), kept within what a double can hold."""
    for start in range(0, scores.size, W):
        behind = lanes.fill(-centre) - lanes.load(scores, start)
        rate, _ = lanes.decay(lanes.between(-690.0, behind, 690.0))
        lanes.store(rates, start, rate)


@kernel
def quiet(rates: Floats, documents: int, half: float, tolerance: float) -> bool:
    """Whether no document can arrive in a block: each is there already or comes much later."""
    late = 1e-6 * tolerance / documents * math.exp(-half)
    early = (20.0 + math.log(documents / tolerance)) * math.exp(half)
    active = 0
    for rate in rates[:documents]:
        active += late < rate < early
    return active == 0


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
