r"""How far counts lie from a fitted click model, beyond what chance explains.

.. math:: X^2 = \sum_{d,k} \frac{(c - n p)^2}{n p (1 - p)}

over the cells where both clicks and their absence are expected a few times, p with the most likely
relevance of each document. What X^2 is by chance alone is found by drawing clicks from the fitted
model and treating them alike: textbook degrees of freedom are wrong for sparse cells. With many
sessions the smallest misfit is significant: `size` says how large it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from saferank._core.flat import Floats
from saferank._core.kernels import kernel, parallel_kernel
from saferank._core.seeds import generator
from saferank._core.tails import normal_quantile, student_quantile, student_tail
from saferank.clicks.models import ClickModel
from saferank.errors import InputError

LEAST_EXPECTED = 5.0
SIGNIFICANT = 1e-3
POWER = 0.8
DRAWS = 20
MOST_DOCUMENTS = 100_000


@dataclass(frozen=True)
class Misfit:
    """X^2 of a click model, what chance would make of it, and the size of what is unexplained."""

    statistic: float
    expected: float
    spread: float
    cells: int
    size: float
    """Typical distance of click probabilities from the model (root mean square)."""
    detectable: float = np.inf
    """The typical distance that would have been found with probability `POWER`."""

    untested_since: str = ""
    """Why there is no test, where there is none."""

    @classmethod
    def untested(cls, reason: str) -> Misfit:
        """No test, and why."""
        return cls(0.0, 0.0, 0.0, 0, 0.0, untested_since=reason)

    @property
    def p_value(self) -> float:
        """How likely so large an X^2 is if the model holds."""
        if self.spread == 0:
            return 1.0
        # Mean and spread by chance are themselves those of a few draws: Student's t, not normal.
        error = self.spread * np.sqrt(1 + 1 / DRAWS)
        return float(student_tail((self.statistic - self.expected) / error, DRAWS - 1))

    @property
    def found(self) -> bool:
        """Whether clicks deviate by more than chance."""
        return self.p_value < SIGNIFICANT

    @property
    def verdict(self) -> str:
        """One sentence."""
        if self.untested_since:
            return self.untested_since
        numbers = f"X² {self.statistic:.0f}, by chance {self.expected:.0f} ± {self.spread:.0f}"
        if not self.found:
            return (
                f"No deviation from the click model was found ({numbers}); one that moves click "
                f"probabilities by {self.detectable:.4f} or more, typically, would have been found "
                f"with probability {POWER:.0%} at least."
            )
        return (
            f"The click model does not fit ({numbers}): click probabilities typically lie "
            f"{self.size:.4f} from it; clicks may depend on other documents or on earlier clicks."
        )

    def to_dict(self) -> dict[str, Any]:
        """The test for JSON."""
        return {
            "statistic": self.statistic,
            "expected": self.expected,
            "spread": self.spread,
            "cells": self.cells,
            "p_value": self.p_value,
            "size": self.size,
            "detectable": self.detectable if np.isfinite(self.detectable) else None,
            "found": self.found,
        }


def misfit(
    shown: Floats,
    clicked: Floats,
    model: ClickModel,
    *,
    seed: int = 0,
    most_documents: int = MOST_DOCUMENTS,
    refit: Callable[[Floats], ClickModel] | None = None,
) -> Misfit:
    """Test counts (documents x ranks) against a click model; of many documents, a sample.

    `refit` makes a model of other clicks on the same impressions; it must be given for a model that
    was fitted to these, since X^2 then has the errors of the fit in it too. (Not for a sample: the
    errors of a fit to all documents are small beside what chance makes of so many cells.)
    """
    rng = generator(seed, "misfit")
    several = np.flatnonzero(np.count_nonzero(shown, axis=1) > 1)
    if several.size > most_documents:
        chosen = np.sort(rng.choice(several, most_documents, replace=False))
        shown, clicked, refit = shown[chosen], clicked[chosen], None
    elif refit is None:
        shown, clicked = shown[several], clicked[several]
    probability = _probability(shown, clicked, model)
    distances = _distance(shown, clicked, probability)
    if distances[2] == 0:
        return Misfit.untested(
            "No document has clicks enough at several ranks to test the click model."
        )
    trials = shown.astype(np.int64)
    chance = []
    for _ in range(2 * DRAWS):
        drawn = rng.binomial(trials, probability).astype(np.float64)
        try:
            again = model if refit is None else refit(drawn)
        except InputError:  # one of few clicks, that cannot be fitted
            continue
        chance.append(_distance(shown, drawn, _probability(shown, drawn, again)))
        if len(chance) == DRAWS:
            break
    else:
        return Misfit.untested("The fit is too uncertain for a test of the click model.")
    statistic, squares, cells, weight, information = distances
    usual, usual_squares = np.array(chance)[:, :2].T
    size = np.sqrt(max(0.0, squares - usual_squares.mean()) / weight)
    spread = float(usual.std(ddof=1))
    return Misfit(
        float(statistic),
        float(usual.mean()),
        spread,
        int(cells),
        float(size),
        float(np.sqrt(_needed_shift(spread) / information)),
    )


def _needed_shift(spread: float) -> float:
    """How much larger X^2 must be on average to be called significant with `POWER`."""
    error = spread * np.sqrt(1 + 1 / DRAWS)
    return float((student_quantile(SIGNIFICANT, DRAWS - 1) + normal_quantile(1 - POWER)) * error)


def _probability(shown: Floats, clicked: Floats, model: ClickModel) -> Floats:
    return model.probability(best_relevance(shown, clicked, model.alpha, model.beta))


def _distance(
    shown: Floats, clicked: Floats, probability: Floats
) -> tuple[float, float, int, float, float]:
    """X^2; the sum of n (c/n - p)^2; cells and impressions that they are about; what 1 adds to X^2.

    The last is by how much X^2 grows with the square of a deviation that all cells have.
    """
    expected = shown * probability
    usual = np.minimum(expected, shown - expected) >= LEAST_EXPECTED
    usual &= np.count_nonzero(usual, axis=1)[:, None] > 1
    n, p = shown[usual], probability[usual]
    squares = (clicked[usual] - n * p) ** 2 / n
    statistic = float(np.sum(squares / (p * (1 - p))))
    information = float(np.sum(n / (p * (1 - p))))
    return statistic, float(np.sum(squares)), int(n.size), float(np.sum(n)), information


@parallel_kernel
def _best_of_documents(
    start: int, stop: int, shown: Floats, clicked: Floats, alpha: Floats, beta: Floats, best: Floats
) -> None:
    for document in range(start, stop):
        n, c = shown[document], clicked[document]
        if _slope(n, c, alpha, beta, 0.0)[0] <= 0.0:
            best[document] = 0.0
            continue
        if _slope(n, c, alpha, beta, 1.0)[0] >= 0.0:
            best[document] = 1.0
            continue
        low, high, middle = 0.0, 1.0, 0.5
        for _ in range(60):
            slope, bend = _slope(n, c, alpha, beta, middle)
            if slope > 0.0:
                low = middle
            else:
                high = middle
            after = middle + slope / bend
            if not low < after < high:
                after = 0.5 * (low + high)
            moved = abs(after - middle)
            middle = after
            if moved < 1e-12:
                break
        best[document] = middle


def best_relevance(shown: Floats, clicked: Floats, alpha: Floats, beta: Floats) -> Floats:
    """The most likely R in [0, 1] of each document: where the slope of its likelihood is 0.

    The likelihood is concave in R: Newton's steps, or halving wherever one leaves the bracket.
    """
    best = np.empty(shown.shape[0])
    _best_of_documents(best.size, shown, clicked, alpha, beta, best)
    return best


@kernel
def _slope(
    n: Floats, c: Floats, alpha: Floats, beta: Floats, relevance: float
) -> tuple[float, float]:
    """Slope of a document's log-likelihood in R, and how fast it falls."""
    slope, bend = 0.0, 0.0
    for rank in range(alpha.size):
        if n[rank] > 0.0 and alpha[rank] > 0.0:
            p = alpha[rank] * relevance + beta[rank]
            if c[rank] > 0.0:
                share = alpha[rank] / p if p > 0.0 else np.inf
                slope += c[rank] * share
                bend += c[rank] * share * share
            if c[rank] < n[rank]:
                share = alpha[rank] / (1.0 - p) if p < 1.0 else np.inf
                slope -= (n[rank] - c[rank]) * share
                bend += (n[rank] - c[rank]) * share * share
    return slope, bend
