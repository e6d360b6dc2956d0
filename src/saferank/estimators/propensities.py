"""How much production exposed each document: exact from its scores, or averaged from the log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from saferank._core.flat import Floats
from saferank.clicks import ClickModel
from saferank.counts import Counts
from saferank.errors import require
from saferank.policies import ProductionPolicy


@dataclass(frozen=True)
class Propensities:
    """Production's exposure of each document with three rank weights.

    See Also
    --------
    Evidence : holds them.

    Examples
    --------
    >>> import saferank as sr
    >>> policy, model = sr.policies.ProductionPolicy.uniform([0, 4]), sr.clicks.trust_bias(2)
    >>> propensities = sr.estimators.by_policy(policy, model, model.exposure_weights)
    >>> bool(np.allclose(propensities.rho, model.alpha.mean() / 2))
    True
    """

    rho: Floats
    r""":math:`\rho_0`, with alpha: the propensity that IPS divides by."""
    omega: Floats
    r""":math:`\omega_0`, with the metric's weights."""
    seen: Floats
    r"""With alpha + beta: how often a relevant document would be clicked."""

    def clipped(self, sessions: int) -> Propensities:
        r"""For training only: :math:`\rho_0 \leftarrow \max(\rho_0, 10/\sqrt N)`."""
        floor = 10 / np.sqrt(max(sessions, 1))
        return Propensities(np.maximum(self.rho, floor), self.omega, np.maximum(self.seen, floor))


def by_policy(
    policy: ProductionPolicy, click_model: ClickModel, weights: npt.ArrayLike
) -> Propensities:
    """From production's policy, whatever kind it is."""
    return Propensities(
        rho=policy.exposure(click_model.alpha),
        omega=policy.exposure(weights),
        seen=policy.exposure(click_model.alpha + click_model.beta),
    )


def exact(
    production: npt.ArrayLike,
    offsets: npt.ArrayLike,
    click_model: ClickModel,
    weights: npt.ArrayLike,
) -> Propensities:
    """From production's scores, by the exact Plackett-Luce exposure."""
    return by_policy(ProductionPolicy.sampled(production, offsets), click_model, weights)


def from_log(counts: Counts, click_model: ClickModel, weights: npt.ArrayLike) -> Propensities:
    """The Monte-Carlo estimate: the mean weight of the ranks at which a document was shown."""
    require(
        counts.ranks == click_model.ranks,
        "click_model",
        f"of {counts.ranks} ranks",
        click_model.ranks,
    )
    return Propensities(
        rho=counts.mean_weight(click_model.alpha),
        omega=counts.mean_weight(weights),
        seen=counts.mean_weight(click_model.alpha + click_model.beta),
    )
