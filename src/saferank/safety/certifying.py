"""`certify`: a certificate from the scores of two rankers, some queries at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from saferank._core.flat import Floats, Ints
from saferank._core.progress import bar
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.errors import require
from saferank.evaluation.scored_policies import (
    Deployed,
    Part,
    Policy,
    check_policy,
    exposure_of,
    parts,
    production_policy,
    query_shares,
    rank_weights,
    scores_of,
)
from saferank.learning.ranker import Ranker, versions
from saferank.policies import ProductionPolicy
from saferank.policies.production import total_weights
from saferank.safety.certificate import Certificate, Curve, Distribution
from saferank.safety.changes import Change, changes
from saferank.safety.losses import (
    GUARDED,
    KEPT,
    LARGEST,
    LOSS,
    MIXING,
    RATIO,
    TOLERANCE,
    blind_share,
    query_facts,
    with_shortfall,
)
from saferank.safety.promise import Promise

GRID = np.linspace(0, 1, 101)
ERROR = 0.05
"""Probability that the observed frequencies of any query lie further off than was allowed for."""
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
    traffic: Counts | npt.ArrayLike | None = None,
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
    traffic
        Sessions of each query, or the counts; by default every query counts the same.

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
    w = rank_weights(weights, new, production)
    old = production_policy(production, data, deployed)
    sessions = traffic.sessions if isinstance(traffic, Counts) else traffic
    shares = query_shares(sessions, data.queries)
    pair = _Pair(new, old, data, w, deployed)
    facts, curve = pair.facts(promise, shares)
    worst = _first(facts[:, LOSS] + 1e-3 * facts[:, LARGEST])
    visited = _first(shares) if traffic is not None else worst[:0]

    def listed(queries: Ints) -> tuple[Change, ...]:
        return changes(
            new,
            old,
            data,
            queries,
            weights=w,
            keep=promise.keep,
            shares=shares,
            total=pair.total,
            deployed=deployed,
        )

    slack_left = promise.slack + TOLERANCE * w.max() / np.maximum(pair.total, 1e-300)
    kept = facts[:, LOSS] <= slack_left
    steps_in = facts[:, MIXING] < 1
    mean_loss, mean_total = (
        float(shares @ (facts[:, LOSS] * pair.total)),
        float(shares @ pair.total),
    )
    return Certificate(
        promise=promise,
        deployed=deployed,
        holds=bool(kept.all()),
        holds_on_average=mean_loss <= promise.slack * mean_total + TOLERANCE * float(w.max()),
        share_holding=min(1.0, float(shares[kept].sum())),
        mean_loss=mean_loss,
        mean_total=mean_total,
        guard_share=float(steps_in.mean()),
        guard_traffic=min(1.0, float(shares[steps_in].sum())),
        guard_mixing=min(1.0, float(shares @ facts[:, MIXING])),
        guard_loss=float(facts[:, GUARDED].max()),
        curve=curve,
        distribution=_distribution(facts, shares),
        worst=listed(worst),
        visited=listed(visited),
        queries=data.queries,
        documents=data.documents,
        traffic_known=traffic is not None,
        weights=tuple(w.tolist()),
        production_kind=old.kind,
        weights_from=weights_from or _weights_from(weights, new),
        assumptions=_assumptions(
            deployed, old, weights_from or _weights_from(weights, new), traffic is not None
        ),
        data=data.fingerprint(),
        versions=versions(),
    )


@dataclass(frozen=True, eq=False)
class _Pair:
    """Two policies on the same items, compared some queries at a time."""

    new: Policy
    production: ProductionPolicy
    data: RankingData
    weights: Floats
    deployed: Deployed

    def exposures(self, part: Part) -> tuple[Floats, Floats, Ints]:
        """Exposures of new and production on some queries, with production's sampling error."""
        offsets = part.data.offsets
        scores = scores_of(self.new, part, "ranker")
        old = self.production.take(part.queries, part.positions, offsets)
        omega = exposure_of(scores, self.weights, offsets, self.deployed, old.filled)
        short = old.shortfall(self.weights, ERROR * part.queries.size / self.data.queries)
        return with_shortfall(omega, old.exposure(self.weights), offsets, short)

    @property
    def total(self) -> Floats:
        """Z of each query."""
        return total_weights(self.data.offsets, self.weights, self.production.filled)

    def facts(self, promise: Promise, shares: Floats) -> tuple[Floats, Curve]:
        """The facts of each query, losses as shares of its Z, and the curves over all queries."""
        total = self.total
        facts = np.empty((self.data.queries, GUARDED + 1))
        mean, guarded, worst = np.zeros(GRID.size), np.zeros(GRID.size), np.zeros(GRID.size)
        with bar("Certifying", self.data.queries) as advance:
            for part in parts(self.data):
                own = part.queries
                omega, omega0, offsets = self.exposures(part)
                scale = np.where(total[own] > 0, total[own], 1.0)
                share = -1.0 if self.production.exact else blind_share(promise.keep, promise.slack)
                limits = (promise.keep, TOLERANCE * float(self.weights.max()), share)
                curves = np.empty((2, own.size, GRID.size))
                block = np.empty((own.size, GUARDED + 1))
                query_facts(
                    own.size, omega, omega0, offsets, promise.slack * total[own], limits, GRID,
                    block, curves[0], curves[1],
                )  # fmt: skip
                block[:, [LOSS, LARGEST, GUARDED]] /= scale[:, None]
                facts[own] = block
                mean += shares[own] @ curves[0]
                guarded += shares[own] @ curves[1]
                worst = np.maximum(worst, (curves[0] / scale[:, None]).max(axis=0))
                advance(own.size)
        points = (GRID, mean, guarded, worst)
        return facts, Curve(*(tuple(values.tolist()) for values in points))


def _first(values: Floats) -> Ints:
    """The queries with the largest values, largest first, ties in their order."""
    return np.argsort(-values, kind="stable")[:LISTED]


def _distribution(facts: Floats, shares: Floats) -> Distribution:
    def percentiles(column: int) -> tuple[float, ...]:
        return tuple(_quantiles(facts[:, column], shares).tolist())

    return Distribution(*map(percentiles, (LOSS, LARGEST, KEPT, RATIO, MIXING)))


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
    deployed: Deployed, production: ProductionPolicy, weights: str, traffic_known: bool
) -> tuple[str, ...]:
    return (
        "Utility adds up over the documents shown: the weight of a rank times a relevance in "
        "[0, 1] that does not depend on the ranking.",
        f"Rank weights: {weights}. The promise is for these weights and for any relevance; users "
        "who look at the ranks in another way are not covered.",
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
