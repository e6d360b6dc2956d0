"""Documents that production showed and the items lack (delisted ones): production is owed them.

What the log says of them is known by query and rank. They are taken as one more document of their
query, which only production shows: its clicks count for production, and the new ranker has none.
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
    production shows, also outside. As they came, where nothing is. Exact for the weights alpha,
    in clicks; with others as far as the outside documents of a query are alike.
    """
    counts, click_model = evidence.counts, evidence.click_model
    if counts.outside is None or not counts.outside.any():
        return evidence, omega, omega0
    ends = counts.offsets[1:]
    shown, clicked = counts.outside
    share = shown / np.maximum(counts.sessions, 1)[:, None]

    def append_outside(values: Array, added: Array) -> Array:
        return np.insert(values, ends, added, axis=0)

    both = click_model.alpha + click_model.beta
    propensities = evidence.propensities
    w = np.asarray(weights, dtype=np.float64)
    nothing = np.zeros(counts.queries)
    wider = Counts(
        counts.offsets + np.arange(counts.queries + 1),
        append_outside(counts.impressions, shown),
        append_outside(counts.clicks, clicked),
        counts.sessions,
    )
    extended = replace(
        evidence,
        counts=wider,
        propensities=Propensities(
            rho=append_outside(propensities.rho, share @ click_model.alpha),
            omega=append_outside(propensities.omega, share @ w),
            seen=append_outside(propensities.seen, share @ both),
        ),
        predictions=None
        if evidence.predictions is None
        else append_outside(evidence.predictions, nothing),
        shown=None if evidence.shown is None else append_outside(evidence.shown, share),
    )
    outside = share @ w
    return extended, append_outside(omega, (1 - new) * outside), append_outside(omega0, outside)
