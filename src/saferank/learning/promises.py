"""Learning under a promise (keep, slack): where it starts, and which step may be taken.

An objective with a floor takes the incentive away to break the promise; a scorer that all queries
share may break it all the same. So the start is production to the bit, which keeps any promise, and
no step is taken that breaks the promise on a validation query.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats
from saferank.errors import InputError
from saferank.learning.recipe import Recipe
from saferank.objectives.exposure import shortfall
from saferank.objectives.goals import Goal, QueryBlock, ValueGradient
from saferank.objectives.in_exposures import ExposureGoal
from saferank.plackett_luce import exposure

# Exposures are known to this, times the largest rank weight; the certificate allows for as much.
_TOLERANCE = 1e-9


def settle_start(recipe: Recipe, *, has_model: bool) -> Recipe:
    """The recipe with a start that is production to the bit, where it makes a promise.

    Production's own model is one; else the scorer learns a correction that starts at 0 and is
    added to production's scores. A fit to the scores would break the promise by itself.
    """
    if recipe.keep is None or has_model:
        return recipe
    if not isinstance(recipe.scorer, str):
        raise InputError(
            "`scorer` must be linear, mlp or trees with `keep`: a module of your own cannot start "
            "at production to the bit."
        )
    return replace(recipe, start="add")


def promised(goal: Goal, recipe: Recipe) -> Goal:
    """The goal by which steps are chosen: under the recipe's promise, where it makes one."""
    if recipe.keep is None or recipe.slack is None or not isinstance(goal, ExposureGoal):
        return goal
    return PromisedGoal(goal, recipe.keep, recipe.slack)


@dataclass(frozen=True)
class PromisedGoal:
    r"""A goal on validation queries that no policy which breaks a promise can win.

    A query breaks it when :math:`\sum_d \max(0, keep\,\omega_{0,d} - \omega_d) > slack\,Z_q`.
    Each one that does costs more than the whole goal can be worth: rewards of exposures lie within
    the largest gain times Z. So the best step is one without any such query, where there is one.
    """

    goal: ExposureGoal
    keep: float
    slack: float

    @property
    def queries(self) -> int:
        """Number of queries that are judged."""
        return self.goal.queries

    def value_and_gradient(
        self, scores: Floats, place: QueryBlock, risk: float | None
    ) -> ValueGradient:
        """Judge some queries."""
        judged = self.goal.value_and_gradient(scores, place, risk)
        return judged._replace(reward=judged.reward - self._fine() * self.broken(scores, place))

    def broken(self, scores: Floats, place: QueryBlock) -> Floats:
        """1 for each query that breaks the promise, else 0."""
        weights, terms = self.goal.weights, self.goal.terms
        omega = exposure(scores, weights, place.offsets)
        omega0 = terms.omega0[place.positions]
        loss = flat.query_sums(shortfall(omega, omega0, self.keep), place.offsets)
        total = flat.query_sums(omega0, place.offsets)
        allowed = self.slack * total + _TOLERANCE * weights.max()
        over: Floats = (loss > allowed).astype(np.float64)
        return over

    def _fine(self) -> float:
        largest = float(np.abs(self.goal.terms.gain).max(initial=0.0))
        return 3 * max(largest, 1.0) * float(self.goal.weights.sum())

    def value(self, reward: float, risk: float) -> float:
        """The goal's value from the sums over all queries."""
        return self.goal.value(reward, risk)
