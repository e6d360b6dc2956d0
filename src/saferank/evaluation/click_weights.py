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

The multipliers are a handful of numbers, which a sample of the documents tells about as well as all
of them; any weights are valid, and near the best ones the bound is flat. So of many documents each
problem is solved once, with the multipliers that are best for the sample.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from saferank._core.flat import Floats
from saferank.errors import require
from saferank.evaluation.bias_set import BiasSet
from saferank.evaluation.document_weights import (
    SAMPLE,
    Multipliers,
    Prospect,
    WeightSums,
    solve_documents,
)

STEPS = 12
"""Of the multipliers, at most; each solves every document's problem exactly."""
SETTLED = 0.001
"""Steps end when one gains less than this share of what clicks gain at all."""
FEW = 4
"""With more than so many times the documents of a sample, multipliers are chosen by the sample."""


def choose_weights(
    loss: Floats,
    prospect: Prospect,
    bias: BiasSet,
    quantile: float,
    *,
    start: Multipliers | None = None,
    out: Floats | None = None,
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
    out
        Documents x ranks whose values are no longer needed: weights of many documents lie there.

    Returns
    -------
    tuple
        Weights, and the multipliers that they belong to.
    """
    require(quantile > 0, "quantile", "positive", quantile)
    # what one problem finds must not change where others start
    first = _first(prospect, bias) if start is None else replace(start, theta=start.theta + 0)
    if loss.size <= FEW * SAMPLE:
        return _settle(loss, prospect, bias, quantile, first)
    places, sample = prospect.sample
    few = replace(first, theta=first.theta[places])
    some, settled = _settle(loss[places], sample, bias, quantile, few)
    weights = np.empty_like(prospect.shown) if out is None else out
    weights.fill(0.0)
    chosen = replace(settled, theta=first.theta)
    if some.any():
        solve_documents(loss, prospect, bias, chosen, weights)
    return weights, chosen


def _settle(
    loss: Floats, prospect: Prospect, bias: BiasSet, quantile: float, multipliers: Multipliers
) -> tuple[Floats, Multipliers]:
    """Steps of the multipliers until one gains little; the best weights, and their multipliers."""
    nothing = best = float(prospect.traffic @ np.maximum(0.0, loss))  # no click weighs anything
    weights, chosen = np.zeros_like(prospect.shown), np.zeros_like(prospect.shown)
    settled = multipliers
    for _ in range(STEPS):
        sums = solve_documents(loss, prospect, bias, multipliers, weights)
        expected = sums.bound(prospect, bias, quantile)
        gained, before = best - expected, multipliers
        multipliers = _next(multipliers, prospect, bias, sums, quantile)
        if gained > 0:
            best, settled = expected, before
            weights, chosen = chosen, weights
        if 0 <= gained < SETTLED * (nothing - best):
            break
    return chosen, settled


def _first(prospect: Prospect, bias: BiasSet) -> Multipliers:
    root = float(np.sqrt(max(prospect.sessions, 1)))
    return Multipliers(
        0.3 / root,
        np.zeros_like(bias.alpha),
        prospect.influence * root,
        np.ones(prospect.traffic.size),
    )


def _next(
    now: Multipliers, prospect: Prospect, bias: BiasSet, sums: WeightSums, quantile: float
) -> Multipliers:
    """A step towards the error's own multiplier, and one against each rank's sum of weights."""
    spread = float(np.sqrt(max(prospect.sessions * sums.variance, 1e-12)))
    error = float(np.sqrt(now.error * quantile / (2 * spread)))
    step = 0.7 * 2 * error * sums.weights / np.maximum(sums.active, 1e-12)
    trust = np.clip(now.trust + step, bias.beta - bias.beta_high, bias.beta - bias.beta_low)
    clip = prospect.influence * max(spread, 1e-3)
    return Multipliers(error, trust, float(np.sqrt(now.clip * clip)), now.theta)
