"""Goals: what a scorer is to reach, as value and gradient in the scores of some queries.

One training loop serves them all: objectives in exposures, in ratios of whole rankings and in
pairs, the regression behind DM and DR, and imitation of production's scores.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from saferank._core.flat import Floats, Ints

Risk = float | Floats
"""A sum over queries of which the goal is no sum: a number, or several where a goal has several."""


class QueryBlock(NamedTuple):
    """Some queries: which they are, where their documents lie, and how these are cut."""

    queries: Ints
    positions: Ints | slice
    offsets: Ints


class RewardRisk(NamedTuple):
    """Reward and risk of each query, already weighted: what a value is made of."""

    reward: Floats
    risk: Floats


class ValueGradient(NamedTuple):
    """Reward and risk of each query, already weighted, and the gradient in each score.

    A goal with several risks has a row of them for each query.
    """

    reward: Floats
    risk: Floats
    gradient: Floats
    curvature: Floats | None = None
    """At least 0 for each score, where the goal has a curvature of its own."""


class Goal(Protocol):
    """Judges the scores of some queries; sums over all queries give reward and risk of a scorer."""

    @property
    def queries(self) -> int:
        """Number of queries that are judged."""

    def values(self, scores: Floats, place: QueryBlock) -> RewardRisk:
        """Reward and risk of some queries; no gradient is computed."""

    def value_and_gradient(
        self, scores: Floats, place: QueryBlock, risk: Risk | None
    ) -> ValueGradient:
        """Judge some queries, where `risk` is the present risk of all queries together.

        None: these are all queries, so the sum of their risks is meant.
        """

    def value(self, reward: float, risk: Risk) -> float:
        """The goal's value from the sums over all queries."""


@dataclass(frozen=True)
class RiskPenalised:
    """value = reward - risk_weight * sqrt(risk)."""

    queries: int
    risk_weight: float = field(default=0.0, kw_only=True)

    def value(self, reward: float, risk: Risk) -> float:
        """The goal's value from the sums over all queries."""
        return reward - self.risk_weight * float(np.sqrt(risk))

    def root_slope(self, risk: Risk | None, judged: Floats) -> float:
        """d value / d risk: the root covers all queries, so a batch needs the whole's value."""
        risk = float(judged.sum()) if risk is None else float(risk)
        return -self.risk_weight / (2 * np.sqrt(risk)) if self.risk_weight and risk > 0 else 0.0
