r"""Bounds of the difference that hide nothing they were not shown.

With :math:`A = \omega_0 - \omega`, for **any** weights v chosen before the clicks are seen,

.. math:: U(\pi_0) - U(\pi) = \sum_d A R =
          \mathbb{E}\Big[\sum_k v_d (c_k - \alpha_k\hat R - \beta_k)\Big]
          + \sum_d \rho_0 v \hat R + \sum_d (A - \rho_0 v) R

With :math:`v = A/\rho_0` nothing is left over and this is doubly robust; clipped at M, the log says
too little of what is left, and relevance in [0, 1] bounds it: charged at its worst (R = 1) where it
loses exposure, without credit (R = 0) where it gains, for a lower bound; the other way round for an
upper one; with :math:`\hat R` in between for the estimate. One mean of independent sessions is
bounded, with a variance of at least what the click model expects for any relevance.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats
from saferank._core.tails import normal_quantile
from saferank.errors import require
from saferank.estimators.session_form import SessionScore
from saferank.evaluation.contrast import Contrast
from saferank.evaluation.intervals import Interval, QueryScores, interval
from saferank.evaluation.measuring import measured_scores
from saferank.evaluation.sessions import session_moments

CLIPS = (1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)
CLIP = 10.0
"""Where no regression tells beforehand which weights pay."""


@dataclass(frozen=True)
class LowerBound:
    """With the stated confidence the true difference to production is at least `lower`."""

    lower: float
    confidence: float
    clip: float
    """Largest weight of a click."""
    sampling: float
    """How much of the way from the centre down to `lower` is sampling error."""
    withheld: float
    """How much was withheld for what the log hardly shows: credit not given, and loss charged."""
    method: str

    def to_dict(self) -> dict[str, Any]:
        """The bound for JSON."""
        return asdict(self)


def lower_bound(
    contrast: Contrast,
    *,
    confidence: float = 0.95,
    method: str = "clustered",
    clip: float | None = None,
    seed: int = 0,
) -> LowerBound:
    """A one-sided lower bound of U(new) - U(production) from sessions that taught nothing to it.

    Parameters
    ----------
    contrast : both policies, and the sessions to judge by.
    confidence : of the bound, in (0.5, 1).
    method : one of `INTERVALS`.
    seed : of the bootstrap.
    clip : largest weight of a click; by default the one that promises the largest bound by the
        predictions, without a look at the clicks.

    Returns
    -------
    LowerBound
        `lower`, and how much of the way down is sampling error, and what was withheld.

    See Also
    --------
    saferank.assess : puts the evidence together.

    Examples
    --------
    >>> import numpy as np
    >>> import saferank as sr
    >>> items = sr.data.synthetic("small", queries=40, seed=0).train
    >>> model, shown = sr.clicks.trust_bias(), np.zeros(items.documents)
    >>> counts = sr.clicks.simulate(items, shown, model, sessions=20_000, seed=0)
    >>> weights = model.exposure_weights
    >>> policy = sr.policies.ProductionPolicy.uniform(items.offsets)
    >>> evidence = sr.estimators.Evidence(
    ...     counts, model, sr.estimators.by_policy(policy, model, weights)
    ... )
    >>> new = sr.plackett_luce.exposure(items.labels, weights, items.offsets)
    >>> bound = lower_bound(sr.evaluation.Contrast(new, policy.exposure(weights), evidence))
    >>> bool(bound.lower > 0)
    True
    """
    require(0.5 < confidence < 1, "confidence", "in (0.5, 1)", confidence)
    require(clip is None or clip > 0, "clip", "positive", clip)
    tail = 1 - confidence
    most = choose_clip(contrast, tail) if clip is None else float(clip)
    terms = _Clipped(contrast, most)
    centre = interval(terms.scores("low"), method, 1 - 2 * tail, seed=seed)
    return LowerBound(
        lower=centre.lower,
        confidence=confidence,
        clip=most,
        sampling=centre.estimate - centre.lower,
        withheld=terms.withheld(),
        method=method,
    )


def clipped_interval(
    contrast: Contrast,
    *,
    clip: float,
    confidence: float = 0.95,
    method: str = "clustered",
    seed: int = 0,
) -> Interval:
    """Estimate and interval of the difference with clipped weights.

    The estimate believes the predictions for what clipping leaves over; the interval does not, and
    reaches from the lower bound of what that may be to the upper one.
    """
    terms = _Clipped(contrast, clip)
    low, middle, high = (
        interval(terms.scores(rest), method, confidence, seed=seed)
        for rest in ("low", "middle", "high")
    )
    return replace(middle, lower=low.lower, upper=high.upper)


def bound_scores(
    contrast: Contrast, *, tail: float
) -> tuple[QueryScores, QueryScores, QueryScores]:
    """Scores whose means are the centres of lower bound, estimate and upper bound.

    For intervals of several candidates at once.
    """
    terms = _Clipped(contrast, choose_clip(contrast, tail))
    return terms.scores("low"), terms.scores("middle"), terms.scores("high")


class _Clipped:
    """The weights v, and what they leave over, for one largest weight."""

    def __init__(self, contrast: Contrast, clip: float) -> None:
        self.rows, self.evidence, self.loss = contrast.rows, contrast.evidence, contrast.loss
        self._between: Floats | None = None
        evidence, loss = self.evidence, self.loss
        rho = evidence.propensities.rho
        ratio = np.divide(loss, rho, out=np.zeros_like(loss), where=rho > 0)
        self.v = np.clip(ratio, -clip, clip)
        self.covered = rho * self.v
        self.predicted = (
            np.zeros_like(loss) if evidence.predictions is None else evidence.predictions
        )
        left = loss - self.covered
        self.rest = {
            "low": np.maximum(0.0, left),
            "middle": left * self.predicted,
            "high": np.minimum(0.0, left),
        }

    def _traffic(self, values: Floats) -> float:
        counts = self.evidence.counts
        share = counts.sessions / max(counts.total, 1)
        return float(share @ flat.query_sums(values, counts.offsets))

    def scores(self, rest: str) -> QueryScores:
        """The difference (not the loss) as a mean of what sessions say, per query."""
        click_model, counts = self.evidence.click_model, self.evidence.counts
        expected = click_model.alpha * self.predicted[:, None] + click_model.beta
        v = self.v[:, None]
        base = -flat.query_sums(self.rest[rest] + self.covered * self.predicted, counts.offsets)
        score = SessionScore(base, v * expected, -v * (1 - expected))
        measured = measured_scores(score, -self.loss, self.evidence, "ranks")
        if self.rows is not None:
            measured = self._by_sessions(score, measured)
        return replace(measured, least_variance=self.variance())

    def _by_sessions(self, score: SessionScore, measured: QueryScores) -> QueryScores:
        """With the variance between sessions: what is left over is a constant of the query."""
        counts = self.evidence.counts
        if self._between is None:
            assert self.rows is not None
            self._between = session_moments(*self.rows, counts, [score], [measured])[0].variance
        variance = np.where(counts.sessions > 1, self._between, measured.variance)
        return replace(measured, variance=variance, variance_from="sessions")

    def centre(self) -> float:
        """The mean of the lower bound's score if the predictions are right."""
        return -self._traffic(self.rest["low"] + self.covered * self.predicted)

    def withheld(self) -> float:
        """What the bound gives away beside sampling error, by the predictions."""
        return self._traffic(self.rest["low"] - self.rest["middle"])

    def variance(self) -> float:
        r"""Variance of one session's score, for the worse of R = 0 and R = 1 of each document.

        :math:`\sum_k P_0(d, k)\,\mathbb{E}(c_k - m_k)^2` with :math:`m = \alpha\hat R + \beta`;
        the square is linear in the click probability, so that one of the two is the largest.
        """
        click_model, counts = self.evidence.click_model, self.evidence.counts
        sessions = flat.repeat_per_document(counts.sessions, counts.offsets)[:, None]
        shown = self.evidence.shown
        if shown is None:
            shown = counts.impressions / np.maximum(sessions, 1)
        m = click_model.alpha * self.predicted[:, None] + click_model.beta
        worst = np.zeros(counts.documents)
        for p in (click_model.beta, click_model.alpha + click_model.beta):
            worst = np.maximum(worst, (shown * (p * (1 - 2 * m) + m**2)).sum(axis=1))
        return self._traffic(self.v**2 * worst)


def choose_clip(contrast: Contrast, tail: float) -> float:
    """The largest weight that promises the best bound, by impressions and predictions alone."""
    if contrast.evidence.predictions is None:
        return CLIP

    def promised(clip: float) -> float:
        terms = _Clipped(contrast, clip)
        error = np.sqrt(terms.variance() / max(contrast.evidence.counts.total, 1))
        return float(terms.centre() - normal_quantile(tail) * error)

    return max(CLIPS, key=promised)
