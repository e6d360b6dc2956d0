"""Facts of queries for a certificate: a new ranker, production and what a guard makes of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank._core.flat import Floats
from saferank._core.progress import bar
from saferank.data import RankingData
from saferank.evaluation.scored_policies import (
    DataBlock,
    Deployed,
    Policy,
    chosen,
    data_blocks,
    exposure_of,
    scores_of,
)
from saferank.policies import ProductionPolicy
from saferank.policies.production import total_weights
from saferank.safety.certificate import Curve
from saferank.safety.changes import Change, moved_documents, places_of
from saferank.safety.floors import FloorCount, FloorFacts
from saferank.safety.guarded import BLIND, GuardRule, both_tables
from saferank.safety.losses import (
    EXCESS,
    TOLERANCE,
    Views,
    blind_share,
    query_facts,
    with_shortfall,
)

GRID = np.linspace(0, 1, 101)
ERROR = 0.05
"""Probability that the observed frequencies of any query lie further off than was allowed for."""


@dataclass(frozen=True, eq=False)
class Facts:
    """What a certificate says of its queries."""

    losses: Floats
    """See `losses.query_facts`: queries x facts, losses as shares of Z."""
    kept: Floats
    """What the guard keeps of each query's possible gain."""
    steps_in: npt.NDArray[np.bool_]
    """Where the new ranker alone would not do."""
    gains: Floats | None
    """Estimated change of utility of each query without and with the guard, 2 x queries."""
    curve: Curve
    """Means are over traffic, in units of utility."""
    floors: FloorFacts | None = None
    """Of groups, where the promise has floors for them."""
    keeps_floors: npt.NDArray[np.bool_] | None = None
    """Per query, whether the new ranker alone keeps them."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """A new ranker and production on the same items, compared some queries at a time."""

    new: Policy
    production: ProductionPolicy
    data: RankingData
    rule: GuardRule
    deployed: Deployed
    relevance: Floats | None

    @property
    def total(self) -> Floats:
        """Z of each query by the rank weights."""
        weights = self.rule.examination.weights
        return total_weights(self.data.offsets, weights, self.production.filled)

    def facts(self, shares: Floats) -> Facts:
        """The facts of all queries; `shares` are those of the traffic."""
        total, queries = self.total, self.data.queries
        facts, kept = np.empty((queries, EXCESS + 1)), np.empty(queries)
        steps_in, gains = np.empty(queries, dtype=np.bool_), np.zeros((2, queries))
        mean, worst = np.zeros((2, GRID.size)), np.zeros(GRID.size)
        floors = self._floors()
        rule = self.rule.by_exposure() if floors is None else self.rule
        with bar("Certifying", queries) as advance:
            for part in data_blocks(self.data):
                own = part.queries
                old = self.production.take(own, part.positions, part.data.offsets)
                scores = scores_of(self.new, part, "ranker")
                tables = both_tables(scores, old, rule.examination, self.deployed)
                served = rule.serve(
                    *tables, part.data.offsets, filled=old.filled, groups=part.data.group_codes
                )
                if floors is not None:
                    floors.add(part, rule.examination.views, *tables, served.table)
                kept[own], steps_in[own] = served.kept, served.steps_in
                exposures = np.stack(
                    [rule.examination.exposures(table) for table in (*tables, served.table)]
                )
                curves = self._fill(part, old, exposures, facts)
                mean += np.einsum("q,qcp->cp", shares[own] * total[own], curves)
                worst = np.maximum(worst, curves[:, 0].max(axis=0))
                omegas = [rule.examination.exposure(table) for table in (*tables, served.table)]
                gains[:, own] = self._gains(part, *omegas)
                advance(own.size)
        curve = Curve(*(tuple(values.tolist()) for values in (GRID, *mean, worst)))
        summary = Facts(facts, kept, steps_in, None if self.relevance is None else gains, curve)
        if floors is None:
            return summary
        floor_facts = floors.facts(shares, self.data.ids()[0])
        return replace(summary, floors=floor_facts, keeps_floors=floors.holds)

    def _floors(self) -> FloorCount | None:
        """Counts floors of groups, where the promise has some."""
        promise = self.rule.promise
        if not promise.has_floors:
            return None
        known = self.production.kind not in BLIND
        return FloorCount(promise, self.data.groups, self.data.queries, known=known)

    def changes(self, queries: npt.ArrayLike, losses: Floats, shares: Floats) -> tuple[Change, ...]:
        """What changes for the given queries: the documents that are in the top before or after.

        `losses` are eta(keep) and eta(1) of all queries, queries x 2.
        """
        part, weights = chosen(self.data, queries), self.rule.examination.weights
        offsets = part.data.offsets
        after = scores_of(self.new, part, "new")
        old = self.production.take(part.queries, part.positions, offsets)
        omega = exposure_of(after, weights, offsets, self.deployed, old.filled)
        before, omega0 = old.ranking_scores(), old.exposure(weights)
        query_ids, doc_ids = part.data.ids()
        places = np.stack([places_of(before, offsets), places_of(after, offsets)], axis=1)
        listed = []
        for number, query in enumerate(part.queries):
            own = slice(offsets[number], offsets[number + 1])
            listed.append(
                Change(
                    query=str(query_ids[number]),
                    traffic=float(shares[query]),
                    documents=int(own.stop - own.start),
                    loss=float(losses[query, 0]),
                    largest_loss=float(losses[query, 1]),
                    moved=moved_documents(
                        doc_ids[own], places[own], omega0[own], omega[own], weights.size
                    ),
                )
            )
        return tuple(listed)

    def _fill(
        self, part: DataBlock, old: ProductionPolicy, exposures: Floats, facts: Floats
    ) -> Floats:
        """Fill the facts of some queries; their curves, queries x (unguarded, guarded) x points.

        `exposures` are of the new ranker, of production and of what the guard serves, by each view.
        """
        promise, looking = self.rule.promise, self.rule.examination
        views, offsets = looking.views, part.data.offsets
        error = ERROR * part.queries.size / self.data.queries / len(views)
        short = np.stack([old.shortfall(view, error) for view in views], axis=1)
        share = blind_share(promise.keep, promise.slack)
        wider, cuts = with_shortfall(exposures, offsets, short, share)
        block = np.empty((part.queries.size, EXCESS + 1))
        curves = np.empty((part.queries.size, 2, GRID.size))
        totals, tolerances = looking.totals(offsets, old.filled), TOLERANCE * views.max(axis=1)
        query_facts(
            part.queries.size, Views(wider, cuts, totals, tolerances),
            (promise.keep, promise.slack), GRID, block, curves,
        )  # fmt: skip
        facts[part.queries] = block
        return curves

    def _gains(self, part: DataBlock, new: Floats, old: Floats, served: Floats) -> Floats:
        """Estimated change of utility of each query without and with the guard, by exposures."""
        if self.relevance is None:
            return np.zeros((2, part.queries.size))
        worth = self.relevance[part.positions]
        added = [(omega - old) * worth for omega in (new, served)]
        return np.stack([flat.query_sums(values, part.data.offsets) for values in added])
