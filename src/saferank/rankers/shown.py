"""What production does with its scores, as far as learning needs to know."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from saferank.data import RankingData
from saferank.logs import Counts
from saferank.policies import ProductionFit, ProductionPolicy, choose_production
from saferank.rankers.ranker import Ranker

Production = Ranker | npt.ArrayLike | None


@dataclass(frozen=True, eq=False)
class Shown:
    """Production's policy on the training queries; without one, its scores are drawn from."""

    policy: ProductionPolicy | None = None
    fit: ProductionFit | None = None
    temperature: float = 1.0
    """Production's scores are divided by it: drawing from them then comes near to what it does."""

    @property
    def name(self) -> str:
        """What tells two of them apart, beside the scores."""
        return "sampled" if self.policy is None else self.policy.kind

    def elsewhere(self, data: RankingData, counts: Counts) -> ProductionPolicy | None:
        """The same kind of policy on other queries."""
        if self.policy is None:
            return None
        if self.policy.kind == "sorted" and data.production is not None:
            return ProductionPolicy.sorted(data.production, data.offsets)
        return ProductionPolicy.observed(counts)


def settle_production(
    data: RankingData, counts: Counts | None, production: Production, kind: str
) -> Shown:
    """Ask the log what production does with its scores; nothing to ask without either."""
    if counts is None or production is None or counts.total == 0 or kind == "sampled":
        return Shown()
    scores = production.scores(data) if isinstance(production, Ranker) else production
    policy, fit = choose_production(counts, np.asarray(scores, dtype=np.float64), kind)
    temperature = 1.0 if fit.temperature is None else fit.temperature
    return Shown(None if policy.kind == "sampled" else policy, fit, temperature)
