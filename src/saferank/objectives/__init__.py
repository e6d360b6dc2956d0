"""Objectives: utility, safe, PRPO and the action-level baselines; value and slope of each."""

from saferank.objectives.exposure import prpo, prpo_floor, utility
from saferank.objectives.schedules import Schedule, schedule
from saferank.objectives.table import OBJECTIVES, Context, Objective, Terms

__all__ = [
    "OBJECTIVES", "Context", "Objective", "Schedule", "Terms",
    "prpo", "prpo_floor", "schedule", "utility",
]  # fmt: skip
