"""Exposure by group in an assessment: of what would be served, beside production's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats
from saferank.counts import Counts
from saferank.estimators.evidence import Evidence
from saferank.evaluation.fair_exposure import (
    ExposureReport,
    FloorCost,
    exposure_report,
    groups_of,
    merits_by_clicks,
)
from saferank.evaluation.scored_policies import Policy, query_shares
from saferank.learning import Ranker
from saferank.safety.guarded import both_tables
from saferank.safety.judging import Served
from saferank.safety.rule import Rule

FLOORS = (0.0, 0.5, 0.8, 0.9, 0.95, 1.0)
"""What groups could be promised: shares of their exposure under production."""
FRONTIER_QUERIES = 200
"""About as many queries show what floors cost."""
CLICKS_FOR = 10
"""Groups whose merit is estimated from clicks, those of most exposure first."""


def report_exposures(
    ranker: Policy,
    served: Served,
    behind: Served,
    counts: Counts | None,
    evidence: Evidence | None,
    rule: Rule,
) -> ExposureReport:
    """Exposure by group before and after; with evidence, merit of the largest groups by clicks.

    `behind` is the ranker behind a guard, which floors would be added to, served so or not;
    `evidence` is that of the sessions to judge by, with the propensities of what made them.
    """
    data = served.data
    omega, omega0, _ = served.exposures()
    seen = counts is not None and counts.total > 0
    shares = query_shares(counts.sessions if counts is not None and seen else None, data.queries)
    merit, source = _merit(ranker, served)
    report = exposure_report(
        omega, omega0, data, served.weights, shares=shares, merit=merit, merit_from=source
    )
    if merit is not None:
        report = _with_frontier(report, behind, merit, shares)
    if evidence is None or not seen:
        return report
    groups, listed = groups_of(data), report.groups[:CLICKS_FOR]
    method, confidence = rule.interval, rule.confidence
    names = tuple(group.name for group in listed)
    merits = merits_by_clicks(groups, names, evidence, method=method, confidence=confidence)
    by_clicks = tuple(
        replace(group, merit_untold=merit)
        if isinstance(merit, str)
        else replace(group, merit_by_clicks=merit)
        for group, merit in zip(listed, merits, strict=True)
    )
    others = tuple(
        replace(group, merit_untold=f"not of the {CLICKS_FOR} largest")
        for group in report.groups[CLICKS_FOR:]
    )
    return replace(report, groups=by_clicks + others)


def _with_frontier(
    report: ExposureReport, served: Served, merit: Floats, shares: Floats
) -> ExposureReport:
    """What floors would cost: utility by merit of the guarded policy at each of `FLOORS`."""
    guard = served.guard
    assert guard is not None
    some = np.arange(0, served.data.queries, max(1, served.data.queries // FRONTIER_QUERIES))
    data, places = served.data.subset(some), flat.gather(served.data.offsets, some)[0]
    production = served.production.subset(some)
    tables = both_tables(served.scores[places], production, guard.examination, served.deployed)
    worth = merit[places] * flat.repeat_per_document(shares[some], data.offsets)

    def utility(table: Floats) -> float:
        return float(worth @ (table @ served.weights[: table.shape[1]]))

    whole = utility(tables[1])
    if whole <= 0:
        return report
    costs = []
    for floor in FLOORS:
        promise = replace(guard.promise, floor=floor, floor_of_all=0.0)
        own = replace(guard, promise=promise).serve(
            *tables, data.offsets, filled=production.filled, groups=data.group_codes
        )
        costs.append(FloorCost(floor, utility(own.table) / whole))
    return replace(report, frontier=tuple(costs), frontier_queries=data.queries)


def _merit(ranker: Policy, served: Served) -> tuple[Floats | None, str | None]:
    """Merit of documents: labels where the items have them, else the ranker's own regression."""
    labels = served.data.labels
    if labels is not None and labels.max(initial=0) > 0:
        return labels.astype(np.float64) / float(labels.max()), "the labels of the items"
    if isinstance(ranker, Ranker):
        relevance = ranker.relevance(served.data)
        if relevance is not None:
            return relevance, "the relevance that the ranker's regression predicts"
    return None, None
