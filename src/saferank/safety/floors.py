r"""Floors for groups: on every query each group keeps a share of the exposure production gives it.

With :math:`E` and :math:`E_0` the exposures of a group in a query, new and by production, and Z
all that the query has to give, the floor is

.. math:: \max(\phi\,E_0, \min(\sigma Z, E_0)) :

a share :math:`\phi` of what production gives the group, and up to the share :math:`\sigma` of all
whatever production gives it. Production keeps every floor, exposures are linear in mixtures, so
:math:`\lambda` of any policy with :math:`1 - \lambda` of production keeps them all if and only if

.. math:: \lambda (E_0 - E) \le E_0 - \text{floor} \quad\text{for every group,}

and the promise on utility, a convex set that production is in, stays kept as well. For every way of
looking the same holds for each "in the first j": floors are linear in the rank weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from saferank._core import flat
from saferank._core.flat import Array, Floats, Ints
from saferank.data.groups import Groups
from saferank.errors import InputError
from saferank.evaluation.scored_policies import DataBlock
from saferank.objectives.fair_goals import units_of
from saferank.objectives.fairness import sums_by
from saferank.safety.losses import TOLERANCE
from saferank.safety.promise import Promise


class GroupLosses(NamedTuple):
    """Exposures of the groups of queries, and their floors; one value per group of a query."""

    exposure: Floats
    production: Floats
    floor: Floats
    unit: Ints
    """Of each document."""
    offsets: Ints
    """Cut groups into queries."""

    @classmethod
    def of(
        cls,
        omega: Floats,
        omega0: Floats,
        offsets: Ints,
        groups: Ints | None,
        promise: Promise,
    ) -> GroupLosses:
        """Sums over documents; refused where documents have no groups."""
        unit, cuts = units_of(required(groups), offsets)
        new, old = (sums_by(unit, values, int(cuts[-1])) for values in (omega, omega0))
        total = flat.repeat_per_document(flat.query_sums(omega0, offsets), cuts)
        floor = np.maximum(promise.floor * old, np.minimum(promise.floor_of_all * total, old))
        return cls(new, old, floor, unit, cuts)

    def missing(self) -> Floats:
        """What each group lacks of its floor."""
        return np.maximum(0.0, self.floor - self.exposure)

    def shares(self, tolerance: float) -> Floats:
        """Per query, the largest share of the new policy in a mixture that keeps every floor."""
        falls = self.production - self.exposure
        room = self.production - self.floor
        tight = falls > room + tolerance
        own = np.where(tight, room / np.where(tight, falls, 1.0), 1.0)
        largest = np.ones(self.offsets.size - 1)
        some = np.diff(self.offsets) > 0
        if some.any():
            largest[some] = np.minimum.reduceat(own, self.offsets[:-1][some])
        return largest


def required(groups: Ints | None) -> Ints:
    """The groups, or `InputError`: a floor is of groups."""
    if groups is None:
        raise InputError("`group` must be given with a floor: the column that names groups.")
    return groups


@dataclass(frozen=True)
class FloorFacts:
    """Whether every group of every query keeps its floor."""

    column: str
    holds: bool
    """By the new ranker alone; not claimed where production is known from its log only."""
    share_holding: float
    """Share of the traffic whose queries keep every floor by themselves."""
    lowest: float
    """Least share of its exposure under production that a group of any query has left."""
    guarded_lowest: float | None
    """The same with the guard, where production's probabilities are known."""
    guarded_missing: float | None
    """The most that any group lacks of its floor with the guard, in units of utility."""
    worst_query: str
    worst_group: str


class FloorCount:
    """Goes through the queries of a certificate, some at a time, and counts floors that are kept.

    Where production is known from its log only, nothing is claimed of the new ranker alone: a
    group's exposure under production is then an estimate. A guard with a constant share keeps its
    floors whatever that exposure is.
    """

    def __init__(
        self, promise: Promise, groups: Groups | None, queries: int, *, known: bool
    ) -> None:
        required(None if groups is None else groups.codes)
        assert groups is not None
        self.promise, self.groups, self.known = promise, groups, known
        self.holds = np.full(queries, known)
        self.lowest, self.worst = np.inf, (0, 0)
        self.guarded_lowest, self.guarded_missing = np.inf, 0.0

    def add(self, part: DataBlock, views: Floats, new: Floats, old: Floats, served: Floats) -> None:
        """Take some queries in, by P(document at rank) of new ranker, production and guard."""
        offsets, codes = part.data.offsets, part.data.group_codes
        for view in views:
            weights, tolerance = view[: new.shape[1]], TOLERANCE * float(view.max())
            alone, guarded = (
                GroupLosses.of(table @ weights, old @ weights, offsets, codes, self.promise)
                for table in (new, served)
            )
            query = flat.query_of(alone.offsets)
            broken = query[alone.missing() > tolerance]
            self.holds[part.queries[broken]] = False
            ratio = np.where(
                alone.production > tolerance,
                alone.exposure / np.maximum(alone.production, tolerance), np.inf,
            )  # fmt: skip
            place = int(np.argmin(ratio))
            if ratio[place] < self.lowest:
                self.lowest = float(ratio[place])
                document = int(np.argmax(alone.unit == place))
                self.worst = int(part.queries[query[place]]), int(required(codes)[document])
            kept = guarded.exposure[alone.production > tolerance]
            kept = kept / alone.production[alone.production > tolerance]
            self.guarded_lowest = min(self.guarded_lowest, float(kept.min(initial=np.inf)))
            missing = float(guarded.missing().max(initial=0.0))
            self.guarded_missing = max(self.guarded_missing, missing)

    def facts(self, shares: Floats, query_ids: Array) -> FloorFacts:
        """What was counted; `shares` are those of the traffic."""
        query, group = self.worst
        return FloorFacts(
            column=self.groups.column,
            holds=bool(self.holds.all()),
            share_holding=min(1.0, float(shares[self.holds].sum())),
            lowest=min(self.lowest, 1.0),
            guarded_lowest=min(self.guarded_lowest, 1.0) if self.known else None,
            guarded_missing=self.guarded_missing if self.known else None,
            worst_query=str(query_ids[query]),
            worst_group=self.groups.names[group],
        )
