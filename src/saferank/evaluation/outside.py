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
    known: Evidence, omega: Floats, omega0: Floats, new: Floats, weights: npt.ArrayLike
) -> tuple[Evidence, Floats, Floats]:
    """Evidence and exposures (with `weights`) on the documents and what is outside of them.

    `new` is the share of each query's sessions that get the new ranker; the others see what
    production shows, also outside. As they came, where nothing is. Exact for the weights alpha,
    in clicks; with others as far as the outside documents of a query are alike.
    """
    counts, users = known.counts, known.users
    if counts.outside is None or not counts.outside.any():
        return known, omega, omega0
    ends = counts.offsets[1:]
    shown, clicked = counts.outside
    share = shown / np.maximum(counts.sessions, 1)[:, None]

    def joined(values: Array, added: Array) -> Array:
        return np.insert(values, ends, added, axis=0)

    both = users.alpha + users.beta
    told = known.propensities
    w = np.asarray(weights, dtype=np.float64)
    nothing = np.zeros(counts.queries)
    wider = Counts(
        counts.offsets + np.arange(counts.queries + 1),
        joined(counts.impressions, shown),
        joined(counts.clicks, clicked),
        counts.sessions,
    )
    evidence = replace(
        known,
        counts=wider,
        propensities=Propensities(
            rho=joined(told.rho, share @ users.alpha),
            omega=joined(told.omega, share @ w),
            seen=joined(told.seen, share @ both),
        ),
        predictions=None if known.predictions is None else joined(known.predictions, nothing),
        shown=None if known.shown is None else joined(known.shown, share),
    )
    outside = share @ w
    return evidence, joined(omega, (1 - new) * outside), joined(omega0, outside)
