r"""The scale that clicks can identify, and how a click model is put on it.

Clicks show products of bias and relevance only. With :math:`R = m R' + c`,

.. math:: \alpha_k R + \beta_k = (m\,\alpha_k) R' + (\beta_k + c\,\alpha_k),

so every pair (m, c) that keeps probabilities in [0, 1] tells the same clicks (position bias has
beta = 0, which leaves m only). What does not depend on the pair is how the click probability at one
rank follows from that at another, the reference rank r:

.. math:: P_k = A_k P_r + B_k, \qquad A_k = \alpha_k / \alpha_r, \quad
          B_k = \beta_k - A_k \beta_r.

That is the *canonical* form: relevance is measured as the click probability at the reference rank.
A learner needs alpha and beta, and so a scale, and most depend on it: see docs/clicks.md. The one
taken is the *widest*: the only one on which no document that the log could show has a relevance
outside [0, 1]. In other words R = 0 is a document that is never clicked at the rank where beta
counts least beside alpha (there beta = 0), which is the canonical form at that rank up to a factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from saferank._core.flat import Floats
from saferank.clicks.models import ClickModel
from saferank.errors import InputError, require

_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Canonical:
    """Click probability of a document at each rank, from that at the reference rank."""

    slope: Floats
    intercept: Floats

    @property
    def ranks(self) -> int:
        """K, the number of ranks."""
        return int(self.slope.size)

    def level(self, at_reference: float) -> Floats:
        """Click probability at each rank of a document that has `at_reference` at the reference.

        >>> canonical(ClickModel([0.4, 0.2], [0.2, 0.2])).level(0.5)
        array([0.5 , 0.35])
        """
        return self.slope * at_reference + self.intercept

    def model(self, low: float, high: float) -> ClickModel:
        """The click model whose R = 0 and R = 1 are click probabilities `low`, `high` there.

        >>> canonical(ClickModel([0.5, 0.25], [0.5, 0.25])).model(0.5, 1.0)
        ClickModel(alpha=[0.5, 0.25], beta=[0.5, 0.25])
        """
        require(low < high, "low", f"below high, which is {high}", low)
        alpha = self.slope * (high - low)
        beta = self.slope * low + self.intercept
        outside = np.flatnonzero((beta < -_ROUNDING) | (alpha + beta > 1 + _ROUNDING))
        if outside.size:
            rank = int(outside[0])
            raise InputError(
                f"`low` and `high` must leave probabilities at every rank; got {low:.4g} and "
                f"{high:.4g}, which are {beta[rank]:.4g} and {alpha[rank] + beta[rank]:.4g} at "
                f"rank {rank + 1}."
            )
        return ClickModel(_settled(alpha), np.minimum(_settled(beta), 1 - _settled(alpha)))

    def widest(self, *, through_zero: bool) -> ClickModel:
        """The model with the widest range of relevance that probabilities allow.

        Some beta is then 0 and some alpha + beta is 1. With `through_zero` (position bias) R = 0 is
        never clicked, and the largest alpha is 1.
        """
        shown = np.isfinite(self.slope)
        slope, intercept = self.slope[shown], self.intercept[shown]
        if not np.all(slope > 0):
            raise InputError(
                "the fitted click probability must rise with relevance at every rank; it does not "
                "at some: there are too few clicks there, or users of another kind."
            )
        low = 0.0 if through_zero else float(np.max(-intercept / slope))
        high = float(np.min((1 - intercept) / slope))
        if not low < high:
            raise InputError(
                "no scale of relevance turns the fitted lines into probabilities at every rank: "
                "there are too few clicks, or users of another kind."
            )
        return self.model(low, high)


class LeftOut(NamedTuple):
    """Slopes and intercepts of fits that each leave out one part of the log (rows)."""

    slope: Floats
    intercept: Floats


def canonical(model: ClickModel, reference: int = 1) -> Canonical:
    """The canonical form of a click model; compare a fit with the truth in this form.

    Parameters
    ----------
    model
        A click model of K ranks.
    reference
        The rank whose click probability the others are told by.

    Returns
    -------
    Canonical
        Slope and intercept of each rank, shape (K,).

    Examples
    --------
    >>> canonical(ClickModel([0.4, 0.2], [0.2, 0.2]))
    Canonical(slope=array([1. , 0.5]), intercept=array([0. , 0.1]))
    """
    require(1 <= reference <= model.ranks, "reference", f"in 1..{model.ranks}", reference)
    base = reference - 1
    require(model.alpha[base] > 0, "alpha", f"positive at rank {reference}", model.alpha[base])
    slope = model.alpha / model.alpha[base]
    return Canonical(slope, model.beta - slope * model.beta[base])


def _settled(values: Floats) -> Floats:
    """Probabilities without the rounding errors that touch the ends; ranks never shown get 0."""
    inside = np.clip(np.nan_to_num(values, nan=0.0), 0.0, 1.0)
    return np.where(inside < 1e-12, 0.0, inside)
