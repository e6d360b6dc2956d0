"""What production does with its scores, as far as learning needs to know."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank._core.flat import Floats
from saferank.clicks import ClickModel
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.errors import require
from saferank.learning.problem import Log
from saferank.learning.ranker import Ranker
from saferank.learning.sharpening import sharpen
from saferank.policies import ProductionPolicy, choose_production
from saferank.policies.production_fit import ProductionFit
from saferank.policies.recorded import by_propensities

Production = Ranker | npt.ArrayLike | None


@dataclass(frozen=True, eq=False)
class Shown:
    """Production's policy on the training queries; without one, its scores are drawn from."""

    policy: ProductionPolicy | None = None
    fit: ProductionFit | None = None
    temperature: float = 1.0
    """Production's scores are divided by it: drawing from them then comes near to what it does."""
    logged_by: ProductionPolicy | None = None
    """What made the log, where that was not production alone."""
    sharper: float = 1.0
    """What production's scores are multiplied by where learning starts."""

    @property
    def divisor(self) -> float:
        """What production's scores are divided by to be what learning starts at."""
        return self.temperature / self.sharper

    def elsewhere(self, data: RankingData, counts: Counts) -> ProductionPolicy | None:
        """The same kind of policy on other queries."""
        if self.policy is None:
            return None
        if self.policy.kind == "sorted" and data.production is not None:
            return ProductionPolicy.sorted(data.production, data.offsets)
        if self.policy.kind == "uniform":
            return ProductionPolicy.uniform(data.offsets)
        if self.policy.kind == "recorded" and counts.propensity is not None:
            return by_propensities(counts)[0]
        return ProductionPolicy.observed(counts)


def settle_production(
    data: RankingData,
    counts: Counts | None,
    production: Production,
    kind: str,
    logged_by: ProductionPolicy | None = None,
) -> Shown:
    """Ask the log what production does with its scores; nothing to ask without either.

    A log that other policies made, too, says nothing of production: its kind is then taken as said.
    """
    if logged_by is not None:
        return _as_said(data, production, kind, logged_by)
    given = data.production if production is None else production
    if counts is None or counts.total == 0 or kind == "sampled":
        return Shown()
    if given is None and kind == "uniform":
        return Shown(*choose_production(counts, None, kind))
    if given is None:
        # nothing to compare: the log's own averages, unless it has recorded more
        recorded = counts.propensity is not None and kind in ("auto", "recorded")
        return Shown(*choose_production(counts, None, kind)) if recorded else Shown()
    scores = given.scores(data) if isinstance(given, Ranker) else given
    values = flat.check_values("production", scores, data.offsets)
    same = np.array_equal(counts.offsets, data.offsets)
    require(same, "counts", f"of the data's documents ({data!r})", repr(counts))
    policy, fit = choose_production(counts, values, kind)
    temperature = 1.0 if fit.temperature is None else fit.temperature
    return Shown(None if policy.kind == "sampled" else policy, fit, temperature)


def sharpened(
    shown: Shown,
    data: RankingData,
    counts: Counts | None,
    click_model: ClickModel | None,
    *,
    production: Production,
    weights: Floats,
) -> Shown:
    """Production drawn from more sharply, as far as the log warrants it (`sharpening`).

    Only a production that draws from its scores can be drawn from more sharply: any other is left
    as it is.
    """
    rule = "production, add or scratch where other policies made the log, or where there is none"
    learned = counts is not None and click_model is not None and shown.logged_by is None
    require(learned, "start", rule, "sharpened")
    assert counts is not None
    assert click_model is not None
    given = data.production if production is None else production
    if given is None or shown.policy is not None:
        return shown
    scores = np.asarray(given.scores(data) if isinstance(given, Ranker) else given)
    drawn = scores / shown.temperature
    log = Log(replace(data, production=drawn), counts).seen()
    factor = sharpen(log, click_model, weights).factor
    if factor == 1.0:
        return shown
    policy = ProductionPolicy.sampled(drawn, data.offsets)
    return replace(shown, sharper=factor, logged_by=policy)


def _as_said(
    data: RankingData, production: Production, kind: str, logged_by: ProductionPolicy
) -> Shown:
    same = np.array_equal(logged_by.offsets, data.offsets)
    require(same, "logged_by", f"a policy on the data's documents ({data!r})", logged_by.kind)
    rule = "sampled or sorted where the log was made by other policies, too"
    require(kind in ("auto", "sampled", "sorted"), "production_kind", rule, kind)
    given = data.production if production is None else production
    require(given is not None, "production", "given where other policies made the log", None)
    if kind != "sorted":
        return Shown(logged_by=logged_by)
    scores = given.scores(data) if isinstance(given, Ranker) else given
    assert scores is not None
    return Shown(ProductionPolicy.sorted(scores, data.offsets), logged_by=logged_by)
