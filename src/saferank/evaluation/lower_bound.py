r"""The bound that decides: a lower bound of the difference that hides nothing it was not shown.

With :math:`A = \omega_0 - \omega`, for **any** weights v chosen before the clicks are seen,

.. math:: U(\pi_0) - U(\pi) = \sum_d A R \le
          \mathbb{E}\Big[\sum_k v_d (c_k - \alpha_k\hat R - \beta_k)\Big]
          + \sum_d \rho_0 v \hat R + \sum_d \max(0, A - \rho_0 v)

as relevance lies in [0, 1]. With :math:`v = A/\rho_0` this is doubly robust; clipped at M, what the
log hardly shows is charged at its worst (R = 1) where it loses exposure and gets no credit (R = 0)
where it gains, instead of a huge weight. One mean of independent sessions is bounded.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

from saferank import flat
from saferank.errors import require
from saferank.evaluation.intervals import QueryScores, interval
from saferank.evaluation.measuring import measured_scores
from saferank.evaluation.session_scores import SessionScore
from saferank.flat import Floats
from saferank.gains import Evidence

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

    def record(self) -> dict[str, Any]:
        """The bound for JSON."""
        return asdict(self)


def lower_bound(
    omega: Floats,
    omega0: Floats,
    known: Evidence,
    *,
    confidence: float = 0.95,
    method: str = "clustered",
    clip: float | None = None,
    seed: int = 0,
) -> LowerBound:
    """A one-sided lower bound of U(new) - U(production) from sessions that taught nothing to it.

    Parameters
    ----------
    omega, omega0 : exposures of the new policy and of production, one per document.
    known : counts of the sessions to judge by, click model, propensities; predictions where a
        regression on other sessions has made them.
    confidence : of the bound, in (0.5, 1).
    method : one of `INTERVALS`.
    clip : largest weight of a click; by default the one that promises the largest bound by the
        predictions, without a look at the clicks.
    """
    require(0.5 < confidence < 1, "confidence", "in (0.5, 1)", confidence)
    require(clip is None or clip > 0, "clip", "positive", clip)
    tail = 1 - confidence
    most = choose_clip(omega0 - omega, known, tail) if clip is None else float(clip)
    terms = _Clipped(omega0 - omega, known, most)
    scores = measured_scores(terms.score(), omega - omega0, known, "ranks")
    found = interval(scores, method, 1 - 2 * tail, seed=seed)
    return LowerBound(
        lower=found.lower,
        confidence=confidence,
        clip=most,
        sampling=found.estimate - found.lower,
        withheld=terms.withheld(),
        method=method,
    )


def bound_scores(omega: Floats, omega0: Floats, known: Evidence, *, tail: float) -> QueryScores:
    """The scores whose mean is the bound's centre, for bounds of several candidates at once."""
    clip = choose_clip(omega0 - omega, known, tail)
    score = _Clipped(omega0 - omega, known, clip).score()
    return measured_scores(score, omega - omega0, known, "ranks")


class _Clipped:
    """The weights v, and what they leave over, for one largest weight."""

    def __init__(self, loss: Floats, known: Evidence, clip: float) -> None:
        rho = known.propensities.rho
        self.known, self.loss = known, loss
        ratio = np.divide(loss, rho, out=np.zeros_like(loss), where=rho > 0)
        self.v = np.clip(ratio, -clip, clip)
        self.covered = rho * self.v
        self.predicted = np.zeros_like(loss) if known.predictions is None else known.predictions
        self.charged = np.maximum(0.0, loss - self.covered)

    def _traffic(self, values: Floats) -> float:
        counts = self.known.counts
        share = counts.sessions / max(counts.total, 1)
        return float(share @ flat.query_sums(values, counts.offsets))

    def score(self) -> SessionScore:
        """The bound as a mean of what sessions say, for the difference (not the loss)."""
        users, counts = self.known.users, self.known.counts
        expected = users.alpha * self.predicted[:, None] + users.beta
        v = self.v[:, None]
        base = -flat.query_sums(self.charged + self.covered * self.predicted, counts.offsets)
        return SessionScore(base, v * expected, -v * (1 - expected))

    def centre(self) -> float:
        """The mean of the score if the predictions are right."""
        return -self._traffic(self.charged + self.covered * self.predicted)

    def withheld(self) -> float:
        """What the bound gives away beside sampling error, by the predictions."""
        left = self.loss - self.covered
        return self._traffic(np.maximum(left, 0) - left * self.predicted)

    def variance(self) -> float:
        """Variance of one session's score if the predictions are right, between ranks none."""
        users, counts = self.known.users, self.known.counts
        expected = users.alpha * self.predicted[:, None] + users.beta
        noise = (counts.impressions * expected * (1 - expected)).sum(axis=1)
        return float((self.v**2 * noise).sum() / max(counts.total, 1))


def choose_clip(loss: Floats, known: Evidence, tail: float) -> float:
    """The largest weight that promises the best bound, by impressions and predictions alone."""
    if known.predictions is None:
        return CLIP

    def promised(clip: float) -> float:
        terms = _Clipped(loss, known, clip)
        error = np.sqrt(terms.variance() / max(known.counts.total, 1))
        return float(terms.centre() - norm.isf(tail) * error)

    return max(CLIPS, key=promised)
