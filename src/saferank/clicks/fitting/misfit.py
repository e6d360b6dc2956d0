r"""How far counts lie from a fitted click model, beyond what chance explains.

.. math:: X^2 = \sum_{d,k} \frac{(c - n p)^2}{n p (1 - p)}

over the cells where both clicks and their absence are expected often enough. If the model holds,
X^2 has a chi-square law with as many degrees of freedom as cells less fitted numbers. With many
sessions the smallest misfit is significant: `size` says how large it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from saferank.flat import Floats

LEAST_EXPECTED = 5.0
SIGNIFICANT = 1e-3


@dataclass(frozen=True)
class Misfit:
    """The chi-square test of a click model, and the size of what it does not explain."""

    statistic: float
    freedom: int
    p_value: float
    size: float
    """Typical distance of click probabilities from the model (root mean square)."""

    @property
    def found(self) -> bool:
        """Whether clicks deviate by more than chance."""
        return self.p_value < SIGNIFICANT

    @property
    def verdict(self) -> str:
        """One sentence."""
        if self.freedom == 0:
            return "There are too few clicks to test the click model."
        ratio = f"chi-square {self.statistic:.0f} with {self.freedom} degrees of freedom"
        if not self.found:
            return f"The click model fits ({ratio})."
        return (
            f"The click model does not fit ({ratio}): click probabilities typically lie "
            f"{self.size:.4f} from it. Clicks may depend on other documents or earlier clicks."
        )

    def record(self) -> dict[str, Any]:
        """The test for JSON."""
        return {
            "statistic": self.statistic,
            "freedom": self.freedom,
            "p_value": self.p_value,
            "size": self.size,
            "found": self.found,
        }


def misfit(
    shown: Floats,
    clicked: Floats,
    probability: Floats,
    *,
    rates: int,
    relevances: int | None = None,
) -> Misfit:
    """Test counts (documents x ranks) against probabilities for which `rates` numbers were fitted.

    `relevances` more were fitted for all documents; None: one for each document.
    """
    expected = shown * probability
    usual = np.minimum(expected, shown - expected) >= LEAST_EXPECTED
    documents = int(np.count_nonzero(usual.any(axis=1))) if relevances is None else relevances
    freedom = int(np.count_nonzero(usual)) - documents - rates
    if freedom <= 0:
        return Misfit(0.0, 0, 1.0, 0.0)
    n, p = shown[usual], probability[usual]
    away = (clicked[usual] - n * p) ** 2 / n
    statistic = float(np.sum(away / (p * (1 - p))))
    chance = freedom / np.count_nonzero(usual) * float(np.sum(p * (1 - p)))
    size = float(np.sqrt(max(0.0, (np.sum(away) - chance) / n.sum())))
    return Misfit(statistic, freedom, float(stats.chi2.sf(statistic, freedom)), size)
