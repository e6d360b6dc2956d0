"""What counts tell of the scores of sessions: mean, variance and range of each query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats
from saferank.counts import Counts
from saferank.errors import require
from saferank.estimators import Evidence
from saferank.estimators.session_form import SessionScore, rank_covariances
from saferank.evaluation.intervals import QueryScores

Variance = Literal["ranks", "bound"]


def measured_scores(
    score: SessionScore, omega: Floats, evidence: Evidence, variance: Variance
) -> QueryScores:
    """What is known of each query from its counts: mean, variance, range and the bound."""
    return count_moments(score, evidence.counts, variance_bound(omega, evidence), variance)


def count_moments(
    score: SessionScore, counts: Counts, bound: Floats, variance: Variance = "ranks"
) -> QueryScores:
    """The same with a bound of the variance of one session that is known already."""
    return Said.of(score, counts, variance).scores(score.base, counts, bound)


@dataclass(frozen=True, eq=False)
class Said:
    """What sessions of each query say on top of its base."""

    mean: Floats
    spread: Floats
    """Variance between the sessions, as they are."""
    low: Floats
    """A session can say this at least, and `high` at most."""
    high: Floats
    variance: Variance

    @classmethod
    def of(cls, score: SessionScore, counts: Counts, variance: Variance = "ranks") -> Said:
        """What counts tell of a score."""
        at_rank = np.maximum(rank_covariances(score, score, counts), 0.0)
        require(variance in ("ranks", "bound"), "variance", "'ranks' or 'bound'", variance)
        spread = at_rank.sum(axis=1) if variance == "ranks" else np.sqrt(at_rank).sum(axis=1) ** 2
        return cls(score.rank_means(counts).sum(axis=1), spread, *_range(score, counts), variance)

    @classmethod
    def join(cls, parts: Sequence[Said]) -> Said:
        """That of queries which follow each other."""
        mean, spread, low, high = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("mean", "spread", "low", "high")
        )
        return cls(mean, spread, low, high, parts[0].variance)

    def scores(self, base: Floats, counts: Counts, bound: Floats) -> QueryScores:
        """Scores of sessions that say this on top of a base of their query."""
        means = base + self.mean
        estimate = counts.sessions @ means / max(counts.total, 1)
        # One session says nothing of its query's variance: its distance to all others errs upwards.
        alone = counts.sessions <= 1
        within = self.spread * counts.sessions / np.maximum(counts.sessions - 1, 1)
        within[alone] = (means[alone] - estimate) ** 2
        return QueryScores(
            counts.sessions, means, within, base + self.low, base + self.high, bound,
            self.variance, cluster=counts.cluster,
        )  # fmt: skip


def _range(score: SessionScore, counts: Counts) -> tuple[Floats, Floats]:
    """What a session of each query can say at least and at most; a rank may be empty."""
    low, high = np.zeros(counts.queries), np.zeros(counts.queries)
    filled = np.diff(counts.offsets) > 0
    starts = counts.offsets[:-1][filled]
    if starts.size:
        least = np.minimum(np.minimum(score.missed, score.clicked), 0.0)
        most = np.maximum(np.maximum(score.missed, score.clicked), 0.0)
        low[filled] = np.minimum.reduceat(least, starts, axis=0).sum(axis=1)
        high[filled] = np.maximum.reduceat(most, starts, axis=0).sum(axis=1)
    return low, high


def variance_bound(omega: Floats, evidence: Evidence) -> Floats:
    r"""The paper's bound of one session's variance: :math:`2 C^2 \sum_d \omega^2/\omega_0`."""
    click_model, seen = evidence.click_model, evidence.propensities.seen
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(omega != 0, omega**2 / seen, 0.0)
    return np.asarray(
        2 * click_model.trust_spread**2 * flat.query_sums(terms, evidence.counts.offsets),
        dtype=np.float64,
    )
