r"""Learning under a promise (keep, slack): where it starts, and how far it may go.

An objective with a floor takes the incentive away to break the promise; a scorer that all queries
share may break it all the same. So learning starts at production to the bit, which keeps any
promise, and what was learned is then taken back towards that start until every query that was
learned from or stopped by keeps it: the largest share of the way that does.

A new query that is like the m held out breaks the promise with a probability of about 1/(m + 1),
as that takes a loss larger than all of theirs (training queries count for less: the floor was
learned on them). With few held out that is much, so that they may use half of the slack only. What
keeps the promise on every query is the guard.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats
from saferank.errors import InputError
from saferank.learning.descent import GoalQueries, evaluate
from saferank.learning.families import Scorer
from saferank.learning.recipe import Recipe
from saferank.objectives.exposure import shortfall
from saferank.objectives.fair_goals import FairGoal
from saferank.objectives.in_exposures import ExposureGoal
from saferank.plackett_luce import exposure

# Exposures are known to this, times the largest rank weight; the certificate allows for as much.
_TOLERANCE = 1e-9

_SPARE = 0.5
"""Of the slack: what queries learned from must leave of it, so that new ones keep the promise, too,
where those are few."""

_HALVINGS = 10
"""The share of the way is found to 1/1024."""


class Kept(NamedTuple):
    """How a promise was kept."""

    way: float
    """The share of the way from the start to what was learned."""
    holding: float
    """The share of the queries learned from that keep the promise by themselves."""


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


def take_back(
    learned: Scorer,
    start: Scorer,
    train: GoalQueries,
    check: GoalQueries,
    promise: tuple[float, float],
) -> tuple[Scorer, Kept]:
    """The scorer as far from its start as the promise (keep, slack) lets it go.

    Where the start breaks the promise on a query, because production does not draw its lists from
    scores, that query may lose as much as it does at the start. A point of the way that is worth
    less than the start on the validation queries is not taken.
    """
    parts = [_Promised.of(part, promise) for part in (train, check)]
    limits = [np.maximum(_SPARE * part.allowed, part.losses(start)) for part in parts]

    def holds(way: float) -> bool:
        scorer = part_way(learned, start, way)
        return all(
            bool((part.losses(scorer) <= limit).all())
            for part, limit in zip(parts, limits, strict=True)
        )

    way = _largest(holds)
    worth = [_worth(check, part_way(learned, start, point)) for point in (0.0, way)]
    if worth[1] < worth[0]:
        way = 0.0
    scorer = part_way(learned, start, way)
    keeping = np.concatenate([part.losses(scorer) <= part.allowed for part in parts])
    return scorer, Kept(way, float(keeping.mean()))


def part_way(learned: Scorer, start: Scorer, way: float) -> Scorer:
    """The scorer at a share of the way: both ends are themselves to the bit."""
    if way in (0.0, 1.0):
        return learned if way else start
    return learned.towards(start, way)


def _largest(holds: Callable[[float], bool]) -> float:
    """The largest share in [0, 1] that is found to hold by bisection; 0 does."""
    if holds(1.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _worth(part: GoalQueries, scorer: Scorer) -> float:
    return evaluate(part, scorer.scores(part.data.features))[0]


@dataclass(frozen=True, eq=False)
class _Promised:
    """Queries that are to keep a promise, and what each may lose."""

    part: GoalQueries
    goal: ExposureGoal
    keep: float
    allowed: Floats

    @classmethod
    def of(cls, part: GoalQueries, promise: tuple[float, float]) -> _Promised:
        """The queries of a part, which has exposures."""
        goal = part.goal.base if isinstance(part.goal, FairGoal) else part.goal
        assert isinstance(goal, ExposureGoal)
        keep, slack = promise
        total = flat.query_sums(goal.terms.omega0, part.data.offsets)
        allowed = slack * total + _TOLERANCE * goal.weights.max()
        return cls(part, goal, keep, allowed)

    def losses(self, scorer: Scorer) -> Floats:
        r"""The worst loss of each query: :math:`\sum_d \max(0, keep\,\omega_0 - \omega)`."""
        offsets = self.part.data.offsets
        scores = self.part.total(scorer.scores(self.part.data.features), slice(None))
        omega = exposure(scores, self.goal.weights, offsets)
        return flat.query_sums(shortfall(omega, self.goal.terms.omega0, self.keep), offsets)
