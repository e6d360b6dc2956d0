"""Rankings for sessions: every draw is a hash of session and query, the same on any machine."""

from __future__ import annotations

import hashlib
import math

import numpy as np

from saferank._core import flat
from saferank._core.chance.streams import after, stream, uniform
from saferank._core.flat import Floats, Ints
from saferank._core.kernels import kernel, parallel_kernel
from saferank.data import RankingData
from saferank.errors import require
from saferank.evaluation.scored_policies import Deployed
from saferank.plackett_luce.sampling import first_arrivals
from saferank.safety.best_policy import by_gain
from saferank.safety.decomposition import rankings_of_query
from saferank.safety.open_shop import draw_ranking

_PER_HASH = 8
SALT = "saferank"
"""Of guards and rankings, unless another is given."""


def uniforms(salt: str, session: str | int, query: object, count: int = 1) -> Floats:
    """Numbers in [0, 1) that depend on nothing but the three words, on any machine."""
    text = "\x1f".join([salt, str(session), str(query)])
    size = 8 * min(count, _PER_HASH)
    digest = hashlib.blake2b(text.encode(), digest_size=size).digest()
    for block in range(1, -(-count // _PER_HASH)):
        digest += hashlib.blake2b(f"{text}\x1f{block}".encode(), digest_size=64).digest()
    words = np.frombuffer(digest, dtype="<u8")[:count]
    return (words >> np.uint64(11)) / float(1 << 53)


def chances(data: RankingData, salt: str, session: str | int, count: int = 1) -> Floats:
    """Such numbers for each query: queries x count."""
    rows = [uniforms(salt, session, query, count) for query in data.ids()[0]]
    return np.stack(rows) if rows else np.zeros((0, count))


def draw(
    scores: Floats,
    data: RankingData,
    k: int,
    session: str | int,
    deployed: Deployed = "sampled",
    salt: str = SALT,
) -> Ints:
    """Positions of the first k documents of each query for one session; -1 past the end."""
    require(k >= 1, "k", "at least 1", k)
    if deployed == "sorted":
        return flat.top(scores, k, data.offsets)
    result = np.full((data.queries, k), -1, dtype=np.int64)
    for query, name in enumerate(data.ids()[0]):
        first, last = data.offsets[query], data.offsets[query + 1]
        if last > first:
            _race_of_session(
                scores[first:last], stream(0, "guard", salt, session, name), result[query]
            )
            result[query][result[query] >= 0] += first
    return result


@kernel
def _race_of_session(scores: Floats, state: np.uint64, ranking: Ints) -> None:
    """Fill the ranking that Plackett-Luce draws with the numbers of a stream."""
    draws = np.empty(scores.size)
    for d in range(scores.size):
        state = after(state)
        draws[d] = -math.log1p(-uniform(state))
    first_arrivals(scores, draws, ranking)


def draw_query(scores: Floats, way: Deployed, k: int, words: tuple[object, ...]) -> Ints:
    """The first k of one query sorted by score, or drawn as the words say; as `draw` has them."""
    ranking = np.full(min(k, scores.size), -1, dtype=np.int64)
    if way == "sorted":
        ranking[:] = np.argsort(-scores, kind="stable")[: ranking.size]
    else:
        _race_of_session(scores, stream(0, "guard", *words), ranking)
    return ranking


@kernel
def _complete(order: Ints, ranking: Ints, filled: int) -> None:
    """Ranks from `filled` on: documents that are not shown yet, in the given order; then -1."""
    shown = np.zeros(order.size, dtype=np.bool_)
    for rank in range(filled):
        shown[ranking[rank]] = True
    for d in order:
        if filled < ranking.size and not shown[d]:
            ranking[filled] = d
            filled += 1


@kernel
def draw_decomposed(
    omega: Floats, gains: Floats, weights: Floats, chance: float, ranking: Ints
) -> None:
    """Fill one ranking of those that have the given exposures together; -1 past the end."""
    ranks = min(weights.size, omega.size)
    shares, rankings = np.empty(omega.size), np.empty((omega.size, ranks), dtype=np.int64)
    count = rankings_of_query(omega, gains, weights, shares, rankings)
    number = 0
    while number < count - 1 and chance >= shares[number]:
        chance -= shares[number]
        number += 1
    shown = min(ranks, ranking.size)
    for rank in range(shown):
        ranking[rank] = rankings[number, rank]
    _complete(by_gain(gains, omega), ranking, shown)


@kernel
def draw_by_table(table: Floats, gains: Floats, chance: Floats, ranking: Ints) -> None:
    """Fill one ranking with the given P(document at rank); -1 past the end."""
    ranks = min(table.shape[1], table.shape[0])
    drawn = np.empty(ranks, dtype=np.int64)
    draw_ranking(table[:, :ranks], chance[0], chance[1:], drawn)
    shown = min(ranks, ranking.size)
    for rank in range(shown):
        ranking[rank] = drawn[rank]
    _complete(by_gain(gains, gains), ranking, shown)


@parallel_kernel
def _rank_decomposed(
    start: int, stop: int, omega: Floats, gains: Floats, offsets: Ints, weights: Floats,
    chance: Floats, rankings: Ints,
) -> None:  # fmt: skip
    for query in range(start, stop):
        first, last = offsets[query], offsets[query + 1]
        if last > first:
            draw_decomposed(
                omega[first:last], gains[first:last], weights, chance[query, 0], rankings[query]
            )


@parallel_kernel
def _rank_by_table(
    start: int, stop: int, table: Floats, gains: Floats, offsets: Ints, chance: Floats,
    rankings: Ints,
) -> None:  # fmt: skip
    for query in range(start, stop):
        first, last = offsets[query], offsets[query + 1]
        if last > first:
            draw_by_table(table[first:last], gains[first:last], chance[query], rankings[query])


def rank_decomposed(
    omega: Floats, gains: Floats, offsets: Ints, weights: Floats, chance: Floats, k: int
) -> Ints:
    """One ranking per query of those that have the given exposures together: queries x k.

    Beyond the ranks that have weights documents follow by gain. Entries are positions; -1 past the
    end. `chance` has a uniform number per query, queries x 1.
    """
    rankings = np.full((offsets.size - 1, k), -1, dtype=np.int64)
    _rank_decomposed(offsets.size - 1, omega, gains, offsets, weights, chance, rankings)
    return _positions(rankings, offsets)


def rank_by_table(table: Floats, gains: Floats, offsets: Ints, chance: Floats, k: int) -> Ints:
    """One ranking per query with the given P(document at rank): queries x k.

    As `rank_decomposed`; `chance` is queries x (1 + ranks).
    """
    rankings = np.full((offsets.size - 1, k), -1, dtype=np.int64)
    _rank_by_table(offsets.size - 1, table, gains, offsets, chance, rankings)
    return _positions(rankings, offsets)


def _positions(rankings: Ints, offsets: Ints) -> Ints:
    return np.where(rankings >= 0, rankings + offsets[:-1, None], -1)
