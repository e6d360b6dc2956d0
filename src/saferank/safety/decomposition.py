r"""Exposures as a mixture of rankings: at most as many as there are documents.

By Hardy, Littlewood and Polya, exposures that some distribution of rankings has follow from those
of one ranking by transfers from a document to one further down, each making one of the two right.
Start from the ranking that sorts the exposures. A transfer of :math:`\delta` from i to j swaps the
two in rankings where i stands higher, until their weights times the differences add up to
:math:`\delta`: all of them are swapped whole but the last, which is split into two. So each
transfer adds at most one ranking, and there are at most D - 1 of them. All steps add and subtract
weights of rankings once: nothing is amplified.
"""

from __future__ import annotations

import numpy as np

from saferank._core.flat import Floats, Ints
from saferank._core.kernels import kernel, parallel_kernel
from saferank.safety.best_policy import by_gain, largest_first

_NEGLIGIBLE = 1e-13
"""Exposure in all, relative to the largest weight, that is not worth a ranking."""


@kernel
def _place(ranking: Ints, document: int) -> int:
    """Where a document stands; the length of the ranking if nowhere."""
    for place in range(ranking.size):
        if ranking[place] == document:
            return place
    return int(ranking.size)


@kernel
def _weight_at(weights: Floats, place: int) -> float:
    return weights[place] if place < weights.size else 0.0


@kernel
def _swap(ranking: Ints, giver: int, upper: int, taker: int, lower: int) -> None:
    """The taker gets the giver's place, the giver the taker's, which may be past the end."""
    ranking[upper] = taker
    if lower < ranking.size:
        ranking[lower] = giver


@kernel
def _transfer(
    giver: int, taker: int, amount: float, weights: Floats, first: int,
    count: int, shares: Floats, rankings: Ints,
) -> int:  # fmt: skip
    """Move exposure from one document to another, rankings from `first` on; how many there are."""
    for number in range(first, count):
        upper = _place(rankings[number], giver)
        lower = _place(rankings[number], taker)
        gap = _weight_at(weights, upper) - _weight_at(weights, lower)
        if gap <= 0:
            continue
        if shares[number] * gap <= amount:
            amount -= shares[number] * gap
            _swap(rankings[number], giver, upper, taker, lower)
            continue
        rankings[count] = rankings[number]
        _swap(rankings[count], giver, upper, taker, lower)
        shares[count] = amount / gap
        shares[number] -= shares[count]
        return count + 1
    return count


@kernel
def _first_with(rankings: Ints, first: int, count: int, document: int) -> int:
    """The first ranking from `first` on that shows a document."""
    while first < count and _place(rankings[first], document) == rankings.shape[1]:
        first += 1
    return first


@kernel
def decompose(omega: Floats, order: Ints, weights: Floats, shares: Floats, rankings: Ints) -> int:
    """Fill shares and rankings of a mixture that has the given exposures; how many there are.

    `weights` are those of the ranks, largest first, no more than documents; `rankings` has as many
    rows as documents, and their ranks are the places of `weights`. `order` decides between equal
    exposures.
    """
    base = order[np.argsort(-omega[order], kind="mergesort")]
    rankings[0] = base[: weights.size]
    shares[0] = 1.0
    count, givers = 1, 0
    stack = np.empty(weights.size, dtype=np.int64)
    excess, starts = np.empty(weights.size), np.zeros(weights.size, dtype=np.int64)
    least = _NEGLIGIBLE * weights[0] / base.size
    for place in range(base.size):
        taker = base[place]
        wanted = omega[taker] - _weight_at(weights, place)
        if wanted < 0 and place < weights.size:  # none below can give, were it negative by rounding
            stack[givers], excess[givers], starts[givers] = taker, -wanted, 0
            givers += 1
        while wanted > least and givers > 0 and count < rankings.shape[0]:
            top = givers - 1
            starts[top] = _first_with(rankings, starts[top], count, stack[top])
            amount = min(wanted, excess[top])
            count = _transfer(
                stack[top], taker, amount, weights, starts[top], count, shares, rankings
            )
            if excess[top] <= wanted:
                givers -= 1
            excess[top] -= amount
            wanted -= amount
    return count


@kernel
def rankings_of_query(
    omega: Floats, gains: Floats, weights: Floats, shares: Floats, rankings: Ints
) -> int:
    """Fill shares and rankings (documents x ranks) of a query, rank by rank as they are shown."""
    ranks, own = largest_first(weights, omega.size)
    placed = np.empty((omega.size, own.size), dtype=np.int64)
    count = decompose(omega, by_gain(gains, omega), own, shares, placed)
    for number in range(count):
        for place in range(ranks.size):
            rankings[number, ranks[place]] = placed[number, place]
    return count


@parallel_kernel
def _tables(
    start: int, stop: int, omega: Floats, gains: Floats, offsets: Ints, weights: Floats,
    table: Floats,
) -> None:  # fmt: skip
    for query in range(start, stop):
        first, last = offsets[query], offsets[query + 1]
        documents, ranks = last - first, min(weights.size, last - first)
        shares, rankings = np.empty(documents), np.empty((documents, ranks), dtype=np.int64)
        if documents == 0:
            continue
        count = rankings_of_query(omega[first:last], gains[first:last], weights, shares, rankings)
        for number in range(count):
            for rank in range(ranks):
                table[first + rankings[number, rank], rank] += shares[number]


def decomposed_tables(omega: Floats, gains: Floats, offsets: Ints, weights: Floats) -> Floats:
    """P(document at rank) of a mixture of rankings with the given exposures, documents x ranks."""
    table = np.zeros((omega.size, weights.size))
    _tables(offsets.size - 1, omega, gains, offsets, weights, table)
    return table
