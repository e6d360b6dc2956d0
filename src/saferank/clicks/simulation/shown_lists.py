"""How often each document of a query comes at each rank in n rankings of the Plackett-Luce policy.

Exact, without ever holding a ranking per session. Sessions that begin alike are kept together as a
number: the number is split over the next document by binomials, as long as that is cheaper than to
draw the rest of each session on its own.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from saferank._core.chance.binomial import binomial
from saferank._core.flat import Floats, Ints
from saferank._core.kernels import kernel
from saferank.clicks.simulation.tails import Tails, draw, draw_many, fill, new_tails

SPLIT_COST = 20.0
"""What one binomial costs, in draws of one document."""

_IN_PREFIX = np.int64(2**62)
_AT_A_TIME = 1024

Room = tuple[Floats, npt.NDArray[np.int32]]


@kernel
def ranking_counts(
    scores: Floats, sessions: int, ranks: int, split_cost: float, state: np.uint64
) -> tuple[Ints, np.uint64]:
    """Impressions (documents x ranks) of `sessions` rankings of documents with sorted scores.

    The walk goes down the tree of prefixes: at each depth, `waiting` holds the sessions that share
    the prefix and continue with each document.
    """
    size = scores.size
    shown = np.zeros((size, ranks), dtype=np.int64)
    depths = min(ranks, size)
    if sessions == 0 or depths == 0:
        return shown, state
    tails = new_tails(scores, depths)
    filled, beyond = tails.filled, tails.beyond
    seen = np.full(size, -1, dtype=np.int64)
    waiting = np.zeros((depths, size), dtype=np.int64)
    at, end, prefix = np.zeros((3, depths), dtype=np.int64)
    at_a_time = max(_AT_A_TIME, depths)
    room = (np.empty(at_a_time), np.empty(at_a_time, dtype=np.int32))
    session, depth = 0, 0
    end[0], state = _split(tails, 0, sessions, seen, waiting[0], state)
    while depth >= 0:
        document = at[depth]
        if document == end[depth]:
            depth -= 1
            if depth >= 0:
                seen[prefix[depth]] = -1
            continue
        at[depth] += 1
        number = waiting[depth, document]
        if number == 0:
            continue
        waiting[depth, document] = 0
        shown[document, depth] += number
        if depth + 1 == depths:
            continue
        seen[document] = _IN_PREFIX
        first = _first_unseen(seen, 0)
        if not filled[first]:
            fill(tails, first)
        if number > split_cost * _reach(beyond, first, number):
            prefix[depth] = document
            depth += 1
            at[depth] = first
            end[depth], state = _split(tails, first, number, seen, waiting[depth], state)
            continue
        state = _one_by_one(tails, first, depth + 1, number, session, seen, shown, room, state)
        session += number
        seen[document] = -1
    return shown, state


@kernel
def _one_by_one(
    tails: Tails,
    first: int,
    depth: int,
    number: int,
    session: int,
    seen: Ints,
    shown: Ints,
    room: Room,
    state: np.uint64,
) -> np.uint64:
    """Draw the rest of sessions that share a prefix, each on its own, from rank `depth` on.

    `first` is the first document that the prefix leaves unseen. Documents are drawn from its tail
    many at a time, before it is known what each session has seen: then no draw waits for the one
    before it. One that its session has seen already is replaced by a draw from what it has not.
    """
    foreign, other, filled = tails.foreign, tails.other, tails.filled
    numbers, drawn = room
    depths = min(shown.shape[1], seen.size)
    wanted = depths - depth
    at_a_time = max(1, drawn.size // wanted)
    for begin in range(session, session + number, at_a_time):
        end = min(begin + at_a_time, session + number)
        now = drawn[: (end - begin) * wanted]
        state = draw_many(foreign, other, first, numbers, now, state)
        for this in range(begin, end):
            for rank in range(depth, depths):
                document = int(drawn[(this - begin) * wanted + rank - depth])
                if seen[document] >= this:
                    tail = first
                    while seen[tail] >= this:
                        tail += 1
                    if not filled[tail]:
                        fill(tails, tail)
                    document, state = draw(foreign, other, tail, seen, this, state)
                seen[document] = this
                shown[document, rank] += 1
    return state


@kernel
def _first_unseen(seen: Ints, first: int) -> int:
    while seen[first] == _IN_PREFIX:
        first += 1
    return first


@kernel
def _reach(beyond: Floats, first: int, sessions: int) -> int:
    """How many documents a split of so many sessions gets to: beyond, less than one is expected."""
    least = beyond[first, first] / sessions
    low, high = first, beyond.shape[1]
    while low < high:
        middle = (low + high) // 2
        if beyond[first, middle] > least:
            low = middle + 1
        else:
            high = middle
    return low - first


@kernel
def _split(
    tails: Tails, first: int, sessions: int, seen: Ints, into: Ints, state: np.uint64
) -> tuple[int, np.uint64]:
    """Share out sessions over the unseen documents of a tail: a multinomial, by binomials.

    Of those that are left, document d takes the share weight(d) / (weight of the unseen from d on).
    Also returned is where those end that got some.
    """
    fill(tails, first)
    weight, beyond = tails.weight[first], tails.beyond[first]
    hidden, hiding = 0.0, 0
    for document in range(first, weight.size):
        if seen[document] == _IN_PREFIX:
            hidden += weight[document]
            hiding += 1
    left, taken = sessions, first
    for document in range(first, weight.size):
        if seen[document] == _IN_PREFIX:
            hiding -= 1
            hidden = hidden - weight[document] if hiding > 0 else 0.0
            continue
        taken = document
        rest = beyond[document] - hidden
        share = weight[document] / rest if rest > 0.0 else 1.0
        number, state = binomial(left, share, state)
        into[document] = number
        left -= number
        if left == 0:
            break
    into[taken] += left
    return taken + 1, state
