r"""How much each click should weigh in a bound, chosen before the clicks to judge by are seen.

The bound of a mean loss :math:`\sum_d A_d R_d` by weights v (`saferank.evaluation.doubt`) is, if
the predictions :math:`\hat R` are right,

.. math:: \sum_d \Big[\sum_k P_0 v (\alpha_k \hat R + \mu_k)
          + \max\big(0, A - \sum_k P_0 (\alpha^-_k v^+ - \alpha^+_k v^-)\big)\Big]
          + z \sqrt{\textstyle\sum P_0 v^2 s / N}

with the largest and the smallest :math:`\alpha` that are thought possible. :math:`\mu_k` is what a
rank's sum of weights costs because of :math:`\beta`. It is convex in v. For given multipliers of
the root and of the sums it falls apart into documents, and a document's problem has one unknown:
the relevance :math:`\theta` in [0, 1] that would be worst for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saferank._core.flat import Floats
from saferank._core.kernels import parallel_kernel
from saferank.clicks import ClickModel
from saferank.errors import require

STEPS = 12
"""Of the multipliers; each solves every document's problem exactly."""
_NEWTON = 40


@dataclass(frozen=True, eq=False)
class BiasSet:
    r"""Click models :math:`\alpha_k R + \beta_k` around a fitted one, each number in an interval.

    With `per_document` every document has an :math:`\alpha` and a :math:`\beta` of its own at each
    rank; else :math:`\beta` is the rank's. (That :math:`\alpha` is the rank's, too, is not made
    use of: what holds for the larger set holds for it.)
    """

    alpha: Floats
    beta: Floats
    alpha_low: Floats
    alpha_high: Floats
    beta_low: Floats
    beta_high: Floats
    per_document: bool = False

    @classmethod
    def around(cls, model: ClickModel, doubt: float, *, per_document: bool = False) -> BiasSet:
        """Parameters within a factor of 1 - doubt to 1 + doubt, as far as probabilities allow.

        Without bound (`doubt=np.inf`) everything in [0, 1] is possible.

        >>> BiasSet.around(ClickModel([0.5], [0.25]), 0.2).alpha_high
        array([0.6])
        """
        require(doubt >= 0, "doubt", "at least 0", doubt)
        alpha, beta = model.alpha, model.beta
        if np.isinf(doubt):
            none, all_ = np.zeros_like(alpha), np.ones_like(alpha)
            return cls(alpha, beta, none, all_, none, all_, per_document)
        least = max(0.0, 1 - doubt)
        low, beta_low = alpha * least, beta * least
        high = np.minimum(alpha * (1 + doubt), 1 - beta_low)
        beta_high = np.minimum(beta * (1 + doubt), 1 - low)
        # rounding must not take the fitted values out of their own set
        return cls(
            alpha, beta, low, np.maximum(high, alpha), beta_low, np.maximum(beta_high, beta),
            per_document,
        )  # fmt: skip

    def covered(self, weights: Floats, shown: Floats) -> Floats:
        r""":math:`\min_\alpha \sum_k P_0 v \alpha_k` of each document."""
        result: Floats = (shown * self.smallest(weights)).sum(axis=-1)
        return result

    def smallest(self, weights: Floats) -> Floats:
        r""":math:`\min_\alpha v \alpha_k` of each weight."""
        up, down = np.maximum(weights, 0.0), np.minimum(weights, 0.0)
        return up * self.alpha_low + down * self.alpha_high

    def least_trust(self, summed: Floats) -> Floats:
        r""":math:`\max_\beta -\beta\,S` for sums of weights S (last axis: ranks)."""
        result: Floats = np.maximum(-self.beta_low * summed, -self.beta_high * summed)
        return result


@dataclass(frozen=True, eq=False)
class Prospect:
    """What is known before the clicks to judge by: what is shown, how often, and what to expect."""

    shown: Floats
    r""":math:`P_0(d, k)`, documents x ranks."""
    traffic: Floats
    """The share of the sessions that each document's query has."""
    predicted: Floats
    """Relevance of each document."""
    variance: Floats
    """Of a click around its prediction, documents x ranks."""
    sessions: int
    influence: float = 0.2
    """The most that one click may move the mean, in standard errors: normal theory needs many."""

    @property
    def impressions(self) -> Floats:
        """Impressions per session, documents x ranks."""
        return self.traffic[:, None] * self.shown


def choose_weights(
    loss: Floats,
    prospect: Prospect,
    bias: BiasSet,
    quantile: float,
    *,
    start: Multipliers | None = None,
) -> tuple[Floats, Multipliers]:
    """The weights v (documents x ranks) of the smallest bound that is to be expected.

    Parameters
    ----------
    loss
        A, one per document: what its relevance costs.
    prospect, bias
        What is known beforehand, and the click models that are thought possible.
    quantile
        How many standard errors the bound adds (z).
    start
        Multipliers of a problem like this one; fewer steps are then enough.

    Returns
    -------
    tuple
        Weights, and the multipliers that they belong to.
    """
    require(quantile > 0, "quantile", "positive", quantile)
    multipliers = _first(prospect, bias) if start is None else start
    weights = np.zeros_like(prospect.shown)
    best, chosen = _expect(loss, prospect, bias, weights, quantile)[0], (weights, multipliers)
    weights = weights.copy()
    for _ in range(STEPS if start is None else STEPS // 2):
        _solve(loss, prospect, bias, multipliers, weights)
        expected, variance, summed = _expect(loss, prospect, bias, weights, quantile)
        if expected < best:
            best, chosen = expected, (weights.copy(), multipliers)
        multipliers = _next(multipliers, prospect, bias, weights, summed, variance, quantile)
    return chosen


@dataclass(frozen=True, eq=False)
class Multipliers:
    """Of the standard error (what a unit of variance costs), and of each rank's sum of weights."""

    error: float
    trust: Floats
    clip: float
    """The largest weight that leaves normal theory many clicks to rest on."""


def _first(prospect: Prospect, bias: BiasSet) -> Multipliers:
    root = float(np.sqrt(max(prospect.sessions, 1)))
    return Multipliers(0.3 / root, np.zeros_like(bias.alpha), prospect.influence * root)


def _next(
    now: Multipliers, prospect: Prospect, bias: BiasSet, weights: Floats, summed: Floats,
    variance: float, quantile: float,
) -> Multipliers:  # fmt: skip
    """A step towards the error's own multiplier, and one against each rank's sum of weights."""
    spread = float(np.sqrt(max(prospect.sessions * variance, 1e-12)))
    error = float(np.sqrt(now.error * quantile / (2 * spread)))
    active = np.where(weights != 0, prospect.impressions / prospect.variance, 0.0).sum(axis=0)
    step = 0.7 * 2 * error * summed / np.maximum(active, 1e-12)
    trust = np.clip(now.trust + step, bias.beta - bias.beta_high, bias.beta - bias.beta_low)
    clip = prospect.influence * max(spread, 1e-3)
    return Multipliers(error, trust, float(np.sqrt(now.clip * clip)))


def _expect(
    loss: Floats, prospect: Prospect, bias: BiasSet, weights: Floats, quantile: float
) -> tuple[float, float, Floats]:
    """The bound if the predictions are right, variance of one session, each rank's sum."""
    weighed = prospect.impressions * weights
    summed: Floats = weighed.sum(axis=0)
    clicks = float((weighed @ bias.alpha) @ prospect.predicted + bias.beta @ summed)
    rest = np.maximum(0.0, loss - bias.covered(weights, prospect.shown))
    trust = bias.least_trust(weighed if bias.per_document else summed).sum()
    variance = float((weighed * weights * prospect.variance).sum())
    error = quantile * np.sqrt(variance / max(prospect.sessions, 1))
    return clicks + float(prospect.traffic @ rest + trust + error), variance, summed


def _solve(
    loss: Floats, prospect: Prospect, bias: BiasSet, multipliers: Multipliers, weights: Floats,
) -> None:  # fmt: skip
    """Fill `weights` with the solutions of the documents' problems."""
    if bias.per_document:
        up, down = bias.beta - bias.beta_low, bias.beta_high - bias.beta
    else:
        up, down = multipliers.trust, -multipliers.trust
    ranks = np.stack([bias.alpha, bias.alpha_low, bias.alpha_high, up, down])
    limits = (2 * multipliers.error, multipliers.clip)
    _documents(
        loss.size, loss, prospect.shown, prospect.predicted, prospect.variance, ranks, limits,
        weights,
    )  # fmt: skip


@parallel_kernel
def _documents(
    first: int, last: int, loss: Floats, shown: Floats, predicted: Floats, variance: Floats,
    ranks: Floats, limits: tuple[float, float], weights: Floats,
) -> None:  # fmt: skip
    r"""Each document's weights: those of its worst relevance theta, found by guarded Newton steps.

    For a given theta :math:`v = [\theta\alpha^- - \alpha\hat R - up]^+ / (2 \lambda s)`, or minus
    :math:`[\alpha\hat R - down - \theta\alpha^+]^+ / (2 \lambda s)`. What is left of the loss
    falls in theta; theta is 1 where some is left even then, 0 where none is anyway, else its root.
    `ranks` has the rows alpha, lowest and highest alpha, up and down; `limits` 2 lambda, clip.
    """
    curvature, clip = limits
    for d in range(first, last):
        low, high, theta = 0.0, 1.0, 1.0
        for step in range(_NEWTON):
            left, slope = loss[d], 0.0
            for k in range(shown.shape[1]):
                weights[d, k] = 0.0
                if shown[d, k] <= 0:
                    continue
                expected = ranks[0, k] * predicted[d]
                rise = theta * ranks[1, k] - expected - ranks[3, k]
                fall = expected - ranks[4, k] - theta * ranks[2, k]
                scale = 1 / (curvature * variance[d, k])
                if rise > 0:
                    weights[d, k] = min(rise * scale, clip)
                    left -= shown[d, k] * ranks[1, k] * weights[d, k]
                    if rise * scale < clip:
                        slope += shown[d, k] * ranks[1, k] ** 2 * scale
                elif fall > 0:
                    weights[d, k] = -min(fall * scale, clip)
                    left -= shown[d, k] * ranks[2, k] * weights[d, k]
                    if fall * scale < clip:
                        slope += shown[d, k] * ranks[2, k] ** 2 * scale
            settled = (step == 0 and left >= 0) or (step == 1 and left <= 0)
            if settled or abs(left) < 1e-11:
                break
            if left > 0:
                low = theta
            else:
                high = theta
            if high - low < 1e-10:
                break
            theta = 0.0 if step == 0 else theta + left / slope if slope > 0 else -1.0
            if step > 0 and not low < theta < high:
                theta = 0.5 * (low + high)
