"""`certify`: a certificate from the scores of two rankers, some queries at a time."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.errors import require
from saferank.evaluation.scored_policies import (
    Deployed,
    Policy,
    check_policy,
    production_policy,
    query_shares,
    rank_weights,
)
from saferank.learning.provenance import versions
from saferank.learning.ranker import Ranker
from saferank.policies import ProductionPolicy
from saferank.safety.certificate import Certificate, Distribution
from saferank.safety.examination import Asked, Examination
from saferank.safety.guarded import GuardRule, Mode
from saferank.safety.losses import (
    EXCESS,
    GUARDED,
    KEPT,
    LARGEST,
    LOSS,
    RATIO,
    TOLERANCE,
)
from saferank.safety.policy_facts import ERROR, Comparison
from saferank.safety.promise import Promise

_DEFAULT = Promise()
LISTED = 10
"""How many of the worst and of the most visited queries a certificate shows."""


def certify(
    ranker: Policy,
    data: RankingData,
    *,
    production: Policy | ProductionPolicy | None = None,
    promise: Promise = _DEFAULT,
    deployed: Deployed = "sampled",
    weights: npt.ArrayLike | None = None,
    weights_from: str | None = None,
    examination: Asked = "fitted",
    mode: Mode = "best",
    holdout: float = 0.0,
    traffic: Counts | npt.ArrayLike | None = None,
    relevance: npt.ArrayLike | None = None,
) -> Certificate:
    """What a ranker keeps of production's utility on these items, for any relevance of documents.

    Memory beside the data does not grow with it, but for some numbers per query and document.

    Parameters
    ----------
    ranker
        A ranker, its scores (one per document), or a function of the data.
    data
        The items.
    production
        The same of production, deployed as the ranker is; or the `ProductionPolicy` that a log
        shows. By default the items' production_score.
    promise
        What every query has to keep.
    deployed
        "sampled" or "sorted": how scores become rankings.
    weights
        Of the ranks, shape (K,); by default the ranker's own, or 1/log2(rank + 1) of five ranks.
    weights_from
        Where the weights come from, in words.
    examination
        What the promise is for: "fitted" (these weights), "any" (every way of looking in which a
        rank is looked at no more than the one above it), "dcg", or other rank weights.
    mode
        What the guard serves: "best" or "mix"; see `Guard`.
    holdout
        Share of each query's sessions that the guard leaves to production at least.
    traffic
        Sessions of each query, or the counts; by default every query counts the same.
    relevance
        Estimates, one per document, by which to tell what the guard gives up.

    Returns
    -------
    Certificate
        Whether the promise holds, what can be lost, and what a guard would do.

    Examples
    --------
    >>> import saferank as sr
    >>> items = sr.data.RankingData(np.eye(3), offsets=[0, 3])
    >>> certificate = sr.certify([2.0, 1.0, 0.0], items, production=[2.0, 1.0, 0.5])
    >>> certificate.holds, certificate.promise
    (True, Promise(keep=0.9, slack=0.01))
    >>> sr.certify([0.0, 1.0, 2.0], items, production=[2.0, 1.0, 0.0]).holds
    False
    """
    new = check_policy(ranker, data, "ranker")
    require(data.queries > 0, "data", "of at least one query", data.queries)
    looking = Examination.of(
        examination,
        rank_weights(weights, new, production),
        weights_from or _weights_from(weights, new),
    )
    old = production_policy(production, data, deployed)
    sessions = traffic.sessions if isinstance(traffic, Counts) else traffic
    rule = GuardRule.against(old, promise, looking, mode, holdout)
    worth = None if relevance is None else flat.check_values("relevance", relevance, data.offsets)
    return _certificate(
        Comparison(new, old, data, rule, deployed, worth),
        query_shares(sessions, data.queries),
        traffic_known=traffic is not None,
    )


def _certificate(comparison: Comparison, shares: Floats, *, traffic_known: bool) -> Certificate:
    """What a comparison says of all queries; `shares` are those of the traffic."""
    data, rule, old = comparison.data, comparison.rule, comparison.production
    promise, looking, deployed = rule.promise, rule.examination, comparison.deployed
    summary = comparison.facts(shares)
    facts, gains = summary.losses, summary.gains
    worst = _first(facts[:, LOSS] + 1e-3 * facts[:, LARGEST])
    visited = _first(shares) if traffic_known else worst[:0]
    listed = partial(comparison.changes, losses=facts[:, [LOSS, LARGEST]], shares=shares)
    holds = facts[:, EXCESS] <= 0
    if summary.keeps_floors is not None:
        holds &= summary.keeps_floors
    mean_loss = float(shares @ (facts[:, LOSS] * comparison.total))
    mean_total = float(shares @ comparison.total)
    spared = TOLERANCE * float(looking.weights.max())
    return Certificate(
        promise=promise,
        deployed=deployed,
        holds=bool(holds.all()),
        holds_on_average=mean_loss <= promise.slack * mean_total + spared,
        share_holding=min(1.0, float(shares[holds].sum())),
        mean_loss=mean_loss,
        mean_total=mean_total,
        guard_share=float(summary.steps_in.mean()),
        guard_traffic=min(1.0, float(shares[summary.steps_in].sum())),
        guard_mixing=min(1.0, float(shares @ summary.kept)),
        guard_loss=float(facts[:, GUARDED].max()),
        guard_mode=rule.mode,
        guard_holdout=rule.holdout,
        guard_gain=None if gains is None else float(shares @ gains[0]),
        guard_gain_kept=None if gains is None else float(shares @ gains[1]),
        curve=summary.curve,
        distribution=_distribution(facts, summary.kept, shares),
        worst=listed(worst),
        visited=listed(visited),
        queries=data.queries,
        documents=data.documents,
        traffic_known=traffic_known,
        weights=tuple(looking.weights.tolist()),
        examination=looking.name,
        production_kind=old.kind,
        weights_from=looking.source,
        assumptions=_assumptions(deployed, old, looking, traffic_known),
        data=data.fingerprint(),
        versions=versions(),
        floors=summary.floors,
    )


def _first(values: Floats) -> Ints:
    """The queries with the largest values, largest first, ties in their order."""
    return np.argsort(-values, kind="stable")[:LISTED]


def _distribution(facts: Floats, kept: Floats, shares: Floats) -> Distribution:
    columns = (*(facts[:, column] for column in (LOSS, LARGEST, KEPT, RATIO)), kept)
    return Distribution(*(tuple(_quantiles(values, shares).tolist()) for values in columns))


def _quantiles(values: Floats, shares: Floats) -> Floats:
    """Percentiles 0..100 of values that have weights: the smallest value that covers each share."""
    order = np.argsort(values, kind="stable")
    covered = np.cumsum(shares[order])
    levels = np.linspace(0, 1, 101) * covered[-1]
    at = np.searchsorted(covered, levels - 1e-12, side="left")
    at[0], at[-1] = 0, values.size - 1  # the extremes count even where there is no traffic
    percentiles: Floats = values[order][np.minimum(at, values.size - 1)]
    return percentiles


_NEW = {
    "sampled": "The new ranker draws its rankings by Plackett-Luce over its scores.",
    "sorted": "The new ranker sorts documents by score, ties in the order of the items.",
}
_OLD = {
    "sampled": "Production draws its rankings by Plackett-Luce over its score.",
    "sorted": "Production sorts documents by its score, ties in the order of the items.",
    "uniform": "Production shows documents in uniformly random order.",
    "observed": "Production goes on showing documents as often as in the whole log; how far those "
    f"frequencies may be off is allowed for (all queries at once, confidence {1 - ERROR:.0%}).",
    "recorded": "Production's propensities are those recorded in the log.",
}


def _weights_from(weights: npt.ArrayLike | None, new: Policy) -> str:
    if weights is not None:
        return "as given"
    return "those the ranker was learned with" if isinstance(new, Ranker) else "DCG's"


def _assumptions(
    deployed: Deployed, production: ProductionPolicy, looking: Examination, traffic_known: bool
) -> tuple[str, ...]:
    return (
        "Utility adds up over the documents shown: the weight of a rank times a relevance in "
        "[0, 1] that does not depend on the ranking.",
        looking.sentence(),
        _NEW[deployed],
        _OLD[production.kind],
        "The promise is for each query among these items; for queries that are not among them the "
        "guard keeps it.",
        "The traffic of queries is that given, in all averages."
        if traffic_known
        else "Each query counts the same in all averages, as no traffic was given.",
        f"Exposures are computed to within {TOLERANCE:g} of the largest rank weight, and the "
        "promise is checked to within as much.",
    )
