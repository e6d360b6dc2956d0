"""A scikit-learn-shaped face: `fit` and `predict` over `learn`."""

from __future__ import annotations

from typing import Any, Self

import numpy.typing as npt

from saferank._core.flat import Floats
from saferank.clicks import ClickModel
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.errors import InputError
from saferank.learning.learning import learn
from saferank.learning.ranker import Ranker
from saferank.metrics import mean
from saferank.plackett_luce import expected_ndcg


class RankingEstimator:
    """`learn` with the options first and the data at `fit`.

    >>> RankingEstimator(method="dr", seed=3).get_params()
    {'method': 'dr', 'seed': 3}
    """

    def __init__(self, *, method: str | None = None, seed: int = 0, **options: Any) -> None:
        self.method, self.seed, self.options = method, seed, options
        self.ranker_: Ranker | None = None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The options by name."""
        del deep
        return {"method": self.method, "seed": self.seed, **self.options}

    def set_params(self, **params: Any) -> Self:
        """Change options by name."""
        self.method = params.pop("method", self.method)
        self.seed = params.pop("seed", self.seed)
        self.options |= params
        return self

    def fit(
        self,
        data: RankingData,
        counts: Counts | None = None,
        click_model: ClickModel | None = None,
        *,
        production: Ranker | npt.ArrayLike | None = None,
    ) -> Self:
        """Learn a ranker from a log."""
        self.ranker_ = learn(
            data,
            counts,
            click_model,
            method=self.method,
            production=production,
            seed=self.seed,
            **self.options,
        )
        return self

    def predict(self, data: RankingData) -> Floats:
        """One score per document."""
        return self._fitted().scores(data)

    def score(self, data: RankingData, k: int = 5) -> float:
        """Mean expected NDCG@k against the labels of the data."""
        return mean(expected_ndcg(self.predict(data), data.known_labels, data.offsets, k))

    def _fitted(self) -> Ranker:
        if self.ranker_ is None:
            raise InputError("`fit` must come before this; the estimator has learned nothing yet.")
        return self.ranker_
