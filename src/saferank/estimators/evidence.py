"""What the log says of documents, as far as an estimator needs to know."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank.clicks import ClickModel
from saferank.counts import Counts
from saferank.errors import InputError, require
from saferank.estimators.propensities import Propensities


def check_feedback(counted: str, click_model: ClickModel) -> None:
    """Refuse a click model that was fitted to other feedback, unless it is examination alone.

    Once a document is looked at, what happens is a matter of the document: examination is the same
    for clicks and purchases. Clicks out of trust (beta) say nothing of purchases out of trust.
    """
    other = bool(click_model.feedback) and click_model.feedback != counted
    if other and bool(click_model.beta.any()):
        raise InputError(
            f"the click model must be fitted to {counted}, as the counts are; it was fitted to "
            f"{click_model.feedback} and has trust bias. Fit one to these (`saferank bias COUNTS "
            f"-o FILE`), or position bias to clicks (`--kind position`), and give it: --bias FILE."
        )


@dataclass(frozen=True)
class Evidence:
    """What the log says: counts, the click model, propensities, and predictions where needed.

    See Also
    --------
    Estimator : takes one.

    Examples
    --------
    >>> import numpy as np
    >>> import saferank as sr
    >>> items = sr.data.synthetic("small", queries=40, seed=0).train
    >>> model, shown = sr.clicks.trust_bias(), np.zeros(items.documents)
    >>> counts = sr.clicks.simulate(items, shown, model, sessions=20_000, seed=0)
    >>> policy = sr.policies.ProductionPolicy.uniform(items.offsets)
    >>> evidence = Evidence(
    ...     counts, model, sr.estimators.by_policy(policy, model, model.exposure_weights)
    ... )
    >>> sr.estimators.ESTIMATORS["affine-ips"].documents(evidence).shape == (items.documents,)
    True
    """

    counts: Counts
    """Of the sessions to learn from, or to judge by."""
    click_model: ClickModel
    """What a click means."""
    propensities: Propensities
    """Production's exposures, one value per document with each of three rank weights."""
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
        check_feedback(self.counts.feedback.text, self.click_model)

    def subset(self, queries: Ints) -> Evidence:
        """The evidence of the given queries, in the given order."""
        positions, _ = flat.gather(self.counts.offsets, queries)

        def of(values: Floats | None) -> Floats | None:
            return None if values is None else values[positions]

        whole = self.propensities
        return replace(
            self,
            counts=self.counts.subset(queries),
            propensities=Propensities(
                whole.rho[positions],
                whole.omega[positions],
                whole.seen[positions],
            ),
            predictions=of(self.predictions),
            shown=of(self.shown),
            labels=of(self.labels),
        )

    def blocks(self) -> Iterator[tuple[slice, Evidence]]:
        """Some queries at a time: where their documents are, and what the log says of them.

        Tables of all documents and ranks then need never be there at once.
        """
        counts = self.counts
        for first, last in flat.table_ranges(counts.offsets, counts.ranks):
            documents = slice(int(counts.offsets[first]), int(counts.offsets[last]))
            yield documents, self.subset(np.arange(first, last))
