"""Click models around a fitted one: what a doubt takes for possible."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saferank._core.flat import Floats
from saferank.clicks import ClickModel
from saferank.errors import require


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
