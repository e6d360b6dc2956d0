"""The gradient of sums of log probabilities of given rankings under Plackett-Luce."""

from __future__ import annotations

import numpy as np

from saferank._core.flat import Floats, Ints
from saferank._core.kernels import kernel, parallel_kernel


@kernel
def _log_add(first: float, second: float) -> float:
    """log(exp(first) + exp(second))."""
    high, low = max(first, second), min(first, second)
    return high if low == -np.inf else high + np.log1p(np.exp(low - high))


@parallel_kernel
def _of_queries(
    start: int,
    stop: int,
    scores: Floats,
    offsets: Ints,
    rankings: Ints,
    slope: Floats,
    result: Floats,
) -> None:
    _, drawn, ranks = rankings.shape
    race = np.empty(ranks)
    for query in range(start, stop):
        first, last = offsets[query], offsets[query + 1]
        if last == first:
            continue
        placed = np.zeros(last - first)
        for sample in range(drawn):
            weight = slope[query, sample]
            if weight == 0:
                continue
            length = 0
            while length < ranks and rankings[query, sample, length] >= 0:
                placed[rankings[query, sample, length] - first] = 1.0
                length += 1
            # log of the rates still in each race, summed from its end: nothing is ever subtracted
            rest = -np.inf
            for document in range(last - first):
                if placed[document] == 0:
                    rest = _log_add(rest, scores[first + document])
            for rank in range(length - 1, -1, -1):
                rest = _log_add(rest, scores[rankings[query, sample, rank]])
                race[rank] = rest
            # a document is in the race until it is placed, and loses its share of each
            races = -np.inf
            for rank in range(length):
                document = rankings[query, sample, rank]
                races = _log_add(races, -race[rank])
                result[document] += weight * (1 - np.exp(scores[document] + races))
            for document in range(last - first):
                if placed[document] == 0:
                    result[first + document] -= weight * np.exp(scores[first + document] + races)
                placed[document] = 0.0


def ratio_gradient(scores: Floats, offsets: Ints, rankings: Ints, slope: Floats) -> Floats:
    """Gradient in the scores of sum_y slope_y log pi(y); rankings are positions, then -1."""
    result = np.zeros(scores.size)
    _of_queries(rankings.shape[0], scores, offsets, rankings, slope, result)
    return result
