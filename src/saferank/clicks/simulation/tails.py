"""Drawing one document from those that a session has not yet seen, at a bounded cost.

The documents of a query are sorted by score. A session that has seen some of them draws the next
from the *tail*: everything from the first unseen document on. Each tail has an alias table, and a
draw that hits a document already seen is made again. Seen documents inside the tail are each no
more likely than its first, unseen one; so after r documents a draw succeeds with probability at
least 1/(r+1), however peaked the policy. Weights are relative to the first of the tail, so that no
spread of scores can underflow what matters.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from saferank._core.chance.streams import after, uniform
from saferank._core.flat import Floats, Ints
from saferank._core.kernels import kernel


class Tails(NamedTuple):
    """Tables of one query, one row per tail; a row is filled when it is first needed."""

    scores: Floats
    """Scores of the query's documents, descending."""
    weight: Floats
    """exp(score - score of the tail's first)."""
    beyond: Floats
    """Sum of the weights from each document on."""
    foreign: Floats
    """Alias table: the share of each document's bucket that is not its own, ..."""
    other: npt.NDArray[np.int32]
    """... and the document that owns it."""
    filled: npt.NDArray[np.bool_]


@kernel
def new_tails(scores: Floats, tails: int) -> Tails:
    """Empty tables for the sorted scores of one query."""
    shape = (tails, scores.size)
    return Tails(
        scores,
        np.empty(shape),
        np.empty(shape),
        np.empty(shape),
        np.empty(shape, dtype=np.int32),
        np.zeros(tails, dtype=np.bool_),
    )


@kernel
def fill(tails: Tails, first: int) -> None:
    """Fill the tables of the tail that begins at document `first`, unless they are filled."""
    if tails.filled[first]:
        return
    tails.filled[first] = True
    weight, beyond = tails.weight[first], tails.beyond[first]
    total = 0.0
    for document in range(weight.size - 1, first - 1, -1):
        weight[document] = np.exp(tails.scores[document] - tails.scores[first])
        total += weight[document]
        beyond[document] = total
    _fill_alias(weight, total, first, tails.foreign[first], tails.other[first])


@kernel
def _fill_alias(
    weight: Floats, total: float, first: int, foreign: Floats, other: npt.NDArray[np.int32]
) -> None:
    """Sweep once: what is too large (at the front) fills the buckets of the small, then its own."""
    size = weight.size
    scale = (size - first) / total
    small = first
    while small < size and weight[small] * scale >= 1.0:
        small += 1
    large, left, firsts = first, weight[first] * scale, small
    while large < firsts:
        if left >= 1.0 and small < size:
            foreign[small], other[small] = 1.0 - weight[small] * scale, large
            left -= foreign[small]
            small += 1
        elif large + 1 < firsts:
            foreign[large], other[large] = 1.0 - left, large + 1
            left += weight[large + 1] * scale - 1.0
            large += 1
        else:
            foreign[large], other[large] = 0.0, large
            large += 1
    for document in range(small, size):
        foreign[document], other[document] = 0.0, document


# What draws is given arrays, not `Tails`: each call with a tuple would count six references.


@kernel
def draw(
    foreign: Floats,
    other: npt.NDArray[np.int32],
    first: int,
    seen: Ints,
    session: int,
    state: np.uint64,
) -> tuple[int, np.uint64]:
    """A document of a filled tail that this session has not seen (`seen` is below `session`)."""
    while True:
        state = after(state)
        document = _hit(foreign, other, first, uniform(state))
        if seen[document] < session:
            return document, state


@kernel
def draw_many(
    foreign: Floats,
    other: npt.NDArray[np.int32],
    first: int,
    numbers: Floats,
    into: npt.NDArray[np.int32],
    state: np.uint64,
) -> np.uint64:
    """Fill an array with documents of a filled tail, seen or not; `numbers` is room to work in.

    Random numbers come first, in a loop of their own, which is compiled to vector instructions.
    """
    for index in range(into.size):
        state = after(state)
        numbers[index] = uniform(state)
    for index in range(into.size):
        into[index] = _hit(foreign, other, first, numbers[index])
    return state


@kernel
def _hit(foreign: Floats, other: npt.NDArray[np.int32], first: int, u: float) -> int:
    """The document that a number in [0, 1) means in the alias table of a tail."""
    at = u * (foreign.shape[1] - first)
    bucket = int(at)
    document = first + bucket
    # Below 1 in the bucket's own part; arithmetic, for a branch would be mispredicted.
    step = int(other[first, document]) - document
    return document + step * int(at - bucket + foreign[first, document])
