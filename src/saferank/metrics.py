"""DCG and NDCG of rankings by score, with the conventions that differ between papers by name.

Defaults are the paper's: linear gains, queries without a relevant document left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank._core.kernels import parallel_kernel
from saferank.errors import require

__all__ = ["dcg", "dcg_weights", "mean", "ndcg"]

Gain = Literal["linear", "exponential"]
Empty = Literal["skip", "zero", "one"]

GAINS: dict[str, Callable[[Floats], Floats]] = {
    "linear": lambda labels: labels,
    "exponential": lambda labels: np.exp2(labels) - 1,
}
EMPTY: dict[str, float] = {"skip": np.nan, "zero": 0.0, "one": 1.0}


def dcg_weights(k: int) -> Floats:
    """Weight of each of the first k ranks: 1 / log2(rank + 1).

    Parameters
    ----------
    k
        Number of ranks.

    Returns
    -------
    ndarray
        Shape (k,).

    Examples
    --------
    >>> dcg_weights(3)
    array([1.        , 0.63092975, 0.5       ])
    """
    require(k >= 1, "k", "at least 1", k)
    return 1 / np.log2(np.arange(2, k + 2))


def label_gains(labels: npt.ArrayLike, gain: Gain = "linear") -> Floats:
    """What a document of a grade adds at weight 1: the grade, or 2^grade - 1."""
    require(gain in GAINS, "gain", f"one of {sorted(GAINS)}", gain)
    return GAINS[gain](np.asarray(labels, dtype=np.float64))


def dcg(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    offsets: npt.ArrayLike,
    k: int,
    *,
    gain: Gain = "linear",
) -> Floats:
    """DCG@k of each query when its documents are sorted by score (ties in their order).

    .. math:: \\sum_{r \\le k} g(\\text{label}_{(r)}) / \\log_2(r + 1)

    Parameters
    ----------
    scores, labels
        One value per document.
    offsets
        Where each query begins, and the end: queries + 1 entries.
    k
        Number of ranks.
    gain
        "linear" (the grade) or "exponential" (2^grade - 1).

    Returns
    -------
    ndarray
        One value per query.

    Examples
    --------
    >>> dcg([3.0, 2.0, 1.0], [1, 0, 2], [0, 3], k=3)
    array([2.])
    """
    cuts = flat.check_offsets(offsets, np.size(scores))
    gains = flat.check_values("labels", label_gains(labels, gain), cuts)
    total = np.zeros(cuts.size - 1)
    values = flat.check_values("scores", scores, cuts)
    _weighted_top(cuts.size - 1, values, gains, dcg_weights(k), cuts, total)
    return total


def ndcg(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    offsets: npt.ArrayLike,
    k: int,
    *,
    gain: Gain = "linear",
    empty: Empty = "skip",
) -> Floats:
    """NDCG@k of each query; a query without a relevant document is NaN, 0 or 1 by `empty`.

    Parameters
    ----------
    scores, labels
        One value per document.
    offsets
        Where each query begins, and the end: queries + 1 entries.
    k
        Number of ranks.
    gain
        "linear" (the grade) or "exponential" (2^grade - 1).
    empty
        A query without a relevant document is NaN ("skip"), 0 ("zero") or 1 ("one").

    Returns
    -------
    ndarray
        One value per query.

    Examples
    --------
    >>> ndcg([1.0, 2.0, 1.0, 1.0], [1, 0, 0, 0], [0, 2, 4], k=5)
    array([0.63092975,        nan])
    """
    return normalised(dcg(scores, labels, offsets, k, gain=gain), labels, offsets, k, gain, empty)


def normalised(
    value: Floats,
    labels: npt.ArrayLike,
    offsets: npt.ArrayLike,
    k: int,
    gain: Gain = "linear",
    empty: Empty = "skip",
) -> Floats:
    """A DCG of each query divided by the best that its labels allow."""
    require(empty in EMPTY, "empty", f"one of {sorted(EMPTY)}", empty)
    best = dcg(labels, labels, offsets, k, gain=gain)
    result = np.full(best.size, EMPTY[empty])
    np.divide(value, best, out=result, where=best > 0)
    return result


def mean(values: Floats) -> float:
    """Mean over the queries that count (those that are not NaN); NaN if none does.

    Parameters
    ----------
    values
        One per query.

    Returns
    -------
    float
        NaN if no query counts.

    Examples
    --------
    >>> mean(np.array([1.0, np.nan, 0.0]))
    0.5
    """
    counted = values[~np.isnan(values)]
    return float(counted.mean()) if counted.size else float("nan")


@parallel_kernel
def _weighted_top(
    start: int,
    stop: int,
    scores: Floats,
    gains: Floats,
    weights: Floats,
    offsets: Ints,
    total: Floats,
) -> None:
    for query in range(start, stop):
        first, last = offsets[query], offsets[query + 1]
        order = np.argsort(-scores[first:last], kind="mergesort")
        for rank in range(min(weights.size, last - first)):
            total[query] += weights[rank] * gains[first + order[rank]]
