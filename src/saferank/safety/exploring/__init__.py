"""Exploring: which randomisation to serve so that the next log can tell, at a certified cost."""

from saferank.safety.exploring.explorer import Explorer
from saferank.safety.exploring.moves import Moves
from saferank.safety.exploring.plan import ExplorationPlan
from saferank.safety.exploring.planning import Aim, explore

__all__ = ["Aim", "ExplorationPlan", "Explorer", "Moves", "explore"]
