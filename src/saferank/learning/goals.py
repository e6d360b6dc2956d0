"""Goals: what a scorer is to reach, as value and gradient in the scores of some queries.

One training loop serves them all: policies (exposures or whole rankings), the regression behind
DM and DR, and imitation of production's scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank._core.seeds import derive
from saferank._core.valued import Curved
from saferank.learning.ratios import ratio_gradient
from saferank.objectives import Objective, Terms
from saferank.plackett_luce import GRADIENTS, exposure, exposure_gradient, log_probability


class Place(NamedTuple):
    """Some queries: which they are, where their documents lie, and how these are cut."""

    queries: Ints
    positions: Ints | slice
    offsets: Ints


class Judgement(NamedTuple):
    """Reward and risk of each query, already weighted, and the gradient in each score."""

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

    def judge(self, scores: Floats, place: Place, risk: float | None) -> Judgement:
        """Judge some queries, where `risk` is the present risk of all queries together.

        None: these are all queries, so the sum of their risks is meant.
        """

    def value(self, reward: float, risk: float) -> float:
        """The goal's value from the sums over all queries."""


@dataclass(frozen=True)
class Rooted:
    """value = reward - risk_weight * sqrt(risk)."""

    queries: int
    risk_weight: float = field(default=0.0, kw_only=True)

    def value(self, reward: float, risk: float) -> float:
        """The goal's value from the sums over all queries."""
        return reward - self.risk_weight * float(np.sqrt(risk))

    def root_slope(self, risk: float | None, judged: Floats) -> float:
        """d value / d risk: the root covers all queries, so a batch needs the whole's value."""
        risk = float(judged.sum()) if risk is None else risk
        return -self.risk_weight / (2 * np.sqrt(risk)) if self.risk_weight and risk > 0 else 0.0


@dataclass(frozen=True)
class ExposureGoal(Rooted):
    """An objective in exposures: scores -> exact exposure -> value and slope -> exact gradient."""

    objective: Objective
    terms: Terms
    weights: Floats
    share: Floats
    """N_q / N."""
    gradient: str = "exact"
    samples: int = 1000
    seed: int = 0

    def judge(self, scores: Floats, place: Place, risk: float | None) -> Judgement:
        """Judge some queries."""
        omega = exposure(scores, self.weights, place.offsets)
        terms = Terms(*(term[place.positions] for term in self.terms))
        share = flat.spread(self.share[place.queries], place.offsets)
        reward = self.objective.reward(omega, terms)
        slope = share * reward.slope
        risks = np.zeros(place.queries.size)
        if self.objective.risk is not None:
            risky = self.objective.risk(omega, terms)
            risks = flat.query_sums(share * risky.value, place.offsets)
            slope = slope + self.root_slope(risk, risks) * share * risky.slope
        return Judgement(
            flat.query_sums(share * reward.value, place.offsets),
            risks,
            self._gradient(scores, place, slope),
        )

    def _gradient(self, scores: Floats, place: Place, slope: Floats) -> Floats:
        if self.gradient == "exact":
            return exposure_gradient(scores, self.weights, place.offsets, slope)
        # the scores are part of the seed: every visit of a query draws anew, yet can be repeated
        seed = derive(self.seed, place.queries.tobytes().hex(), scores.tobytes().hex())
        estimate = GRADIENTS[self.gradient]
        return estimate(scores, self.weights, place.offsets, slope, samples=self.samples, seed=seed)


@dataclass(frozen=True)
class RankingGoal(Rooted):
    """An objective in the ratios of whole rankings, over rankings drawn from production."""

    objective: Objective
    rankings: Ints
    """queries x drawn x K: documents by their number within the query, -1 past the list's end."""
    rewards: Floats
    logged: Floats
    """log probability of each drawn ranking under production."""
    share: Floats

    def judge(self, scores: Floats, place: Place, risk: float | None) -> Judgement:
        """Judge some queries."""
        drawn, rewards = self.rankings[place.queries], self.rewards[place.queries]
        drawn = np.where(drawn >= 0, drawn + place.offsets[:-1, None, None], -1)
        now = log_probability(drawn, scores, place.offsets)
        ratio = np.exp(np.minimum(now - self.logged[place.queries], 50.0))
        share = self.share[place.queries, None] / drawn.shape[1]
        reward = self.objective.reward(ratio, rewards)
        slope = share * reward.slope
        risks = np.zeros(place.queries.size)
        if self.objective.risk is not None:
            risky = self.objective.risk(ratio, rewards)
            risks = (share * risky.value).sum(axis=1)
            slope = slope + self.root_slope(risk, risks) * share * risky.slope
        gradient = ratio_gradient(scores, place.offsets, drawn, slope * ratio)
        return Judgement((share * reward.value).sum(axis=1), risks, gradient)


@dataclass(frozen=True)
class PointwiseGoal(Rooted):
    """A sum over documents, each judged by its own score: the regression behind DM and DR."""

    loss: Callable[[Floats, Ints | slice], Curved]
    scale: float = 1.0

    def judge(self, scores: Floats, place: Place, risk: float | None) -> Judgement:
        """Judge some queries."""
        del risk
        judged = self.loss(scores, place.positions)
        values = flat.query_sums(judged.value * self.scale, place.offsets)
        return Judgement(
            values, np.zeros_like(values), judged.slope * self.scale, judged.curvature * self.scale
        )


@dataclass(frozen=True)
class ImitationGoal(Rooted):
    """Be production: the same scores up to a shift of each query, which no ranking shows."""

    production: Floats

    def judge(self, scores: Floats, place: Place, risk: float | None) -> Judgement:
        """Judge some queries."""
        del risk
        gap = scores - self.production[place.positions]
        length = np.maximum(flat.sizes(place.offsets), 1)
        gap = gap - flat.spread(flat.query_sums(gap, place.offsets) / length, place.offsets)
        scale = flat.spread(1 / (length * self.queries), place.offsets)
        values = -flat.query_sums(scale * gap**2, place.offsets)
        return Judgement(values, np.zeros_like(values), -2 * scale * gap, 2 * scale)
