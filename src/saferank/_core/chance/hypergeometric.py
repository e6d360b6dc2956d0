"""Hypergeometric numbers inside kernels, exact for counts of any size.

Tossing a coin for every ball gives a set of any size; given its size, every set of that size is
equally likely. So two binomials choose about as many balls as are wanted, and the few too many
(too few) are again a draw without replacement, from what was chosen (was not): after a handful of
rounds, each about the square root of the one before, what is left is drawn ball by ball.
"""

from __future__ import annotations

import numpy as np

from saferank._core.chance.binomial import binomial
from saferank._core.chance.streams import after, uniform
from saferank._core.kernels import kernel

_BALL_BY_BALL = 12


@kernel
def hypergeometric(good: int, bad: int, drawn: int, state: np.uint64) -> tuple[int, np.uint64]:
    """How many of `drawn` balls are good, without replacement; and the state after it."""
    so_far, sign = 0, 1
    while True:
        total = good + bad
        if good <= 0 or drawn <= 0:
            return so_far, state
        if bad <= 0 or drawn >= total:
            return so_far + sign * min(good, drawn), state
        if drawn > total - drawn:  # the balls that stay are fewer
            so_far, sign, drawn = so_far + sign * good, -sign, total - drawn
        if good < drawn:  # which are good and which are drawn is the same question
            good, bad, drawn = drawn, total - drawn, good
        if drawn <= _BALL_BY_BALL:
            few, state = _ball_by_ball(good, bad, drawn, state)
            return so_far + sign * few, state
        share = drawn / total
        good_chosen, state = binomial(good, share, state)
        bad_chosen, state = binomial(bad, share, state)
        good_chosen, bad_chosen = min(good_chosen, good), min(bad_chosen, bad)
        so_far += sign * good_chosen
        excess = good_chosen + bad_chosen - drawn
        if excess > 0:
            good, bad, drawn, sign = good_chosen, bad_chosen, excess, -sign
        else:
            good, bad, drawn = good - good_chosen, bad - bad_chosen, -excess


@kernel
def _ball_by_ball(good: int, bad: int, drawn: int, state: np.uint64) -> tuple[int, np.uint64]:
    hits = 0
    for number in range(drawn):
        state = after(state)
        if uniform(state) * (good + bad - number) < good - hits:
            hits += 1
    return hits, state
