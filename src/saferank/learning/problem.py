"""What there is to learn from: the queries that were seen, their propensities and their gains."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank.clicks import ClickModel
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.errors import require
from saferank.estimators import Estimator, Evidence, Propensities
from saferank.estimators.propensities import by_policy, exact, from_log
from saferank.learning.portion import Portion, merge
from saferank.objectives import Terms
from saferank.plackett_luce import exposure
from saferank.policies import ProductionPolicy
from saferank.policies.production import total_weights


@dataclass(frozen=True, eq=False)
class Log:
    """Queries with their counts; production's scores are with the data where they are known."""

    data: RankingData
    counts: Counts
    policy: ProductionPolicy | None = None
    """What production does, where that is not drawing from its scores."""
    predicted: Floats | None = None
    """Predicted relevance of each document, where a predictor was given."""
    logged_by: ProductionPolicy | None = None
    """What made the log, where that was not production alone."""
    portion: Portion | None = None
    """All queries, where these are those of some shards."""

    def __post_init__(self) -> None:
        same = np.array_equal(self.data.offsets, self.counts.offsets)
        require(same, "counts", f"of the data's documents ({self.data!r})", repr(self.counts))

    @property
    def queries(self) -> int:
        """Number of queries, those of other processes too."""
        return self.data.queries if self.portion is None else self.portion.queries

    @property
    def total(self) -> int:
        """N, the sessions of these queries."""
        return int(self.sessions.sum())

    @property
    def sessions(self) -> Ints:
        """Sessions of each query."""
        return self.counts.sessions if self.portion is None else self.portion.sessions

    def clicked(self) -> bool:
        """Whether there is any click."""
        own = bool(self.counts.clicks.any())
        return own if self.portion is None else self.portion.most(float(own)) > 0

    def subset(self, queries: flat.Array) -> Log:
        """Some queries of it; of shards in ascending order, and of those the own."""
        if self.portion is not None:
            chosen = np.asarray(queries, dtype=np.int64)
            own = replace(self, portion=None).subset(self.portion.local(chosen))
            return replace(own, portion=self.portion.subset(chosen))
        policy, logged_by = (
            None if it is None else it.subset(queries) for it in (self.policy, self.logged_by)
        )
        positions, _ = flat.gather(self.data.offsets, np.asarray(queries, dtype=np.int64))
        predicted = None if self.predicted is None else self.predicted[positions]
        counts = self.counts.subset(queries)
        return Log(self.data.subset(queries), counts, policy, predicted, logged_by)

    def shards(self) -> list[Log]:
        """The own shards one by one; without shards all queries.

        Numbers of documents are computed of each by itself: where a row stands in an array may
        change the last bits of what is computed of it.
        """
        if self.portion is None:
            return [self]
        return [self._slice(first, last) for first, last in self.portion.own_shards]

    def _slice(self, first: int, last: int) -> Log:
        """Neighbouring queries by themselves, whose features are a view."""
        chosen = np.arange(first, last)
        cuts = self.data.offsets[first : last + 1]
        rows = slice(int(cuts[0]), int(cuts[-1]))
        data = RankingData(
            self.data.features[rows],
            cuts - cuts[0],
            production=None if self.data.production is None else self.data.production[rows],
            schema=self.data.schema,
        )
        policy = None if self.policy is None else self.policy.subset(chosen)
        return Log(data, self.counts.subset(chosen), policy)

    def seen(self) -> Log:
        """The queries that had sessions: the others carry no weight."""
        visited = self.sessions > 0
        return self if visited.all() else self.subset(np.flatnonzero(visited))

    def share(self) -> Floats:
        """N_q / N."""
        return self.counts.sessions / max(self.total, 1)

    def shown_like(self) -> Floats:
        """Scores that rank as production did: its own, or how often the log shows each document.

        Log-exposures are only a place to start learning from; no propensity is made of them.
        """
        return merge([[shard._shown_like()] for shard in self.shards()])[0]

    def _shown_like(self) -> Floats:
        if self.data.production is not None:
            return self.data.production
        if self.policy is not None and self.policy.kind == "uniform":
            return np.zeros(self.data.documents)  # one list of many says nothing of the others
        weights = 1 / np.arange(1, self.counts.ranks + 1)
        doubt = 0.5 / np.maximum(
            flat.repeat_per_document(self.counts.sessions, self.counts.offsets), 1
        )
        return np.log(self.counts.mean_weight(weights) + doubt)

    def propensities(
        self, click_model: ClickModel, weights: Floats, *, averaged: bool = False
    ) -> Propensities:
        """Exact where production's scores are known, else (or if `averaged`) the log's averages.

        The metric's weights are exact wherever they can be. Averages divide clicks by how often a
        document really was shown, so that no ratio explodes even where nothing is clipped.
        """
        parts = [shard._propensities(click_model, weights, averaged) for shard in self.shards()]
        return Propensities(*merge([(part.rho, part.omega, part.seen) for part in parts]))

    def _propensities(
        self, click_model: ClickModel, weights: Floats, averaged: bool
    ) -> Propensities:
        production, offsets = self.data.production, self.data.offsets
        plain = self.policy is None and self.logged_by is None
        if plain and production is not None and not averaged:
            return exact(production, offsets, click_model, weights)
        if self.logged_by is not None and not averaged:
            observed = by_policy(self.logged_by, click_model, weights)
        else:
            observed = from_log(self.counts, click_model, weights)
        if self.policy is not None:
            return replace(observed, omega=self.policy.exposure(weights))
        if production is None:
            return observed
        return replace(observed, omega=exposure(production, weights, offsets))


def terms(
    log: Log,
    estimator: Estimator,
    click_model: ClickModel,
    weights: Floats,
    propensities: Propensities,
    predictions: Floats | None = None,
) -> Terms:
    """Gains of the documents, by these propensities."""
    evidence = Evidence(log.counts, click_model, propensities, predictions, features=log.data.width)
    parts = [evidence]
    if log.portion is not None:
        parts = [evidence.subset(np.arange(*shard)) for shard in log.portion.own_shards]
    (gain,) = merge([[estimator.documents(part)] for part in parts])
    return Terms(gain, propensities.omega, _totals(log.data.offsets, weights))


def labelled(data: RankingData) -> Log:
    """Full information as a log: every query seen once, and no clicks."""
    counts = Counts.zeros(data.offsets, 1)
    return Log(data, replace(counts, sessions=np.ones(data.queries, dtype=np.int64)))


_SEEN = ClickModel(np.ones(1), np.zeros(1))
"""Of labelled data: who looks at a document learns how relevant it is."""


def label_terms(data: RankingData, estimator: Estimator, weights: Floats, highest: float) -> Terms:
    """Gains from labels, the highest grade being 1."""
    production = np.zeros(data.documents) if data.production is None else data.production
    omega0 = exposure(production, weights, data.offsets)
    relevance = data.known_labels.astype(np.float64) / highest
    everywhere = Propensities(omega0, omega0, omega0)
    evidence = Evidence(labelled(data).counts, _SEEN, everywhere, labels=relevance)
    return Terms(estimator.documents(evidence), omega0, _totals(data.offsets, weights))


def _totals(offsets: flat.Ints, weights: Floats) -> Floats:
    """Z of each document's query."""
    return flat.repeat_per_document(total_weights(offsets, weights), offsets)
