"""A scikit-learn-shaped face: options at construction, data at `fit`, scores at `predict`."""

from __future__ import annotations

from typing import Any, Self

import numpy.typing as npt

from saferank._core.flat import Floats
from saferank.clicks import ClickModel
from saferank.counts import Counts, CountTable
from saferank.data import RankingData, read_items
from saferank.data.frames import is_table
from saferank.data.items.tables import ItemsSource
from saferank.errors import InputError
from saferank.learning.learning import learn
from saferank.learning.ranker import Ranker
from saferank.learning.recipe import recipe_of
from saferank.logs import align
from saferank.metrics import mean
from saferank.plackett_luce import expected_ndcg


class RankingEstimator:
    """`learn` with the options first and the data at `fit`.

    Options are those of `learn`; a wrong one is refused at once. `sklearn.base.clone` and grid
    searches of your own work with `get_params` and `set_params`.

    Parameters
    ----------
    method
        A name of `METHODS`; None: that of `learn`.
    seed
        Of everything random.
    **options
        Any other option of `learn`, such as `scorer` or `settings`.

    Examples
    --------
    >>> RankingEstimator(method="dr", seed=3).get_params()
    {'method': 'dr', 'seed': 3}
    >>> RankingEstimator(method="magic")
    Traceback (most recent call last):
    saferank.errors.InputError: `method` must be one of naive, ips, ...
    """

    def __init__(self, *, method: str | None = None, seed: int = 0, **options: Any) -> None:
        recipe_of(method, options)
        self.method, self.seed, self.options = method, seed, options
        self.ranker_: Ranker | None = None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The options by name."""
        del deep
        return {"method": self.method, "seed": self.seed, **self.options}

    def set_params(self, **params: Any) -> Self:
        """Change options by name; all are checked before any is taken."""
        changed = {**self.get_params(), **params}
        method, seed = changed.pop("method"), changed.pop("seed")
        recipe_of(method, changed)
        self.method, self.seed, self.options = method, seed, changed
        return self

    def fit(
        self,
        data: RankingData | ItemsSource,
        counts: Counts | CountTable | None = None,
        click_model: ClickModel | None = None,
        *,
        production: Ranker | npt.ArrayLike | None = None,
    ) -> Self:
        """Learn a ranker from items (a data frame or a file will do) and their counts."""
        items = data if isinstance(data, RankingData) else read_items(data)
        if isinstance(counts, CountTable):
            ranks = None if click_model is None else click_model.ranks
            counts = align(counts, items, ranks=ranks)[0]
        self.ranker_ = learn(
            items,
            counts,
            click_model,
            method=self.method,
            production=production,
            seed=self.seed,
            **self.options,
        )
        return self

    def predict(self, data: RankingData | ItemsSource) -> Floats:
        """One score per document of the data, or per row of a data frame."""
        ranker = self._fitted()
        if isinstance(data, RankingData) or is_table(data):
            return ranker.scores(data)
        return ranker.scores(ranker.read_items(data))

    def score(self, data: RankingData, k: int = 5) -> float:
        """Mean expected NDCG@k against the labels of the data."""
        return mean(expected_ndcg(self.predict(data), data.known_labels, data.offsets, k))

    def _fitted(self) -> Ranker:
        if self.ranker_ is None:
            raise InputError("`fit` must come before this; the estimator has learned nothing yet.")
        return self.ranker_
