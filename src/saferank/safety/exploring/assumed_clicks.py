"""What is taken for relevance before the next log is there: from counts, or from a click rate.

Standard errors depend on how often documents are clicked, and those of trust bias on how much they
differ. Counts of production tell both, even where production always shows the same list: a
document's clicks at its own place are what they are, whatever curve explains them.
"""

from __future__ import annotations

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank._core.seeds import generator
from saferank.clicks.models import ClickModel
from saferank.counts import Counts
from saferank.errors import require

_DIFFERENT = 1.0
"""Standard deviation of relevance over its mean, where there are no counts to tell."""


def places_of(scores: Floats, offsets: Ints) -> Ints:
    """The place of each document in its query's list sorted by score, from 0.

    >>> places_of(np.array([1.0, 3.0, 2.0]), np.array([0, 3]))
    array([2, 0, 1])
    """
    order = np.lexsort((-scores, flat.query_of(offsets)))
    places = np.empty(scores.size, dtype=np.int64)
    places[order] = np.arange(scores.size) - flat.repeat_per_document(offsets[:-1], offsets)
    return places


def relevance_by_rate(documents: int, model: ClickModel, rate: float, seed: int) -> Floats:
    """Relevance that gives so many clicks per impression at rank 1, different by chance.

    >>> model = ClickModel([0.5], [0.0])
    >>> float(relevance_by_rate(100_000, model, 0.1, 0).mean().round(2))
    0.2
    """
    mean = (rate - model.beta[0]) / model.alpha[0]
    rule = f"between {model.beta[0]:.3g} and {model.exposure_weights[0]:.3g}, as the click model"
    require(0 < mean < 1, "click rate at rank 1", rule, rate)
    # a beta distribution with that mean, and as large a deviation as it can have up to the mean
    spread = min(_DIFFERENT * mean, 0.9 * float(np.sqrt(mean * (1 - mean))))
    size = mean * (1 - mean) / spread**2 - 1
    return generator(seed, "relevance").beta(mean * size, (1 - mean) * size, documents)


def relevance_by_counts(counts: Counts, model: ClickModel, places: Ints, seed: int = 0) -> Floats:
    r"""Relevance of each document by its clicks, with the noise of clicks taken out of its spread.

    :math:`\tilde R = \sum_k (c_k - n_k \beta_k) / \sum_k n_k \alpha_k` is unbiased and noisy. It is
    drawn towards the mean of its place in production's list, by so much that relevances differ as
    much as they do once noise is taken out; what was never shown differs as much, by chance, from
    the mean of the place shown last.
    """
    shown, clicked = (
        table[:, : model.ranks].astype(np.float64) for table in (counts.impressions, counts.clicks)
    )
    examined = shown @ model.alpha
    seen = examined > 0
    excess = clicked.sum(axis=1) - shown @ model.beta
    place = np.minimum(places, model.ranks - 1)
    total, worth = (
        np.bincount(place, values, minlength=model.ranks) for values in (examined, excess)
    )
    overall = float(worth.sum() / total.sum()) if total.sum() > 0 else 0.0
    mean = np.divide(worth, total, out=np.full(model.ranks, overall), where=total > 0)
    mean = np.clip(mean, 0.0, 1.0)[place]
    own = np.divide(excess, examined, out=mean.copy(), where=seen)
    chance = model.probability(mean)
    noise = np.divide(
        (shown * chance * (1 - chance)).sum(axis=1), examined**2, out=np.zeros(mean.size),
        where=seen,
    )  # fmt: skip
    spread = float(
        np.sum(examined * ((own - mean) ** 2 - noise)) / max(float(examined.sum()), 1e-300)
    )
    spread = max(spread, 0.0)
    factor = np.sqrt(spread / np.maximum(spread + noise, 1e-300)) if spread > 0 else 0.0
    drawn = mean + np.sqrt(spread) * generator(seed, "unseen").standard_normal(mean.size)
    own = np.where(seen, own, drawn)
    factor = np.where(seen, factor, 1.0)
    relevance: Floats = np.clip(mean + factor * (own - mean), 0.0, 1.0)
    return relevance
