r"""Intervals that hold at all times at once, however often one looks.

With n observations of mean :math:`\bar x` and variance :math:`\sigma^2`, :math:`V = n\sigma^2` and
a fixed :math:`\rho`,

.. math:: \bar x \pm \frac{1}{n}\sqrt{2\,(V + \rho^{-2})\,
          \log\frac{\sqrt{V\rho^2 + 1}}{\varepsilon}}

holds the true mean at every n with probability :math:`1 - \varepsilon`, as far as sums of the first
`least` observations are normal (Robbins' mixture; Waudby-Smith et al., 2024). It is narrowest at
:math:`V = V^*` for :math:`\rho^2 = (-2\log\varepsilon + \log(-2\log\varepsilon) + 1)/V^*`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from saferank._core.flat import Floats, Ints
from saferank.errors import require


@dataclass(frozen=True, eq=False)
class ConfidenceSequence:
    """Estimate and interval after each look; the true value is in all of them at once."""

    observations: Ints
    estimate: Floats
    lower: Floats
    upper: Floats
    confidence: float


def confidence_sequence(
    observations: npt.ArrayLike,
    sums: npt.ArrayLike,
    squares: npt.ArrayLike,
    *,
    confidence: float = 0.95,
    planned: float = 100_000,
    least: int = 200,
) -> ConfidenceSequence:
    """The sequence at some looks, from what each look adds.

    Parameters
    ----------
    observations, sums, squares : of what came since the look before: how many, their sum, and the
        sum of their squares; one value per look.
    confidence : that the true mean is inside at every look.
    planned : observations at which the interval is to be narrowest; chosen beforehand.
    least : observations before which nothing is said: the interval is unbounded.

    Returns
    -------
    Estimates and bounds, one per look; each bound is the tightest of all looks so far.

    Examples
    --------
    >>> days = confidence_sequence([1000, 1000], [510.0, 505.0], [510.0, 505.0], planned=2000)
    >>> days.estimate.round(4), days.lower.round(3), days.upper.round(3)
    (array([0.51  , 0.5075]), array([0.461, 0.474]), array([0.559, 0.541]))
    """
    require(0.5 < confidence < 1, "confidence", "in (0.5, 1)", confidence)
    require(planned > 0, "planned", "positive", planned)
    n = np.cumsum(np.asarray(observations, dtype=np.int64))
    total, square = np.cumsum(sums), np.cumsum(squares)
    counted = np.maximum(n, 1)
    mean = total / counted
    variance = np.maximum(square / counted - mean**2, 0.0)
    error = 1 - confidence
    ready = (n >= least) & (variance > 0)
    # the scale of the variance is that of the first look that says anything
    scale = variance[np.argmax(ready)] if ready.any() else 1.0
    tightness = -2 * np.log(error)
    rho2 = (tightness + np.log(tightness) + 1) / (planned * scale)
    v = n * variance
    width = np.sqrt(2 * (v + 1 / rho2) * np.log(np.sqrt(v * rho2 + 1) / error)) / counted
    width = np.where(ready, width, np.inf)
    return ConfidenceSequence(
        n,
        np.where(n > 0, mean, np.nan),
        np.maximum.accumulate(mean - width),
        np.minimum.accumulate(mean + width),
        confidence,
    )
