"""Rankings drawn from Plackett-Luce, and the log-probability of given ones."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank._core.kernels import kernel, parallel_kernel
from saferank._core.seeds import generator
from saferank.errors import require

_DRAWS_AT_A_TIME = 1 << 22


def sample(
    scores: npt.ArrayLike,
    k: int,
    size: int,
    seed: int,
    offsets: npt.ArrayLike | None = None,
) -> Ints:
    """`size` rankings of each query, drawn exactly: the first k of a race, queries x size x k.

    Entries are positions in `scores` (so `labels[rankings]` works), best first, and -1 beyond the
    documents of a query. Without `offsets` all documents are one query. Each query has a random
    stream of its own, and threads do not change what is drawn.

    Parameters
    ----------
    scores
        One value per document.
    k
        Number of ranks.
    size
        How many rankings of each query.
    seed
        Of every draw.
    offsets
        Where each query begins, and the end; by default all documents are one query.

    Returns
    -------
    ndarray
        Queries x size x k: positions in `scores`, best first, then -1.

    Examples
    --------
    >>> sample([0.0, 50.0, 100.0], k=2, size=3, seed=0)
    array([[[2, 1],
            [2, 1],
            [2, 1]]])
    """
    require(k >= 1, "k", "at least 1", k)
    require(size >= 0, "size", "at least 0", size)
    cuts = _cuts(scores, offsets)
    values = flat.check_values("scores", scores, cuts)
    rankings = np.full((cuts.size - 1, size, k), -1, dtype=np.int64)
    for query, drawn in enumerate(rankings):
        first, last = cuts[query], cuts[query + 1]
        sample_query(values[first:last], drawn, generator(seed, "plackett-luce", query))
        drawn[drawn >= 0] += first
    return rankings


def sample_query(scores: Floats, rankings: Ints, rng: np.random.Generator) -> None:
    """Fill `rankings` (size x k) with rankings of one query; -1 beyond its documents."""
    rows = max(1, _DRAWS_AT_A_TIME // max(1, scores.size))
    for start in range(0, rankings.shape[0], rows):
        part = rankings[start : start + rows]
        draws = rng.standard_exponential((part.shape[0], scores.size))
        _race(part.shape[0], scores, draws, part)


def log_probability(
    rankings: npt.ArrayLike, scores: npt.ArrayLike, offsets: npt.ArrayLike | None = None
) -> Floats:
    r"""Log-probability of each ranking's first k documents: queries x size.

    .. math:: \sum_{r \le k} s_{y_r} - \log \sum_{d \notin \{y_1 .. y_{r-1}\}} e^{s_d}

    `rankings` has the form that `sample` returns: positions in `scores`, then -1.

    Parameters
    ----------
    rankings
        Queries x size x k, as `sample` returns them: positions in `scores`, then -1.
    scores
        One value per document.
    offsets
        Where each query begins, and the end; by default all documents are one query.

    Returns
    -------
    ndarray
        Queries x size.

    Examples
    --------
    >>> log_probability([[[0, 1]]], np.log([3.0, 2.0, 1.0])).round(9) == np.log(1 / 3).round(9)
    array([[ True]])
    """
    cuts = _cuts(scores, offsets)
    values = flat.check_values("scores", scores, cuts)
    chosen = np.ascontiguousarray(rankings)
    require(chosen.ndim == 3, "rankings", "of shape (queries, size, k)", chosen.shape)
    require(chosen.dtype.kind in "iu", "rankings", "whole numbers", chosen.dtype.name)
    require(
        chosen.shape[0] == cuts.size - 1, "rankings", f"of {cuts.size - 1} queries", chosen.shape
    )
    within = np.where(chosen >= 0, chosen - cuts[:-1, None, None], -1).astype(np.int64)
    _check_rankings(within, chosen, flat.sizes(cuts))
    result = np.zeros(chosen.shape[:2])
    padded = np.append(values, 0.0)  # -1 picks the last
    for query, own in enumerate(within):
        left = log_remaining(own, values[cuts[query] : cuts[query + 1]])
        terms = padded[chosen[query]] - left
        result[query] = terms.sum(axis=1)
    return result


def _check_rankings(within: Ints, chosen: Ints, sizes: Ints) -> None:
    inside = (within < sizes[:, None, None]) & ((within >= 0) | (chosen == -1))
    rule = "positions of the query's documents, or -1"
    flat.require_each(inside, "rankings", rule, chosen)
    gone = within < 0
    tail = not bool(np.any(gone[..., :-1] & ~gone[..., 1:]))
    require(tail, "rankings", "documents first, then -1", "a document after -1")
    ordered = np.sort(within, axis=-1)
    twice = (ordered[..., 1:] == ordered[..., :-1]) & (ordered[..., 1:] >= 0)
    require(not bool(twice.any()), "rankings", "without repeats", "a document twice")


def _cuts(scores: npt.ArrayLike, offsets: npt.ArrayLike | None) -> Ints:
    documents = int(np.size(scores))
    return flat.check_offsets([0, documents] if offsets is None else offsets, documents)


@parallel_kernel
def _race(start: int, stop: int, scores: Floats, draws: Floats, rankings: Ints) -> None:
    for row in range(start, stop):
        first_arrivals(scores, draws[row], rankings[row])


@kernel
def first_arrivals(scores: Floats, draws: Floats, ranking: Ints) -> None:
    """The documents with the largest s - log(draw), best first: those that arrive first."""
    ranks = min(ranking.size, scores.size)
    best = np.empty(ranks)
    for place in range(ranks):
        best[place] = -np.inf
    for d in range(scores.size):
        key = scores[d] - math.log(draws[d])
        if key > best[ranks - 1]:
            place = ranks - 1
            while place > 0 and best[place - 1] < key:
                best[place] = best[place - 1]
                ranking[place] = ranking[place - 1]
                place -= 1
            best[place] = key
            ranking[place] = d


def log_remaining(rankings: Ints, scores: Floats) -> Floats:
    """Log of the sum of the rates left before each rank of each ranking of one query; size x k."""
    left = np.zeros(rankings.shape)
    if scores.size:
        _log_remaining(rankings, scores, np.exp(scores - scores.max()), left)
    return left


@kernel
def _log_remaining(rankings: Ints, scores: Floats, rates: Floats, left: Floats) -> None:
    start = rates.sum()
    highest = scores.max()
    for row in range(rankings.shape[0]):
        total, summed, origin = start, start, highest
        for rank in range(rankings.shape[1]):
            if rankings[row, rank] < 0:
                break
            if total < 1e-3 * summed:  # subtracting has cost digits: add up again what is left
                origin, total = _sum_of_left(scores, rankings[row, :rank])
                summed = total
            left[row, rank] = origin + math.log(total)
            total -= math.exp(scores[rankings[row, rank]] - origin)


@kernel
def _sum_of_left(scores: Floats, placed: Ints) -> tuple[float, float]:
    """Highest score without the placed documents; sum of the others' rates relative to it."""
    origin, total = -np.inf, 0.0
    for d in range(scores.size):
        if not _among(placed, d):
            origin = max(origin, scores[d])
    for d in range(scores.size):
        if not _among(placed, d):
            total += math.exp(scores[d] - origin)
    return origin, total


@kernel
def _among(documents: Ints, wanted: int) -> bool:
    found = False
    for document in documents:
        found |= document == wanted
    return found
