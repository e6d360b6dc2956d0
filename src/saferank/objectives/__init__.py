"""Objectives: utility, safe, PRPO and the action-level baselines; value and slope of each."""

from saferank._core.value_slope import ValueSlope
from saferank.objectives.exposure import prpo, prpo_floor, utility
from saferank.objectives.goals import Goal
from saferank.objectives.in_exposures import Context, Objective, Queries, Terms
from saferank.objectives.schedules import Schedule, schedule
from saferank.objectives.table import OBJECTIVES, Entry, ObjectiveLike, objective_entry

__all__ = [
    "OBJECTIVES", "Context", "Entry", "Goal", "Objective", "ObjectiveLike", "Queries", "Schedule",
    "Terms", "ValueSlope", "objective_entry", "prpo", "prpo_floor", "schedule", "utility",
]  # fmt: skip
