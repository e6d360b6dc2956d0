r"""Weights of clicks up to a largest one, and what they leave over: sums per query.

What `saferank.evaluation.lower_bound` needs of weights :math:`v = [A/\rho_0]_{-M}^{M}` are some
numbers per query. Tables of documents and ranks are made for some queries at a time only, and once
for all that is asked of the same weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats
from saferank.estimators.session_form import SessionScore
from saferank.evaluation.contrast import Contrast
from saferank.evaluation.intervals import QueryScores
from saferank.evaluation.measuring import Said, variance_bound
from saferank.evaluation.sessions import session_moments

Rest = Literal["low", "middle", "high"]
"""What is left over, charged for a lower bound, an estimate, an upper bound."""


@dataclass(frozen=True, eq=False)
class Clipped:
    """What weights up to a largest one come to, one value per query."""

    low: Floats
    """What every session of a query says, for a lower bound."""
    middle: Floats
    high: Floats
    withheld: Floats
    """What the lower bound gives away, by the predictions."""
    spread: Floats
    """Variance of one session's score, at its worst."""

    @classmethod
    def join(cls, parts: Sequence[Clipped]) -> Clipped:
        """That of queries which follow each other."""
        names = ("low", "middle", "high", "withheld", "spread")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


class _Queries:
    """Some queries of a contrast, before weights have a largest one."""

    def __init__(self, contrast: Contrast) -> None:
        self.evidence, self.loss = contrast.evidence, contrast.loss
        self.offsets = self.evidence.counts.offsets
        self.rho = self.evidence.propensities.rho
        self.ratio = np.divide(
            self.loss, self.rho, out=np.zeros_like(self.loss), where=self.rho > 0
        )
        known = self.evidence.predictions
        self.predicted = np.zeros_like(self.loss) if known is None else known

    @cached_property
    def expected(self) -> Floats:
        r"""Predicted clicks per impression, :math:`m = \alpha\hat R + \beta`: documents x ranks."""
        model = self.evidence.click_model
        chances: Floats = model.alpha * self.predicted[:, None] + model.beta
        return chances

    @cached_property
    def worst(self) -> Floats:
        r"""Variance of a session's clicks on each document, for the worse of R = 0 and R = 1.

        :math:`\sum_k P_0(d, k)\,\mathbb{E}(c_k - m_k)^2`; the square is linear in the click
        probability, so that one of the two is the largest.
        """
        counts, model, m = self.evidence.counts, self.evidence.click_model, self.expected
        shown = self.evidence.shown
        if shown is None:
            sessions = flat.repeat_per_document(counts.sessions, counts.offsets)[:, None]
            shown = counts.impressions / np.maximum(sessions, 1)
        worst = np.zeros(counts.documents)
        for p in (model.beta, model.alpha + model.beta):
            worst = np.maximum(worst, (shown * (p * (1 - 2 * m) + m**2)).sum(axis=1))
        return worst

    def weights(self, clip: float) -> Floats:
        """One per document."""
        return np.clip(self.ratio, -clip, clip)

    def clipped(self, clip: float) -> Clipped:
        """What is left over of the loss, and what is asked of clicks."""
        v = self.weights(clip)
        covered = self.rho * v
        left = self.loss - covered
        charged, given = np.maximum(0.0, left), left * self.predicted
        told = covered * self.predicted
        low, middle, high = (
            -flat.query_sums(rest + told, self.offsets)
            for rest in (charged, given, np.minimum(0.0, left))
        )
        withheld = flat.query_sums(charged - given, self.offsets)
        return Clipped(
            low, middle, high, withheld, flat.query_sums(v**2 * self.worst, self.offsets)
        )

    def score(self, clip: float, base: Floats) -> SessionScore:
        """What sessions say of the difference (not of the loss)."""
        v = self.weights(clip)[:, None]
        return SessionScore(base, v * self.expected, -v * (1 - self.expected))


class ClippedWeights:
    """The weights for one largest weight."""

    def __init__(self, contrast: Contrast, clip: float) -> None:
        self.contrast, self.clip = contrast, clip
        parts, said = [], []
        for queries in map(_Queries, contrast.blocks()):
            parts.append(queries.clipped(clip))
            said.append(Said.of(queries.score(clip, parts[-1].low), queries.evidence.counts))
        self.terms, self.said = Clipped.join(parts), Said.join(said)

    def scores(self, rest: Rest) -> QueryScores:
        """The difference (not the loss) as a mean of what sessions say, per query."""
        evidence, base = self.contrast.evidence, getattr(self.terms, rest)
        bound = variance_bound(-self.contrast.loss, evidence)
        measured = self.said.scores(base, evidence.counts, bound)
        if self.contrast.rows is not None:
            variance = np.where(evidence.counts.sessions > 1, self._between, measured.variance)
            measured = replace(measured, variance=variance, variance_from="sessions")
        return replace(measured, least_variance=self._mean(self.terms.spread))

    @cached_property
    def _between(self) -> Floats:
        """The variance between sessions: what is left over is a constant of the query."""
        assert self.contrast.rows is not None
        evidence, base = self.contrast.evidence, self.terms.low
        score = _Queries(self.contrast).score(self.clip, base)
        measured = self.said.scores(base, evidence.counts, np.zeros(base.size))
        return session_moments(*self.contrast.rows, evidence.counts, [score], [measured])[
            0
        ].variance

    def withheld(self) -> float:
        """What the bound gives away beside sampling error, by the predictions."""
        return self._mean(self.terms.withheld)

    def _mean(self, values: Floats) -> float:
        return mean_of_sessions(self.contrast, values)


def mean_of_sessions(contrast: Contrast, values: Floats) -> float:
    """The mean over sessions of one value per query."""
    counts = contrast.evidence.counts
    return float(counts.sessions / max(counts.total, 1) @ values)


def promised(contrast: Contrast, clips: Sequence[float], quantile: float) -> list[float]:
    """The lower bound that each largest weight promises, by impressions and predictions alone."""
    parts: list[list[Clipped]] = [[] for _ in clips]
    for queries in map(_Queries, contrast.blocks()):
        for clip, own in zip(clips, parts, strict=True):
            own.append(queries.clipped(clip))
    total = max(contrast.evidence.counts.total, 1)
    bounds = []
    for terms in map(Clipped.join, parts):
        error = np.sqrt(mean_of_sessions(contrast, terms.spread) / total)
        bounds.append(float(mean_of_sessions(contrast, terms.low) - quantile * error))
    return bounds
