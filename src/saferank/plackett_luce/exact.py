"""Exact exposure under Plackett-Luce and what follows from it: no ranking is ever sampled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from saferank import metrics
from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank._core.kernels import parallel_kernel
from saferank.errors import require
from saferank.metrics import Empty, Gain
from saferank.plackett_luce.exposures import exposures
from saferank.plackett_luce.gradients import gradients
from saferank.plackett_luce.rank_tables import rank_tables

TOLERANCE = 1e-10
GRADIENT_TOLERANCE = 1e-9


def exposure(
    scores: npt.ArrayLike,
    weights: npt.ArrayLike,
    offsets: npt.ArrayLike,
    *,
    tol: float = TOLERANCE,
) -> Floats:
    r"""Expected weight of each document's rank when rankings are drawn from Plackett-Luce.

    .. math:: \omega(d) = \sum_{k \le K} w_k P(d \text{ at rank } k), \quad
              P(\text{ranking}) = \prod_k e^{s_{(k)}} / \sum_{j \ge k} e^{s_{(j)}}

    Cost is linear in documents and in K; queries run on all threads, with the same bits for any
    number of them.

    Parameters
    ----------
    scores
        One value per document.
    weights
        Of the ranks, shape (K,); ranks beyond K weigh 0.
    offsets
        Where each query begins, and the end: queries + 1 entries.
    tol
        The absolute error is below `tol` times the largest absolute weight.

    Returns
    -------
    ndarray
        One value per document.

    Examples
    --------
    >>> exposure([np.log(2), 0.0, 5.0], weights=[1.0, 0.5], offsets=[0, 2, 3]).round(9)
    array([0.83333333, 0.66666667, 1.        ])
    """
    cuts = flat.check_offsets(offsets, np.size(scores))
    values = flat.check_values("scores", scores, cuts)
    w = check_weights(weights)
    return exposures(values, w, cuts, tol)


def exposure_gradient(
    scores: npt.ArrayLike,
    weights: npt.ArrayLike,
    offsets: npt.ArrayLike,
    slope: npt.ArrayLike,
    *,
    tol: float = GRADIENT_TOLERANCE,
) -> Floats:
    r"""Gradient of the sum of slope times exposure over all documents, in the scores.

    .. math:: \partial / \partial s_j \sum_d g_d\, \omega(d)

    The absolute error is below `tol` times the largest absolute weight times the largest
    difference of slopes within the query. Equal slopes give exactly 0, as exposures have a fixed
    sum.

    Parameters
    ----------
    scores
        One value per document.
    weights
        Of the ranks, shape (K,).
    offsets
        Where each query begins, and the end: queries + 1 entries.
    slope
        The g above, one value per document.
    tol
        Of the error, as said.

    Returns
    -------
    ndarray
        One value per document.

    Examples
    --------
    >>> exposure_gradient([0.0, 0.0], weights=[1.0], offsets=[0, 2], slope=[1.0, 0.0]).round(9)
    array([ 0.25, -0.25])
    """
    cuts = flat.check_offsets(offsets, np.size(scores))
    values = flat.check_values("scores", scores, cuts)
    slopes = flat.check_values("slope", slope, cuts)
    w = check_weights(weights)
    return gradients(values, w, slopes, cuts, tol)


def deterministic_exposure(
    scores: npt.ArrayLike, weights: npt.ArrayLike, offsets: npt.ArrayLike
) -> Floats:
    """Weight of each document's rank when the documents are sorted by score, ties in their order.

    Parameters
    ----------
    scores
        One value per document.
    weights
        Of the ranks, shape (K,); ranks beyond K weigh 0.
    offsets
        Where each query begins, and the end: queries + 1 entries.

    Returns
    -------
    ndarray
        One value per document.

    Examples
    --------
    >>> deterministic_exposure([1.0, 3.0, 1.0], weights=[1.0, 0.5], offsets=[0, 3])
    array([0.5, 1. , 0. ])
    """
    cuts = flat.check_offsets(offsets, np.size(scores))
    values = flat.check_values("scores", scores, cuts)
    omega = np.zeros(values.size)
    _sorted_weights(cuts.size - 1, values, check_weights(weights), cuts, omega)
    return omega


def rank_probabilities(
    scores: npt.ArrayLike, k: int, offsets: npt.ArrayLike, *, tol: float = TOLERANCE
) -> Floats:
    """Probability of each document at each of the ranks 1..k: documents x k.

    Rank r is the exposure whose weight is 1 at r and 0 elsewhere; all ranks take about as long as
    one exposure. The absolute error is below `tol`.

    Parameters
    ----------
    scores
        One value per document.
    k
        Number of ranks.
    offsets
        Where each query begins, and the end: queries + 1 entries.
    tol
        The absolute error is below it.

    Returns
    -------
    ndarray
        Documents x k.

    Examples
    --------
    >>> rank_probabilities([np.log(3), 0.0], k=2, offsets=[0, 2]).round(9)
    array([[0.75, 0.25],
           [0.25, 0.75]])
    """
    require(k >= 1, "k", "at least 1", k)
    cuts = flat.check_offsets(offsets, np.size(scores))
    values = flat.check_values("scores", scores, cuts)
    return rank_tables(values, k, cuts, tol)


def sorted_rank_probabilities(scores: npt.ArrayLike, k: int, offsets: npt.ArrayLike) -> Floats:
    """1 where a document stands when its query is sorted by score, else 0: documents x k.

    >>> sorted_rank_probabilities([1.0, 3.0, 1.0], k=2, offsets=[0, 3])
    array([[0., 1.],
           [1., 0.],
           [0., 0.]])
    """
    require(k >= 1, "k", "at least 1", k)
    cuts = flat.check_offsets(offsets, np.size(scores))
    places = flat.top(flat.check_values("scores", scores, cuts), k, cuts)
    query, rank = np.nonzero(places >= 0)
    table = np.zeros((int(cuts[-1]), k))
    table[places[query, rank], rank] = 1.0
    return table


def expected_ndcg(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    offsets: npt.ArrayLike,
    k: int,
    *,
    gain: Gain = "linear",
    empty: Empty = "skip",
) -> Floats:
    """Expected NDCG@k of each query when rankings are drawn from Plackett-Luce, exactly.

    Gains and queries without a relevant document as in `saferank.metrics.ndcg`.

    Parameters
    ----------
    scores, labels
        One value per document.
    offsets
        Where each query begins, and the end: queries + 1 entries.
    k
        Number of ranks.
    gain, empty
        As in `saferank.metrics.ndcg`.

    Returns
    -------
    ndarray
        One value per query.

    Examples
    --------
    >>> expected_ndcg([0.0, 0.0], [1, 0], [0, 2], k=1).round(9)
    array([0.5])
    """
    cuts = flat.check_offsets(offsets, np.size(scores))
    gains = flat.check_values("labels", metrics.label_gains(labels, gain), cuts)
    value = flat.query_sums(exposure(scores, metrics.dcg_weights(k), cuts) * gains, cuts)
    return metrics.normalised(value, labels, cuts, k, gain, empty)


LARGEST = 1e100
"""Of rank weights."""


def check_weights(weights: npt.ArrayLike) -> Floats:
    """Rank weights as float64, or `InputError` unless they are a list of finite numbers."""
    w = np.ascontiguousarray(weights, dtype=np.float64)
    require(w.ndim == 1 and w.size >= 1, "weights", "one value per rank", w.shape)
    # sums of them and their products with probabilities must be numbers too
    flat.require_each(np.abs(w) <= LARGEST, "weights", f"finite and at most {LARGEST:g}", w)
    return w


@parallel_kernel
def _sorted_weights(
    start: int, stop: int, scores: Floats, weights: Floats, offsets: Ints, omega: Floats
) -> None:
    for query in range(start, stop):
        first, last = offsets[query], offsets[query + 1]
        order = np.argsort(-scores[first:last], kind="mergesort")
        for rank in range(min(weights.size, last - first)):
            omega[first + order[rank]] = weights[rank]
