"""What the log says of documents, as far as an estimator needs to know."""

from __future__ import annotations

from dataclasses import dataclass

from saferank._core.flat import Floats
from saferank.clicks import ClickModel
from saferank.counts import Counts
from saferank.errors import require
from saferank.estimators.propensities import Propensities


@dataclass(frozen=True)
class Evidence:
    """What the log says: counts, the click model, propensities, and predictions where needed.

    See Also
    --------
    Estimator : takes one.
    """

    counts: Counts
    click_model: ClickModel
    propensities: Propensities
    predictions: Floats | None = None
    r""":math:`\hat R`, from the regression behind DM and DR."""
    shown: Floats | None = None
    """P(document at rank) under production, documents x ranks, where it is needed."""
    labels: Floats | None = None
    """Relevance in [0, 1] of each document, where it is known."""
    features: int = 1
    """Number of features that the predictions rest on."""

    def __post_init__(self) -> None:
        ranks = self.counts.ranks
        require(
            self.click_model.ranks == ranks,
            "click_model",
            f"of {ranks} ranks",
            self.click_model.ranks,
        )
