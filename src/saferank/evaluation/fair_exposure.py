"""How fairly policies share exposure: by group and by merit, exact from their exposures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats
from saferank.data import RankingData
from saferank.data.groups import Groups
from saferank.errors import InputError
from saferank.estimators import Evidence
from saferank.evaluation.contrast import Contrast
from saferank.evaluation.intervals import Interval, interval
from saferank.evaluation.off_policy import evaluate_exposures
from saferank.objectives.fairness import (
    Units,
    disparity,
    expected_exposure,
    ideal_exposure,
    sums_by,
)

LISTED = 50
"""Most groups that are told of one by one, those of most exposure under production first."""

NEVER_SHOWN = 0.01
"""Share of a group's documents that may hardly ever be shown, and clicks still tell its merit."""
LEAST_LOOKS = 0.01
"""Looks at a document that its query's sessions are expected to have: below, it is never shown."""


@dataclass(frozen=True)
class GroupShare:
    """A group's part in the exposure of all traffic."""

    name: str
    documents: float
    """Share of the documents of all traffic."""
    production: float
    """Share of production's exposure."""
    new: float
    """Share of the exposure of what would be served."""
    merit: float | None = None
    """Share of the merit of all documents."""
    merit_by_clicks: Interval | None = None
    """Relevance of the group's documents per session, estimated from clicks."""
    merit_untold: str = ""
    """Why clicks do not tell it, where they were asked."""


@dataclass(frozen=True)
class FairnessMeasures:
    """Measures of one policy; 0 is fair for the last two, 1 for the others."""

    parity: float | None
    """Least exposure per document of any group over the most (demographic parity)."""
    treatment: float | None
    """Least exposure per merit of any group over the most (disparate treatment)."""
    disparity: float | None
    """Pairwise disparity of documents, as PL-Rank has it; mean over traffic."""
    expected_exposure_loss: float | None
    """Squared distance from the ideal exposures (Diaz et al., 2020); mean over traffic."""


@dataclass(frozen=True)
class FloorCost:
    """What a floor for groups leaves of the utility of what would be served behind a guard."""

    floor: float
    """Share of its exposure under production that every group of every query keeps."""
    utility: float
    """By merit, as a share of production's."""


@dataclass(frozen=True)
class ExposureReport:
    """Exposure by group before and after, and measures of both policies."""

    column: str
    groups: tuple[GroupShare, ...]
    others: int
    """Groups that are not listed."""
    production: FairnessMeasures
    new: FairnessMeasures
    merit_from: str | None
    """Where merit comes from: labels, or the regression."""
    frontier: tuple[FloorCost, ...] = ()
    """What floors would cost, behind the guard; empty where merit is not known."""
    frontier_queries: int = 0
    """Queries that this was computed on."""


def exposure_report(
    omega: Floats,
    omega0: Floats,
    data: RankingData,
    weights: Floats,
    *,
    shares: Floats,
    merit: Floats | None = None,
    merit_from: str | None = None,
) -> ExposureReport:
    """Exposure by group of a new policy and of production, with measures of fairness.

    Parameters
    ----------
    omega, omega0
        Exposures of what would be served and of production, one per document.
    data
        The items, with their groups.
    weights
        Of the ranks, that the exposures are of.
    shares
        Of the traffic, one per query.
    merit
        At least 0, one per document; without it nothing is said of merit.
    merit_from
        What it is, in words.

    Returns
    -------
    ExposureReport
        Shares of groups, and the measures.

    Examples
    --------
    >>> items = RankingData(np.eye(2), [0, 2], groups=Groups.of(["a", "b"]))
    >>> report = exposure_report(np.array([0.5, 0.5]), np.array([0.9, 0.1]), items, np.ones(1),
    ...                          shares=np.ones(1), merit=np.array([1.0, 1.0]))
    >>> [(group.name, group.production, group.new) for group in report.groups]
    [('a', 0.9, 0.5), ('b', 0.1, 0.5)]
    >>> report.new.parity, report.new.treatment, report.new.disparity
    (1.0, 1.0, 0.0)
    """
    groups = groups_of(data)
    visits = flat.repeat_per_document(shares, data.offsets)

    def totals(values: Floats) -> Floats:
        return sums_by(groups.codes, visits * values, groups.count)

    size, exposed, exposed0 = (totals(v) for v in (np.ones_like(omega), omega, omega0))
    worth = None if merit is None else totals(np.maximum(merit, 0))
    order = np.argsort(-exposed0, kind="stable")
    order = order[size[order] > 0]  # groups of queries without traffic have no part
    parts = [_parts(values) for values in (size, exposed0, exposed)]
    merits = None if worth is None else _parts(worth)
    listed = tuple(
        GroupShare(
            groups.names[g], float(parts[0][g]), float(parts[1][g]), float(parts[2][g]),
            None if merits is None else float(merits[g]),
        )
        for g in order[:LISTED]
    )  # fmt: skip
    before, after = (
        FairnessMeasures(
            _least_over_most(sums, size),
            None if worth is None else _least_over_most(sums, worth),
            *document_measures(values, merit, weights, data, shares),
        )
        for values, sums in ((omega0, exposed0), (omega, exposed))
    )
    unlisted = max(0, order.size - LISTED)
    return ExposureReport(groups.column, listed, unlisted, before, after, merit_from)


def groups_of(data: RankingData) -> Groups:
    """The groups of the items, or `InputError` where they have none."""
    if data.groups is None:
        raise InputError("`group` must be given: a column of the items that names groups.")
    return data.groups


def _parts(values: Floats) -> Floats:
    total = float(values.sum())
    return values / total if total > 0 else np.zeros_like(values)


def _least_over_most(exposed: Floats, by: Floats) -> float | None:
    """The least ratio of any group over the most; None where fewer than two have a divisor."""
    some = by > 0
    ratios = exposed[some] / by[some]
    if ratios.size < 2 or ratios.max() <= 0:
        return None
    return float(ratios.min() / ratios.max())


def document_measures(
    omega: Floats, merit: Floats | None, weights: Floats, data: RankingData, shares: Floats
) -> tuple[float | None, float | None]:
    """Disparity and expected-exposure loss of documents, means over traffic."""
    if merit is None:
        return None, None
    worth = np.maximum(merit, 0)
    ideal = ideal_exposure(worth, weights, data.offsets)
    units = Units(worth, np.ones_like(worth), ideal, data.offsets)
    total = flat.query_sums(ideal, data.offsets)
    loss = expected_exposure(omega, units).value * total**2
    return float(shares @ disparity(omega, units).value), float(shares @ loss)


def merits_by_clicks(
    groups: Groups,
    names: tuple[str, ...],
    evidence: Evidence,
    *,
    method: str = "clustered",
    confidence: float = 0.95,
) -> tuple[Interval | str, ...]:
    r"""Relevance per session of the documents of each named group, from clicks.

    .. math:: \sum_q \tfrac{N_q}{N} \sum_{d \in g} R_d

    Doubly robust where the evidence has predictions, else by IPS. In its place the reason, in
    words, where the sessions cannot tell, or where more than a hundredth of the group's documents
    are never shown: nothing but the regression would speak of them. (Up to a hundredth are left
    out.)
    """
    estimator = "affine-ips" if evidence.predictions is None else "dr"
    counts = evidence.counts
    sessions = flat.repeat_per_document(counts.sessions, counts.offsets)
    hidden = sessions * evidence.propensities.rho < LEAST_LOOKS
    told: list[Interval | str] = []
    for name in names:
        inside = (groups.codes == groups.names.index(name)).astype(np.float64)
        visits = inside * sessions
        unseen = float(visits[hidden].sum() / max(visits.sum(), 1))
        if visits.sum() == 0:
            told.append("no session to judge by")
        elif unseen > NEVER_SHOWN:
            told.append(f"{unseen:.0%} of its documents hardly ever shown")
        else:
            contrast = Contrast(np.where(hidden, 0.0, inside), np.zeros_like(inside), evidence)
            evaluation = evaluate_exposures(contrast, estimator=estimator, control="none")
            few = evaluation.support.refusal() is not None
            told.append("too few sessions" if few else interval(evaluation.new, method, confidence))
    return tuple(told)
