"""Objectives: utility, safe, PRPO and the action-level baselines; value and slope of each."""

from saferank._core.value_slope import ValueSlope
from saferank.objectives.exposure import prpo as prpo
from saferank.objectives.exposure import prpo_floor as prpo_floor
from saferank.objectives.exposure import utility as utility
from saferank.objectives.goals import Goal as Goal
from saferank.objectives.in_exposures import Context, Objective, Terms
from saferank.objectives.in_exposures import Queries as Queries
from saferank.objectives.objective_table import OBJECTIVES, Entry
from saferank.objectives.objective_table import ObjectiveLike as ObjectiveLike
from saferank.objectives.objective_table import objective_entry as objective_entry
from saferank.objectives.schedules import Schedule as Schedule
from saferank.objectives.schedules import schedule

__all__ = [
    "OBJECTIVES",
    "Context",
    "Entry",
    "Objective",
    "Terms",
    "ValueSlope",
    "schedule",
]
