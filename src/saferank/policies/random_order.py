r"""Whether lists that were each seen once can be in random order: does any feature tell the rank?

In a list of L documents in uniformly random order, with ranks r and a feature z that is centred and
scaled within the list, :math:`t = \sum_d z_d (r_d - \bar r)` has mean 0 and variance
:math:`\frac{L}{L-1} \sum_d (r_d - \bar r)^2`, whatever the feature is. Sums over lists are normal;
the smallest p-value of the features, times their number, is that of all.
"""

from __future__ import annotations

import numpy as np

from saferank._core import flat
from saferank._core.flat import Array, Floats
from saferank._core.tails import normal_tail
from saferank.counts import Counts

LEAST_LISTS = 100


def random_order_p_value(counts: Counts, features: Array) -> float | None:
    """How surprising the order of lists seen once is if it was random; None with too few of them.

    Features that are missing somewhere are left out.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 4))
    >>> def once(order):
    ...     shown = np.eye(4, dtype=int)[np.argsort(order, axis=1)].reshape(-1, 4)
    ...     return Counts(np.arange(201) * 4, shown, 0 * shown)
    >>> random_order_p_value(once(np.argsort(-x, axis=1)), x.reshape(-1, 1)) < 1e-6
    True
    >>> shuffled = once(np.argsort(rng.random(x.shape), axis=1))
    >>> random_order_p_value(shuffled, x.reshape(-1, 1)) > 0.01
    True
    """
    once = np.flatnonzero(counts.sessions == 1)
    rows, offsets = flat.gather(counts.offsets, once)
    shown = counts.impressions[rows].any(axis=1)
    query, rows = flat.query_of(offsets)[shown], rows[shown]
    length = np.bincount(query, minlength=once.size)
    several = length[query] > 1
    query, rows = query[several], rows[several]
    if np.unique(query).size < LEAST_LISTS:
        return None
    ranks = counts.impressions[rows].argmax(axis=1).astype(np.float64)
    centred = ranks - _means(ranks, query)[query]
    with np.errstate(invalid="ignore"):
        surprises = [_surprise(features[rows, j], centred, query) for j in range(features.shape[1])]
    surprise = [one for one in surprises if np.isfinite(one)]
    if not surprise:
        return None
    return float(min(1.0, 2 * normal_tail(max(surprise)) * len(surprise)))


def _means(values: Floats, query: Array) -> Floats:
    count = np.bincount(query)
    mean: Floats = np.bincount(query, values) / np.maximum(count, 1)
    return mean


def _surprise(feature: Array, ranks: Floats, query: Array) -> float:
    """Standard deviations of the sum over lists; NaN where the feature never varies in a list."""
    x = feature.astype(np.float64)
    x = x - _means(x, query)[query]
    spread = np.sqrt(_means(x * x, query))[query]
    varied = spread > 1e-9 * np.maximum(np.abs(feature).max(initial=0.0), 1e-300)
    z = np.divide(x, spread, out=np.zeros(x.size), where=varied)
    length = np.bincount(query)[query]
    varies = np.bincount(query, z * z)[query] > 0
    variance = float(np.sum(varies * ranks**2 * length / (length - 1)))
    return abs(float(z @ ranks)) / np.sqrt(variance) if variance > 0 else np.nan
