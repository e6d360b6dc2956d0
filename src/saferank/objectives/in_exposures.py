"""Objectives in exposures: scores, exact exposure, value and slope, exact gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank._core.seeds import derive
from saferank._core.value_slope import ValueSlope
from saferank.clicks import ClickModel
from saferank.errors import InputError
from saferank.objectives.goals import (
    Goal,
    QueryBlock,
    RewardRisk,
    Risk,
    RiskPenalised,
    ValueGradient,
)
from saferank.plackett_luce import GRADIENTS
from saferank.plackett_luce.exact import GRADIENT_TOLERANCE
from saferank.plackett_luce.kernels import COMPILED, ExposureKernels


class Terms(NamedTuple):
    """What an exposure objective knows of each document beside its exposure.

    See Also
    --------
    Objective : takes them.

    Examples
    --------
    >>> terms = Terms(gain=np.array([0.2, 0.8]), omega0=np.array([1.0, 0.5]), total=np.full(2, 1.5))
    >>> (terms.omega0 / terms.total).round(3)
    array([0.667, 0.333])
    """

    gain: Floats
    """Estimated relevance, one value per document."""
    omega0: Floats
    """Production's exposure, one value per document."""
    total: Floats
    """Z of the document's query: the exposure there is to share."""


@dataclass(frozen=True)
class Context:
    """What an objective knows of the whole log.

    See Also
    --------
    OBJECTIVES : entries build objectives from one.

    Examples
    --------
    >>> import saferank as sr
    >>> context = Context(sessions=10_000, delta=0.5, weights=np.ones(5), click_model=None)
    >>> sr.objectives.OBJECTIVES["prpo"].build(context).risk is None
    True
    """

    sessions: int
    """N, the number of sessions learned from."""
    delta: float
    """The recipe's, or the objective's own, at this number of sessions."""
    weights: Floats
    """Of the ranks: K values."""
    click_model: ClickModel | None
    """What clicks mean; None where labels are learned from."""
    largest_gain: float = 1.0
    """Of all documents that the objective is used for, validation's among them, by its size."""

    def require_click_model(self) -> ClickModel:
        """The click model, or `InputError` where there is none."""
        if self.click_model is None:
            raise InputError("`click_model` must be given for this objective; got None.")
        return self.click_model


class PairWeights(NamedTuple):
    """What a pair of documents is weighted by, where an objective pushes pairs apart."""

    swap: float = 1.0
    """Times what exchanging their ranks would change: LambdaRank."""
    gap: float = 0.0
    """Times what ranks as far apart from the first on would change: NDCG-Loss2."""
    own: float = 0.0
    """Times what the better one is worth where it stands: NDCG-Loss1."""


LAMBDARANK = PairWeights()


def _no_limits(terms: Terms) -> tuple[Floats, Floats]:
    return np.full_like(terms.gain, -np.inf), np.full_like(terms.gain, np.inf)


@dataclass(frozen=True, eq=False)
class Queries:
    """The queries that an objective is to be reached on, and how its gradient is computed."""

    offsets: Ints
    terms: Terms
    weights: Floats
    share: Floats
    """N_q / N."""
    production: Floats | None = None
    """Production's scores, where they are known."""
    gradient: str = "exact"
    samples: int = 1000
    seed: int = 0
    gradient_tol: float = GRADIENT_TOLERANCE
    """Of the exact gradient; exposures are compared with production's, and always as exact."""
    merit: Floats | None = None
    """Of each document, at least 0, for fairness; without it gains above 0 are."""
    groups: Ints | None = None
    """The number of each document's group, for fairness."""
    kernels: ExposureKernels = COMPILED
    """Who computes exposures and their exact gradients."""

    def __len__(self) -> int:
        return self.offsets.size - 1


class _Judged(NamedTuple):
    """Documents' share of traffic, their reward and risk with slopes, and the sums of queries."""

    share: Floats
    reward: ValueSlope
    risk: ValueSlope | None
    sums: RewardRisk


@dataclass(frozen=True)
class ExposureGoal(RiskPenalised):
    """An objective in exposures: scores -> exact exposure -> value and slope -> exact gradient."""

    objective: Objective
    terms: Terms
    weights: Floats
    share: Floats
    """N_q / N."""
    gradient: str = "exact"
    samples: int = 1000
    seed: int = 0
    gradient_tol: float = GRADIENT_TOLERANCE
    kernels: ExposureKernels = COMPILED

    def values(self, scores: Floats, place: QueryBlock) -> RewardRisk:
        """Reward and risk of some queries."""
        return self.values_at(self.kernels.exposure(scores, self.weights, place.offsets), place)

    def value_and_gradient(
        self, scores: Floats, place: QueryBlock, risk: Risk | None
    ) -> ValueGradient:
        """Judge some queries."""
        omega = self.kernels.exposure(scores, self.weights, place.offsets)
        sums, slope = self.values_and_slope(omega, place, risk)
        return ValueGradient(*sums, self.gradient_of(scores, place, slope))

    def values_at(self, omega: Floats, place: QueryBlock) -> RewardRisk:
        """Reward and risk of some queries that have these exposures."""
        return self._judge(omega, place).sums

    def values_and_slope(
        self, omega: Floats, place: QueryBlock, risk: Risk | None
    ) -> tuple[RewardRisk, Floats]:
        """The same, and the slope of the goal in each exposure."""
        share, reward, risky, sums = self._judge(omega, place)
        slope = share * reward.slope
        if risky is not None:
            slope = slope + self.root_slope(risk, sums.risk) * share * risky.slope
        return sums, slope

    def _judge(self, omega: Floats, place: QueryBlock) -> _Judged:
        terms = Terms(*(term[place.positions] for term in self.terms))
        share = flat.repeat_per_document(self.share[place.queries], place.offsets)
        reward = self.objective.reward(omega, terms)
        risky = None if self.objective.risk is None else self.objective.risk(omega, terms)
        risks = np.zeros(place.queries.size)
        if risky is not None:
            risks = flat.query_sums(share * risky.value, place.offsets)
        rewards = flat.query_sums(share * reward.value, place.offsets)
        return _Judged(share, reward, risky, RewardRisk(rewards, risks))

    def gradient_of(self, scores: Floats, place: QueryBlock, slope: Floats) -> Floats:
        """The gradient in the scores of a slope in exposures."""
        if self.gradient == "exact":
            return self.kernels.gradient(
                scores, self.weights, place.offsets, slope, tol=self.gradient_tol
            )
        # the scores are part of the seed: every visit of a query draws again, and can be repeated
        seed = derive(self.seed, place.queries.tobytes().hex(), scores.tobytes().hex())
        estimate = GRADIENTS[self.gradient]
        return estimate(scores, self.weights, place.offsets, slope, samples=self.samples, seed=seed)


def exposure_goal(objective: Objective, queries: Queries) -> Goal:
    """The goal of an objective whose reward and risk are functions of exposures."""
    return ExposureGoal(
        len(queries),
        objective,
        queries.terms,
        queries.weights,
        queries.share,
        gradient=queries.gradient,
        samples=queries.samples,
        seed=derive(queries.seed, "gradient"),
        gradient_tol=queries.gradient_tol,
        kernels=queries.kernels,
        risk_weight=objective.risk_weight,
    )


@dataclass(frozen=True)
class Objective:
    """mean(reward) - risk_weight * sqrt(mean(risk)).

    In exposures, `reward` and `risk` take the exposures and the `Terms` of documents and return a
    `ValueSlope`. Objectives in ratios of rankings or in pairs bring another `goal`.

    See Also
    --------
    saferank.testing.check_objective : checks one.

    Examples
    --------
    >>> def utility(omega, terms):
    ...     return ValueSlope(omega * terms.gain, slope=terms.gain)
    >>> import saferank as sr
    >>> sr.testing.check_objective(lambda context: Objective(utility))
    """

    reward: Callable[..., ValueSlope]
    """One value per document, with its slope in the exposure."""
    risk: Callable[..., ValueSlope] | None = None
    """The same of what is penalised; None: nothing."""
    risk_weight: float = 0.0
    """What the square root of the mean risk costs."""
    limits: Callable[[Terms], tuple[Floats, Floats]] = _no_limits
    """Exposures below and above which nothing more is lost or paid: what pairs are weighted by."""
    pairs: PairWeights = LAMBDARANK
    """What a pair of documents is weighted by, where the objective is one of pairs."""
    goal: Callable[[Objective, Queries], Goal] = exposure_goal
    """What makes a goal of it on some queries."""

    def on(self, queries: Queries) -> Goal:
        """The goal to reach on these queries."""
        return self.goal(self, queries)
