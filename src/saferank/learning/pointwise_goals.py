"""Goals of learning that are no objective: the regression behind DM and DR, and imitation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank._core.value_slope import Curved
from saferank.objectives.goals import QueryBlock, RewardRisk, Risk, RiskPenalised, ValueGradient


@dataclass(frozen=True)
class PointwiseGoal(RiskPenalised):
    """A sum over documents, each judged by its own score: the regression behind DM and DR."""

    loss: Callable[[Floats, Ints | slice], Curved]
    scale: float = 1.0

    def values(self, scores: Floats, place: QueryBlock) -> RewardRisk:
        """Reward of some queries."""
        return RewardRisk(*self.value_and_gradient(scores, place, None)[:2])

    def value_and_gradient(
        self, scores: Floats, place: QueryBlock, risk: Risk | None
    ) -> ValueGradient:
        """Judge some queries."""
        del risk
        judged = self.loss(scores, place.positions)
        values = flat.query_sums(judged.value * self.scale, place.offsets)
        return ValueGradient(
            values, np.zeros_like(values), judged.slope * self.scale, judged.curvature * self.scale
        )


@dataclass(frozen=True)
class ImitationGoal(RiskPenalised):
    """Be production: the same scores up to a shift of each query, which no ranking shows."""

    production: Floats

    def values(self, scores: Floats, place: QueryBlock) -> RewardRisk:
        """Reward of some queries."""
        return RewardRisk(*self.value_and_gradient(scores, place, None)[:2])

    def value_and_gradient(
        self, scores: Floats, place: QueryBlock, risk: Risk | None
    ) -> ValueGradient:
        """Judge some queries."""
        del risk
        gap = scores - self.production[place.positions]
        length = np.maximum(flat.sizes(place.offsets), 1)
        gap = gap - flat.repeat_per_document(
            flat.query_sums(gap, place.offsets) / length, place.offsets
        )
        scale = flat.repeat_per_document(1 / (length * self.queries), place.offsets)
        values = -flat.query_sums(scale * gap**2, place.offsets)
        return ValueGradient(values, np.zeros_like(values), -2 * scale * gap, 2 * scale)
