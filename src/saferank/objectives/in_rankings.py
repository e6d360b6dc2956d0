"""Objectives in ratios of whole rankings, over rankings drawn from production."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saferank._core.flat import Floats, Ints
from saferank._core.seeds import derive
from saferank.errors import InputError
from saferank.objectives.goals import Goal, QueryBlock, Risk, RiskPenalised, ValueGradient
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

    def value_and_gradient(
        self, scores: Floats, place: QueryBlock, risk: Risk | None
    ) -> ValueGradient:
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
        return ValueGradient((share * reward.value).sum(axis=1), risks, gradient)


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
