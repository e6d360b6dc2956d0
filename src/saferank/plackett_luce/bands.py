r"""How many arrivals have to be counted at a time: early few have come, late few are missing.

At a time t the number of arrivals N is a sum of independent ones, so that for R above its mean m
(Chernoff)

.. math:: P(N \ge R) \le e^{-(R \log(R/m) - R + m)}, \qquad
          P(N \le R) \text{ by the same for } R < m.

Counts that are less likely than the tolerance are left out. Where fewer documents are missing than
have arrived, those are counted instead: q and p, and the order of the weights, change places. So K
near the number of documents costs no more than K in the middle, and numbers too small for a
processor to be quick with never come up.
"""

from __future__ import annotations

import math
from typing import Any

from saferank._core.flat import Floats
from saferank._core.kernels import kernel
from saferank.plackett_luce import lanes

FEW = 6
"""Ranks below which a narrower band would not pay for finding it."""

_MARGIN = 1e-3
"""Of the tolerance: what all that is left out may come to."""


@kernel
def _expected(rates: Floats, factor: float) -> Any:
    """Sums of p and of q over all documents, at `factor` times the time of the rates."""
    there, missing = lanes.fill(0.0), lanes.fill(0.0)
    for start in range(0, rates.size, lanes.WIDTH):
        x = lanes.load(rates, start) * lanes.fill(factor)
        q, p = lanes.decay(lanes.between(0.0, x, 700.0))
        there, missing = there + p, missing + q
    return lanes.total(there), lanes.total(missing)


@kernel
def _unlikely(count: float, mean: float) -> float:
    """The exponent of Chernoff's bound for `count` where `mean` is expected."""
    return count * math.log(count / mean) - count + mean


@kernel
def _counts_up_to(mean: float, most: int, tail: float) -> int:
    """The smallest R <= `most` with P(N >= R) <= exp(-tail)."""
    mean = max(mean, 1e-300)
    low, high = int(mean) + 1, most
    while low < high:  # above the mean the exponent grows with the count
        middle = (low + high) // 2
        if _unlikely(middle, mean) < tail:
            low = middle + 1
        else:
            high = middle
    return min(low, most)


@kernel
def band(rates: Floats, documents: int, half: float, ranks: int, tolerance: float) -> Any:
    """How many counts matter in a block of times, and whether missing documents are counted.

    `rates` are those at the centre of the block, which reaches from exp(-half) to exp(half) times
    that. No counts: all `ranks` are taken before the block begins.
    """
    if ranks <= FEW:
        return ranks, False
    tail = -math.log(_MARGIN * tolerance)
    early, missing = _expected(rates, math.exp(-half))
    if early > ranks and _unlikely(ranks, early) > tail:
        return 0, False
    late, _ = _expected(rates, math.exp(half))
    forward = _counts_up_to(late, ranks, tail)
    backward = _counts_up_to(missing - (rates.size - documents), documents, tail)
    return (backward, True) if backward < forward else (forward, False)


@kernel
def weight_of(weights: Floats, documents: int, count: int, missing: bool) -> float:
    """Weight of the rank of a document before which `count` others arrived (or: are missing)."""
    rank = documents - 1 - count if missing else count
    return weights[rank] if 0 <= rank < weights.size else 0.0
