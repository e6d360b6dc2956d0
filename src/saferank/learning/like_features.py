"""Which documents are alike by their features: where production puts them, and their click rate.

Both are predicted by a scorer that has not seen the document's own query: the place in the list
first, which tells position bias through documents expected at the same place; with it, clicks
beside those that the ranks explain are the click rate at the reference rank.
"""

from __future__ import annotations

import numpy as np

from saferank._core.flat import Floats
from saferank.clicks.bias.like_documents import LikeDocuments, matched_curve
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.learning.predicting import Odds, cross_fitted_odds, default_scorer


def like_documents(
    data: RankingData,
    counts: Counts,
    *,
    scorer: str | None = None,
    reference: int = 1,
    seed: int = 0,
) -> LikeDocuments:
    """What features say of documents, for comparing ranks through like ones.

    Parameters
    ----------
    data : queries and features.
    counts : of the same documents; sessions of one user (`counts.cluster`) are predicted together.
    scorer : linear, mlp or trees; by default trees or linear, whichever predicts places better in
        queries that it has not seen.
    reference : the rank, from 1, whose click rate is predicted.
    seed : which queries are predicted together, and for the scorer.

    Returns
    -------
    LikeDocuments

    Raises
    ------
    InputError
        If features tell ranks apart, so that like documents are never at different ones.

    Examples
    --------
    >>> import saferank as sr
    >>> world = sr.data.synthetic("small", queries=100, seed=0).train
    >>> shown = world.features[:, 0] + 2 * np.random.default_rng(0).normal(size=world.documents)
    >>> counts = sr.clicks.simulate(
    ...     world, shown, sr.clicks.position_bias(), sessions=10_000, seed=0, deterministic=True
    ... )
    >>> like = like_documents(world, counts, scorer="linear")
    >>> like.place.shape == like.rate.shape == (world.documents,)
    True
    """
    seen = counts.sessions > 0
    below = counts.impressions @ np.linspace(0.0, 1.0, counts.ranks)
    places = Odds(below, counts.impressions.sum(axis=1) - below, seen)

    def predict(name: str, odds: Odds) -> Floats:
        return cross_fitted_odds(data, odds, scorer=name, units=counts.cluster, seed=seed)

    names = [scorer] if scorer else sorted({default_scorer(), "linear"}, reverse=True)
    predicted = {name: predict(name, places) for name in names}
    best = max(names, key=lambda name: places.log_likelihood(predicted[name]))
    like = LikeDocuments(predicted[best], np.zeros(data.documents), _why(best, names))
    curve = matched_curve(like, counts, reference)
    clicked = counts.clicks.sum(axis=1).astype(np.float64)
    rate = np.exp(np.minimum(predict(best, Odds(clicked, counts.impressions @ curve, seen)), 0.0))
    return LikeDocuments(like.place, rate, like.why)


def _why(best: str, names: list[str]) -> str:
    others = [name for name in names if name != best]
    better = f", which beats {others[0]} on other queries" if others else ""
    return f"Place and click rate are predicted by features ({best}{better})."
