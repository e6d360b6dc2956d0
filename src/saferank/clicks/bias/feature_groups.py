"""Relevance by features: one logistic model for all documents, learned inside EM."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from saferank._core.flat import Floats, require_each
from saferank.clicks.bias.em import Cells
from saferank.errors import require


def standardised(features: npt.ArrayLike) -> Floats:
    """Features with mean 0 and spread 1, those without spread left out, and a column of ones."""
    x = np.asarray(features, dtype=np.float64)
    require(x.ndim == 2, "features", "of shape (documents, features)", x.shape)
    require_each(np.isfinite(x), "features", "finite", x)
    spread = x.std(axis=0)
    varied = spread > 0
    scaled = (x[:, varied] - x[:, varied].mean(axis=0)) / spread[varied]
    return np.column_stack([scaled, np.ones(x.shape[0])])


class Logistic:
    r"""R = sigmoid(w x): documents share weights, so that ranks are linked by alike documents.

    Each update is one step on the bound of Böhning & Lindsay (1988): the logistic Hessian is never
    more than a quarter of X'X, which is factored once; no step lowers the likelihood.
    """

    def __init__(self, x: Floats, cells: Cells, *, ridge: float = 1e-7) -> None:
        from scipy.linalg import cho_factor

        self.x, self.ridge = x, ridge
        self.shown = cells.weight * cells.shown.sum(axis=1)
        self.total = max(1.0, float(self.shown.sum()))
        share = self.shown / self.total
        bound = (x * share[:, None]).T @ x / 4 + ridge * np.eye(x.shape[1])
        self.factor = cho_factor(bound)

    def start(self, cells: Cells) -> Floats:
        """R = 1/2 for all."""
        del cells
        return np.zeros(self.x.shape[1])

    def values(self, parameters: Floats) -> Floats:
        """R of each document."""
        return np.asarray(expit(np.clip(self.x @ parameters, -20.0, 20.0)))

    def updated(self, parameters: Floats, expected: Floats, cells: Cells) -> Floats:
        """A step of the logistic regression of expected relevance."""
        from scipy.linalg import cho_solve

        error = cells.weight * expected - self.shown * self.values(parameters)
        slope = self.x.T @ error / self.total - self.ridge * parameters
        better: Floats = parameters + cho_solve(self.factor, slope)
        return better

    def allowed(self, parameters: Floats, observed: Floats) -> Floats:
        """Any weights may be."""
        del observed
        return parameters
