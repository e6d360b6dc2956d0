"""Predictions of relevance, moved towards what each document's own clicks say."""

from __future__ import annotations

import numpy as np

from saferank._core.flat import Floats
from saferank.clicks import ClickModel
from saferank.counts import Counts

SPREAD = 0.05
"""Variance of relevance around its prediction."""


def update_predictions(
    predictions: Floats | None, counts: Counts, click_model: ClickModel
) -> Floats:
    r"""Relevance after a document's clicks, when its prediction is right but for a normal error.

    .. math:: \hat R + \frac{\sum_k \alpha_k (c_k - n_k m_k)/s_k}
              {1/\tau^2 + \sum_k n_k \alpha_k^2 / s_k}, \quad m = \alpha\hat R + \beta,
              \quad s = m (1 - m)

    Parameters
    ----------
    predictions
        One per document; None: the relevance that all clicks together amount to.
    counts
        Of the sessions to learn from.
    click_model
        What clicks mean.

    Returns
    -------
    Floats
        Relevance in [0, 1], one per document.

    Examples
    --------
    >>> counts = Counts([0, 2], [[90], [10]], [[45], [0]])
    >>> update_predictions(None, counts, ClickModel([1.0], [0.0])).round(2)
    array([0.5 , 0.15])
    """
    before = _overall(counts, click_model) if predictions is None else np.clip(predictions, 0, 1)
    expected = click_model.alpha * before[:, None] + click_model.beta
    chance = np.clip(expected, 0.02, 0.98)
    weight = click_model.alpha / (chance * (1 - chance))
    moved = ((counts.clicks - counts.impressions * expected) * weight).sum(axis=1)
    precision = (counts.impressions * click_model.alpha * weight).sum(axis=1)
    result: Floats = np.clip(before + moved / (1 / SPREAD + precision), 0.0, 1.0)
    return result


def _overall(counts: Counts, click_model: ClickModel) -> Floats:
    """One relevance for all: excess clicks by examinations."""
    shown = counts.impressions.sum(axis=0)
    looked = float(shown @ click_model.alpha)
    excess = float(counts.clicks.sum() - shown @ click_model.beta)
    return np.full(counts.documents, np.clip(excess / looked if looked > 0 else 0.25, 0.0, 1.0))
