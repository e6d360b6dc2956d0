"""The gradient of sums of log probabilities of given rankings under Plackett-Luce."""

from __future__ import annotations

import numpy as np

from saferank.flat import Floats, Ints
from saferank.kernels import parallel_kernel


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
    for query in range(start, stop):
        first, last = offsets[query], offsets[query + 1]
        if last == first:
            continue
        rates = np.exp(scores[first:last] - scores[first:last].max())
        placed = np.zeros(last - first)
        for sample in range(drawn):
            weight = slope[query, sample]
            if weight == 0:
                continue
            # a document is in the race until it is placed, and loses its share of each
            rest, races = rates.sum(), 0.0
            for rank in range(ranks):
                document = rankings[query, sample, rank] - first
                if document < 0:
                    break
                races += 1 / max(rest, 1e-300)
                result[first + document] += weight * (1 - rates[document] * races)
                placed[document] = 1.0
                rest -= rates[document]
            for document in range(last - first):
                if placed[document] == 0:
                    result[first + document] -= weight * rates[document] * races
            for rank in range(ranks):
                if rankings[query, sample, rank] >= 0:
                    placed[rankings[query, sample, rank] - first] = 0.0


def ratio_gradient(scores: Floats, offsets: Ints, rankings: Ints, slope: Floats) -> Floats:
    """Gradient in the scores of sum_y slope_y log pi(y); rankings are positions, then -1."""
    result = np.zeros(scores.size)
    _of_queries(rankings.shape[0], scores, offsets, rankings, slope, result)
    return result
