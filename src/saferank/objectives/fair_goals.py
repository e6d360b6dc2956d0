r"""Any objective less a multiple of a fairness term, within queries or over all traffic.

.. math:: \text{objective} - \lambda \sum_q \tfrac{N_q}{N} F(E_q)
          \quad\text{or}\quad \text{objective} - \lambda F\left(\sum_q \tfrac{N_q}{N} E_q\right)

The term's gradient in the scores is exact and is added to the objective's, however that is made.
Over traffic the term is of sums over all queries: a batch is judged by the sums as they stand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank._core.value_slope import ValueSlope
from saferank.errors import InputError, require
from saferank.objectives.fairness import TERMS, Term, Units, ideal_exposure, sums_by
from saferank.objectives.goals import Goal, QueryBlock, RewardRisk, Risk, ValueGradient
from saferank.objectives.in_exposures import Context, ExposureGoal, Objective, Queries
from saferank.plackett_luce import exposure, exposure_gradient

Over = Literal["queries", "traffic"]
MOST_GROUPS = 1000
"""Over traffic, where each query's exposures are kept by group."""


@dataclass(frozen=True)
class Fairness:
    """A fairness term by name, how much it weighs, and what exposure is shared over.

    Examples
    --------
    >>> Fairness("disparity", 0.1).over
    'queries'
    """

    term: str
    weight: float
    over: Over = "queries"

    def __post_init__(self) -> None:
        require(self.term in TERMS, "fairness", f"one of {', '.join(TERMS)}", self.term)
        sane = bool(np.isfinite(self.weight)) and self.weight >= 0
        require(sane, "fairness_weight", "finite and at least 0", self.weight)
        require(self.over in ("queries", "traffic"), "fairness_over", "queries or traffic",
                self.over)  # fmt: skip

    def on(self, build: Callable[[Context], Objective]) -> Callable[[Context], Objective]:
        """An objective's builder with the term added."""
        return lambda context: add_fairness(build(context), self)


def add_fairness(objective: Objective, fairness: Fairness) -> Objective:
    """An objective less a multiple of a fairness term.

    Examples
    --------
    >>> from saferank.objectives import OBJECTIVES
    >>> from saferank.testing import check_objective
    >>> check_objective(Fairness("disparity", 0.5).on(OBJECTIVES["prpo"].build))
    """
    return replace(objective, goal=partial(_fair_goal, objective, fairness))


def _fair_goal(base: Objective, fairness: Fairness, _: Objective, queries: Queries) -> Goal:
    goal, term = base.on(queries), TERMS[fairness.term]
    merit = np.maximum(queries.terms.gain, 0) if queries.merit is None else queries.merit
    ideal = ideal_exposure(merit, queries.weights, queries.offsets)
    facts = (merit, np.ones_like(merit), ideal)
    shared = (queries.weights, queries.share, term, fairness.weight)
    if fairness.over == "queries":
        unit, offsets = units_of(queries.groups, queries.offsets)
        sums = [sums_by(unit, values, int(offsets[-1])) for values in facts]
        units = Units(sums[0], sums[1], sums[2], offsets)
        return FairWithinQueries(goal, *shared, units, unit)
    if queries.groups is None:
        raise InputError("`group` must be given: over traffic exposure is shared by groups.")
    present, unit = np.unique(queries.groups, return_inverse=True)  # some have no document here
    count = present.size
    require(count <= MOST_GROUPS, "group", f"at most {MOST_GROUPS} groups over traffic", count)
    visits = flat.repeat_per_document(queries.share, queries.offsets)
    sums = [sums_by(unit, visits * values, count) for values in facts]
    units = Units(sums[0], sums[1], sums[2], np.array([0, count]))
    return FairOverTraffic(goal, *shared, units, unit.astype(np.int64))


def units_of(groups: Ints | None, offsets: Ints) -> tuple[Ints, Ints]:
    """The unit of each document, query after query, and where the units of each query begin.

    >>> units_of(np.array([4, 2, 4, 2]), np.array([0, 3, 4]))
    (array([1, 0, 1, 2]), array([0, 2, 3]))
    """
    if groups is None:
        return np.arange(offsets[-1]), offsets
    query = flat.query_of(offsets)
    width = int(groups.max(initial=0)) + 1
    pairs, unit = np.unique(query * width + groups, return_inverse=True)
    cuts = np.searchsorted(pairs // width, np.arange(offsets.size))
    return unit.astype(np.int64), cuts.astype(np.int64)


@dataclass(frozen=True)
class FairGoal:
    """A goal less a multiple of a fairness term."""

    base: Goal
    weights: Floats
    share: Floats
    """N_q / N."""
    term: Term
    weight: float
    units: Units
    unit: Ints
    """Of each document."""

    @property
    def queries(self) -> int:
        """Number of queries that are judged."""
        return self.base.queries

    def _base_values(self, scores: Floats, omega: Floats, place: QueryBlock) -> RewardRisk:
        """Reward and risk of the goal without the term; exposures are computed once."""
        if isinstance(self.base, ExposureGoal):
            return self.base.values_at(omega, place)
        return self.base.values(scores, place)

    def _with_term(
        self, scores: Floats, omega: Floats, place: QueryBlock, risk: Risk | None, slope: Floats
    ) -> ValueGradient:
        """The goal without the term's value, and the gradient with its slope: one where it can."""
        if isinstance(self.base, ExposureGoal) and self.base.gradient == "exact":
            sums, own = self.base.values_and_slope(omega, place, risk)
            both = own - self.weight * slope
            return ValueGradient(*sums, self.base.gradient_of(scores, place, both))
        judged = self.base.value_and_gradient(scores, place, risk)
        own = exposure_gradient(scores, self.weights, place.offsets, -self.weight * slope)
        bent = None if judged.curvature is None else judged.curvature + np.abs(own)
        return judged._replace(gradient=judged.gradient + own, curvature=bent)


@dataclass(frozen=True)
class FairWithinQueries(FairGoal):
    """Exposure is shared within each query, by its documents or by groups of them."""

    def values(self, scores: Floats, place: QueryBlock) -> RewardRisk:
        """Reward and risk of some queries."""
        omega = exposure(scores, self.weights, place.offsets)
        base, (fair, _) = self._base_values(scores, omega, place), self._fair(omega, place)
        return base._replace(reward=self._less(base.reward, place, fair))

    def value_and_gradient(
        self, scores: Floats, place: QueryBlock, risk: Risk | None
    ) -> ValueGradient:
        """Judge some queries."""
        omega = exposure(scores, self.weights, place.offsets)
        fair, unit = self._fair(omega, place)
        slope = flat.repeat_per_document(self.share[place.queries], place.offsets)
        judged = self._with_term(scores, omega, place, risk, slope * fair.slope[unit])
        return judged._replace(reward=self._less(judged.reward, place, fair))

    def _fair(self, omega: Floats, place: QueryBlock) -> tuple[ValueSlope, Ints]:
        """The term of each query, with its slope in the units' exposures; units of documents."""
        units = self.units.take(place.queries)
        moved = units.offsets[:-1] - self.units.offsets[:-1][place.queries]
        unit = self.unit[place.positions] + flat.repeat_per_document(moved, place.offsets)
        return self.term(sums_by(unit, omega, int(units.offsets[-1])), units), unit

    def _less(self, reward: Floats, place: QueryBlock, fair: ValueSlope) -> Floats:
        return reward - self.weight * self.share[place.queries] * fair.value

    def value(self, reward: float, risk: Risk) -> float:
        """The goal's value from the sums over all queries."""
        return self.base.value(reward, risk)


@dataclass(frozen=True)
class FairOverTraffic(FairGoal):
    """Exposure is shared by groups over all traffic.

    A query's risk is the objective's own, and then its exposure of each group.
    """

    def values(self, scores: Floats, place: QueryBlock) -> RewardRisk:
        """Reward and risk of some queries."""
        omega = exposure(scores, self.weights, place.offsets)
        base, (exposed, *_) = self._base_values(scores, omega, place), self._exposed(omega, place)
        return base._replace(risk=np.column_stack([base.risk, exposed]))

    def value_and_gradient(
        self, scores: Floats, place: QueryBlock, risk: Risk | None
    ) -> ValueGradient:
        """Judge some queries."""
        totals = None if risk is None or np.ndim(risk) == 0 else np.asarray(risk)
        omega = exposure(scores, self.weights, place.offsets)
        exposed, visited, unit = self._exposed(omega, place)
        fair = self.term(exposed.sum(axis=0) if totals is None else totals[1:], self.units)
        own = risk if totals is None else totals[0]
        judged = self._with_term(scores, omega, place, own, visited * fair.slope[unit])
        return judged._replace(risk=np.column_stack([judged.risk, exposed]))

    def _exposed(self, omega: Floats, place: QueryBlock) -> tuple[Floats, Floats, Ints]:
        """Exposure of each group in each query, and traffic and group of documents."""
        groups, visits = self.units.merit.size, self.share[place.queries]
        visited = flat.repeat_per_document(visits, place.offsets)
        unit = self.unit[place.positions]
        own = flat.query_of(place.offsets) * groups + unit
        exposed = sums_by(own, visited * omega, place.queries.size * groups)
        return exposed.reshape(-1, groups), visited, unit

    def value(self, reward: float, risk: Risk) -> float:
        """The goal's value from the sums over all queries."""
        sums = np.asarray(risk)
        fair = self.term(sums[1:], self.units).value
        return self.base.value(reward, float(sums[0])) - self.weight * float(fair[0])
