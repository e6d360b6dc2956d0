r"""Objectives in the probability ratio :math:`\pi(y)/\pi_0(y)` of whole rankings: the baselines.

The paper names them unfit for ranking: whole rankings are so many that their ratios explode.
Expectations are over rankings drawn from production; `reward` is :math:`\sum_k w_k \mu(y_k)`.
Rows are queries, columns the drawn rankings.
"""

from __future__ import annotations

import numpy as np

from saferank._core.flat import Floats
from saferank._core.value_slope import ValueSlope
from saferank.errors import require


def importance(ratio: Floats, reward: Floats) -> ValueSlope:
    r"""The IPS term of a ranking: :math:`\frac{\pi(y)}{\pi_0(y)} r(y)`."""
    return ValueSlope(ratio * reward, reward)


def ppo(ratio: Floats, reward: Floats, *, epsilon: float) -> ValueSlope:
    r"""Proximal policy optimisation: :math:`\min(x\,r, g(\epsilon, r))`, x the ratio.

    :math:`g = (1+\epsilon) r` for :math:`r \ge 0`, else :math:`(1-\epsilon) r`.
    """
    require(epsilon >= 0, "epsilon", "at least 0", epsilon)
    bound = np.where(reward >= 0, 1 + epsilon, 1 - epsilon) * reward
    value = np.minimum(ratio * reward, bound)
    return ValueSlope(value, np.where(ratio * reward < bound, reward, 0.0))


def variance(ratio: Floats, reward: Floats) -> ValueSlope:
    r"""POEM's risk: the variance of the IPS terms over the rankings of a query."""
    terms = ratio * reward
    centred = terms - terms.mean(axis=1, keepdims=True)
    return ValueSlope(centred**2, 2 * centred * reward)


def divergence(ratio: Floats, reward: Floats) -> ValueSlope:
    r"""VCRM's risk: the Rényi divergence :math:`\mathbb{E}_{\pi_0}[(\pi/\pi_0)^2]`."""
    del reward
    return ValueSlope(ratio**2, 2 * ratio)
