r"""Relevance predicted by features, without a click model and without the document's own clicks.

A document that was clicked c times where an average one would have been clicked e times (the click
rates of its ranks, summed over its impressions) is described by its odds c : e,

.. math:: c \log \sigma(z) + e \log(1 - \sigma(z)).

That is no relevance, but it grows with it, which is all that is asked of a prediction by which
ranks are compared (`saferank.clicks.KnownPolicy`).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from saferank._core import flat, storage
from saferank._core.flat import Floats, Ints
from saferank._core.seeds import derive, generator
from saferank._core.value_slope import Curved
from saferank.counts import Counts
from saferank.data import RankingData, Scaling
from saferank.data.ranking import Features
from saferank.errors import require
from saferank.estimators.regression import Loss, Rows
from saferank.learning.descent import GoalQueries, Settings
from saferank.learning.families import SCORERS, Run, family
from saferank.learning.pointwise_goals import PointwiseGoal

FOLDS = 3
HELD_OUT = 0.15
QUICK = Settings(learning_rate=1e-2, batch_size=256, steps=400, patience=4, rounds=100, leaves=15)
"""Enough for a prediction that is only compared with clicks."""


def cross_fitted(
    data: RankingData,
    counts: Counts,
    *,
    scorer: str | None = None,
    units: Ints | None = None,
    settings: Settings = QUICK,
    seed: int = 0,
) -> Floats:
    """One predicted value per document, by a scorer that has not seen its unit's clicks.

    Parameters
    ----------
    data : queries and features.
    counts : of the same documents.
    scorer : linear, mlp or trees; by default trees where LightGBM is installed, else linear.
    units : of each query; queries of one unit (a user) are predicted together. None: each alone.
    settings : how the scorer is trained.
    seed : which units are predicted together, and for the scorer.

    Returns
    -------
    Logits, of shape (documents,).

    Examples
    --------
    >>> import saferank as sr
    >>> world = sr.data.synthetic("small", queries=60, seed=0).train
    >>> shown = np.zeros(world.documents)
    >>> counts = sr.clicks.simulate(world, shown, sr.clicks.trust_bias(), sessions=2000, seed=0)
    >>> predicted = cross_fitted(world, counts)
    >>> bool(np.corrcoef(predicted, world.labels)[0, 1] > 0.2)
    True
    """
    return cross_fitted_odds(
        data,
        Odds(*_expected_clicks(counts), counts.sessions > 0),
        scorer=default_scorer() if scorer is None else scorer,
        units=units,
        settings=settings,
        seed=seed,
    )


@dataclass(frozen=True, eq=False)
class Odds:
    """What is predicted of each document, as odds of two sums, by queries that have any."""

    above: Floats
    below: Floats
    seen: npt.NDArray[np.bool_]

    def log_likelihood(self, logits: Floats) -> float:
        """How well logits say the odds."""
        both = self.above + self.below
        return float(np.sum(self.above * logits - both * np.logaddexp(0, logits)))


def cross_fitted_odds(
    data: RankingData,
    odds: Odds,
    *,
    scorer: str,
    units: Ints | None = None,
    settings: Settings = QUICK,
    seed: int = 0,
) -> Floats:
    """Logits of odds, by a scorer that has not seen those of the document's unit."""
    require(scorer in SCORERS, "scorer", f"one of {', '.join(SCORERS)}", scorer)
    require(data.width > 0, "items", "documents with at least one feature", data.width)
    own = family(scorer)
    scaled = Scaling.fit(data, own.scaling, encode=own.encodes).apply(data)
    unit = np.arange(data.queries) if units is None else np.unique(units, return_inverse=True)[1]
    fold = generator(seed, "cross-fitting").permutation(int(unit.max()) + 1)[unit] % FOLDS
    predicted = np.zeros(data.documents)
    for number in range(FOLDS):
        others = np.flatnonzero((fold != number) & odds.seen)
        inside = flat.gather(data.offsets, np.flatnonzero(fold == number))[0]
        fitted = _fit(scaled, others, odds, scorer, settings, derive(seed, number))
        predicted[inside] = fitted(storage.take(scaled.features, inside))
    return predicted


def default_scorer() -> str:
    """Trees where LightGBM is installed: they need no scaling and find what is not linear."""
    return "trees" if importlib.util.find_spec("lightgbm") else "linear"


def _expected_clicks(counts: Counts) -> tuple[Floats, Floats]:
    """Clicks of each document, and how many an average document would have had at its ranks."""
    shown, clicked = counts.impressions.sum(axis=0), counts.clicks.sum(axis=0)
    rate = clicked / np.maximum(shown, 1)
    return counts.clicks.sum(axis=1).astype(np.float64), counts.impressions @ rate


def _fit(
    data: RankingData,
    queries: Ints,
    odds: Odds,
    scorer: str,
    settings: Settings,
    seed: int,
) -> Callable[[Features], Floats]:
    """A scorer fitted to some queries, stopped by a share of them."""
    order = generator(seed, "held out").permutation(queries)
    cut = max(1, round(HELD_OUT * order.size))

    def part(chosen: Ints) -> GoalQueries:
        own = flat.gather(data.offsets, chosen)[0]
        above, below = odds.above[own], odds.below[own]
        goal = PointwiseGoal(chosen.size, _odds(above, below), 1 / max(float(below.sum()), 1.0))
        return GoalQueries(data.subset(chosen), goal)

    kind = family(scorer)
    run = Run(settings, derive(seed, "scorer"), label="predicting relevance")
    train, held_out = part(np.sort(order[cut:])), part(np.sort(order[:cut]))
    fitted, _ = kind.fit(kind.fresh(data.width, settings, run.seed), train, held_out, run)
    return fitted.scores


def _odds(clicked: Floats, expected: Floats) -> Loss:
    r"""Clicks beside those expected: :math:`c z - (c + e) \log(1 + e^z)`, best at z = log(c/e)."""
    both = clicked + expected

    def loss(logits: Floats, rows: Rows) -> Curved:
        share = expit(logits)
        weight = both[rows]
        return Curved(
            clicked[rows] * logits - weight * np.logaddexp(0, logits),
            clicked[rows] - weight * share,
            weight * share * (1 - share),
        )

    return loss
