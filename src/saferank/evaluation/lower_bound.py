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
from operator import itemgetter
from typing import Any

from saferank._core.tails import normal_quantile
from saferank.errors import require
from saferank.evaluation.clipped import ClippedWeights, promised
from saferank.evaluation.contrast import Contrast
from saferank.evaluation.intervals import Interval, QueryScores, interval

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
    terms = ClippedWeights(contrast, most)
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
    terms = ClippedWeights(contrast, clip)
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
    terms = ClippedWeights(contrast, choose_clip(contrast, tail))
    return terms.scores("low"), terms.scores("middle"), terms.scores("high")


def choose_clip(contrast: Contrast, tail: float) -> float:
    """The largest weight that promises the best bound, by impressions and predictions alone."""
    if contrast.evidence.predictions is None:
        return CLIP
    bounds = promised(contrast, CLIPS, float(normal_quantile(tail)))
    return max(zip(CLIPS, bounds, strict=True), key=itemgetter(1))[0]
