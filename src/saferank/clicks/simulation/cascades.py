"""Sessions of users whose clicks depend on each other: drawn one by one, only counts are kept."""

from __future__ import annotations

import numpy as np

from saferank._core.chance.streams import after, uniform
from saferank._core.flat import Floats, Ints
from saferank._core.kernels import kernel
from saferank.clicks.simulation.tails import Tails, draw, fill, new_tails


@kernel
def cascade_counts(
    scores: Floats,
    click: Floats,
    going_on: Floats,
    sessions: int,
    deterministic: bool,
    state: np.uint64,
) -> tuple[Ints, Ints]:
    """Impressions and clicks of documents (sorted by score) at ranks.

    `going_on` has the probabilities to look further after a click (row 0) and after none (row 1).
    """
    size, ranks = click.shape
    shown, clicked = np.zeros((2, size, ranks), dtype=np.int64)
    depths = min(ranks, size)
    if depths == 0:
        return shown, clicked
    tails = new_tails(scores, depths)
    seen = np.full(size, -1, dtype=np.int64)
    ranking = np.arange(depths)
    for session in range(sessions):
        if not deterministic:
            state = draw_ranking(tails, seen, session, ranking, state)
        for rank in range(depths):
            shown[ranking[rank], rank] += 1
        state = _clicks_of_session(ranking, click, going_on, clicked, state)
    return shown, clicked


@kernel
def draw_ranking(
    tails: Tails, seen: Ints, session: int, ranking: Ints, state: np.uint64
) -> np.uint64:
    """Write one ranking of the policy into `ranking`."""
    foreign, other, filled = tails.foreign, tails.other, tails.filled
    first = 0
    for rank in range(ranking.size):
        if not filled[first]:
            fill(tails, first)
        document, state = draw(foreign, other, first, seen, session, state)
        seen[document] = session
        ranking[rank] = document
        while first + 1 < seen.size and seen[first] >= session:
            first += 1
    return state


@kernel
def _clicks_of_session(
    ranking: Ints, click: Floats, going_on: Floats, clicked: Ints, state: np.uint64
) -> np.uint64:
    """Look from the first rank down, click or not, and go on or leave."""
    for rank in range(ranking.size):
        document = ranking[rank]
        state = after(state)
        skipped = np.int64(uniform(state) >= click[document, rank])
        clicked[document, rank] += 1 - skipped
        state = after(state)
        if uniform(state) >= going_on[skipped, rank]:
            break
    return state
