"""Documents that production showed and the items lack (delisted ones): production is owed them.

What the log says of them is known by query and rank. What was shown at one rank of a query is taken
as one more document of it, which only production shows: its clicks count for production, and the
new ranker has none. Its relevance is the mean of what stood there, so nothing is assumed of it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from saferank._core.flat import Array, Floats
from saferank.counts import Counts
from saferank.estimators import Evidence, Propensities


def with_outside(
    evidence: Evidence, omega: Floats, omega0: Floats, new: Floats, weights: npt.ArrayLike
) -> tuple[Evidence, Floats, Floats]:
    """Evidence and exposures (with `weights`) on the documents and what is outside of them.

    `new` is the share of each query's sessions that get the new ranker; the others see what
    production shows, also outside. As they came, where nothing is.
    """
    counts, click_model = evidence.counts, evidence.click_model
    if counts.outside is None or not counts.outside.any():
        return evidence, omega, omega0
    query, rank = np.nonzero(counts.outside[0])
    shown, clicked = (
        _at_rank(values[query, rank], rank, counts.ranks) for values in counts.outside
    )
    share = shown / np.maximum(counts.sessions, 1)[query][:, None]

    def append_outside(values: Array, rows: Array) -> Array:
        return np.insert(values, counts.offsets[1:][query], rows, axis=0)

    w = np.asarray(weights, dtype=np.float64)
    before = np.searchsorted(query, np.arange(counts.queries + 1))
    wider = Counts(
        counts.offsets + before,
        append_outside(counts.impressions, shown),
        append_outside(counts.clicks, clicked),
        counts.sessions,
        cluster=counts.cluster,
        feedback=counts.feedback,
    )
    propensities = evidence.propensities
    extended = replace(
        evidence,
        counts=wider,
        propensities=Propensities(
            rho=append_outside(propensities.rho, share @ click_model.alpha),
            omega=append_outside(propensities.omega, share @ w),
            seen=append_outside(propensities.seen, share @ click_model.exposure_weights),
        ),
        predictions=None
        if evidence.predictions is None
        else append_outside(evidence.predictions, np.zeros(query.size)),
        shown=None if evidence.shown is None else append_outside(evidence.shown, share),
    )
    outside = share @ w
    served = append_outside(omega, (1 - new[query]) * outside)
    return extended, served, append_outside(omega0, outside)


def _at_rank(values: Array, rank: Array, ranks: int) -> Array:
    """Rows of zeros with one value each, at its rank."""
    rows = np.zeros((values.size, ranks), dtype=values.dtype)
    rows[np.arange(values.size), rank] = values
    return rows
