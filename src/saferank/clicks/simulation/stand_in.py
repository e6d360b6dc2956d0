"""Scores of a stand-in for a production ranker, for collections that bring none."""

from __future__ import annotations

import numpy as np

from saferank._core.flat import Array, Floats
from saferank._core.seeds import generator
from saferank.data import RankingData, Scaling
from saferank.errors import require

_ROWS = 1 << 15


def stand_in_production(data: RankingData, seed: int, *, share: float = 0.01) -> Floats:
    """Scores of a ridge regression of the labels of a few queries, with standard deviation 1.

    As in the paper, production has seen the labels of a small share of the queries (here at least
    ten): better than chance, with room above it.

    Parameters
    ----------
    data
        Labelled items.
    seed
        Of the choice of queries.
    share
        Share of the queries whose labels it has seen; at least ten of them.

    Returns
    -------
    ndarray
        One score per document.

    Examples
    --------
    >>> from saferank.data import synthetic
    >>> items = synthetic("small", queries=20, seed=0).train
    >>> stand_in_production(items, seed=0).shape == (items.documents,)
    True
    """
    require(0 < share <= 1, "share", "in (0, 1]", share)
    number = min(data.queries, max(10, round(share * data.queries)))
    judged = data.subset(np.sort(generator(seed, "production").permutation(data.queries)[:number]))
    scaling = Scaling.fit(judged, "log1p", encode=True)
    x = _scaled(scaling, judged.features)
    y = judged.known_labels - judged.known_labels.mean()
    weights = np.linalg.solve(x.T @ x + 0.1 * x.shape[0] * np.eye(x.shape[1]), x.T @ y)
    pieces = range(0, data.documents, _ROWS)
    scores = np.concatenate(
        [_scaled(scaling, data.features[at : at + _ROWS]) @ weights for at in pieces]
    )
    spread = float(scores.std())
    return scores / spread if spread > 0 else scores


def _scaled(scaling: Scaling, features: Array) -> Floats:
    return np.asarray(scaling.apply(features), dtype=np.float64)
