"""Objectives in ratios of whole rankings, over rankings drawn from production."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saferank._core.flat import Floats, Ints
from saferank._core.seeds import derive
from saferank._core.value_slope import ValueSlope
from saferank.errors import InputError
from saferank.objectives.goals import (
    Goal,
    QueryBlock,
    RewardRisk,
    Risk,
    RiskPenalised,
    ValueGradient,
)
from saferank.objectives.in_exposures import Objective, Queries
from saferank.objectives.ratios import ratio_gradient
from saferank.plackett_luce import log_probability, sample


@dataclass(frozen=True)
class RankingGoal(RiskPenalised):
    """An objective in the ratios of whole rankings, over rankings drawn from production."""

    objective: Objective
    rankings: Ints
    """queries x drawn x K: documents by their number within the query, -1 past the list's end."""
    rewards: Floats
    logged: Floats
    """log probability of each drawn ranking under production."""
    share: Floats

    def values(self, scores: Floats, place: QueryBlock) -> RewardRisk:
        """Reward and risk of some queries."""
        *_, share, reward, risky = self._judge(scores, place)
        return self._sums(share, reward, risky)

    def value_and_gradient(
        self, scores: Floats, place: QueryBlock, risk: Risk | None
    ) -> ValueGradient:
        """Judge some queries."""
        drawn, ratio, share, reward, risky = self._judge(scores, place)
        sums, slope = self._sums(share, reward, risky), share * reward.slope
        if risky is not None:
            slope = slope + self.root_slope(risk, sums.risk) * share * risky.slope
        return ValueGradient(*sums, ratio_gradient(scores, place.offsets, drawn, slope * ratio))

    def _judge(
        self, scores: Floats, place: QueryBlock
    ) -> tuple[Ints, Floats, Floats, ValueSlope, ValueSlope | None]:
        """The drawn rankings, their ratios and weights, reward and risk."""
        drawn, rewards = self.rankings[place.queries], self.rewards[place.queries]
        drawn = np.where(drawn >= 0, drawn + place.offsets[:-1, None, None], -1)
        now = log_probability(drawn, scores, place.offsets)
        ratio = np.exp(np.minimum(now - self.logged[place.queries], 50.0))
        share = self.share[place.queries, None] / drawn.shape[1]
        reward = self.objective.reward(ratio, rewards)
        risky = None if self.objective.risk is None else self.objective.risk(ratio, rewards)
        return drawn, ratio, share, reward, risky

    def _sums(self, share: Floats, reward: ValueSlope, risky: ValueSlope | None) -> RewardRisk:
        risks = np.zeros(share.shape[0])
        if risky is not None:
            risks = (share * risky.value).sum(axis=1)
        return RewardRisk((share * reward.value).sum(axis=1), risks)


def ranking_goal(objective: Objective, queries: Queries) -> Goal:
    """The goal of an objective whose reward and risk are functions of ranking ratios."""
    if queries.production is None:
        raise InputError("`production` must be given: this objective draws its rankings.")
    offsets = queries.offsets
    drawn = sample(
        queries.production, queries.weights.size, queries.samples, derive(queries.seed, "draw"),
        offsets,
    )  # fmt: skip
    gains = np.where(drawn >= 0, queries.terms.gain[drawn], 0.0)
    return RankingGoal(
        len(queries),
        objective,
        np.where(drawn >= 0, drawn - offsets[:-1, None, None], -1),
        gains @ queries.weights,
        log_probability(drawn, queries.production, offsets),
        queries.share,
        risk_weight=objective.risk_weight,
    )
