"""What production is taken to do when the next log is planned: it sorts, or it samples."""

from __future__ import annotations

from dataclasses import dataclass, replace

from saferank.counts import Counts
from saferank.data import RankingData
from saferank.errors import InputError, require
from saferank.policies import ProductionPolicy, choose_production


@dataclass(frozen=True, eq=False)
class TakenProduction:
    """A policy that can be served: its temperature, and why it is taken."""

    policy: ProductionPolicy
    sentence: str
    temperature: float = 1.0


def take_production(
    data: RankingData, counts: Counts | None = None, kind: str = "auto"
) -> TakenProduction:
    """Production by the scores of the items: as counts show it, else sorted.

    Parameters
    ----------
    data : items with production's scores, or scores that sort as its lists do.
    counts : of its log, on the same documents.
    kind : "auto", "sorted" or "sampled".

    Examples
    --------
    >>> import numpy as np
    >>> items = RankingData(np.zeros((2, 0)), [0, 2], production=[2.0, 1.0])
    >>> take_production(items).policy.kind
    'sorted'
    """
    require(kind in ("auto", "sorted", "sampled"), "production policy",
            "auto, sorted or sampled", kind)  # fmt: skip
    if data.production is None:
        raise InputError(
            "`--production` must be given: the items have no production_score; its lists will do "
            "(a table of query_id, doc_id, rank)."
        )
    if counts is not None and counts.total > 0:
        return _by_counts(data, counts, kind)
    if kind == "sampled":
        policy = ProductionPolicy.sampled(data.production, data.offsets)
        return TakenProduction(policy, "Production is taken to draw its lists by its score.")
    policy = ProductionPolicy.sorted(data.production, data.offsets)
    return TakenProduction(policy, "Production is taken to sort documents by its score.")


def _by_counts(data: RankingData, counts: Counts, kind: str) -> TakenProduction:
    policy, fit = choose_production(counts, data.production, kind)
    if policy.kind in ("observed", "recorded", "uniform"):
        raise InputError(
            "production must sort or sample by a score to be explored from, and this log says "
            "otherwise (`logs check` tells how): plan without --counts from its lists "
            "(--production LISTS), or say --production-policy sorted if it nearly sorts."
        )
    # Moves are of full lists: how many ranks a session had is no part of the plan.
    plain = replace(policy, filled=None, inside=None)
    return TakenProduction(plain, fit.sentence, fit.temperature or 1.0)
