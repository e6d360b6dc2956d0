"""GENSPEC: which of three policies serves each query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from saferank.clicks import ClickModel
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.errors import require
from saferank.evaluation import evaluate, interval
from saferank.evaluation.intervals import query_lower
from saferank.evaluation.scored_policies import Policy
from saferank.safety.decisions import Decision
from saferank.safety.doubt_words import assumption


@dataclass(frozen=True, eq=False)
class Selection:
    """Which policy each query is served by: 0 production, 1 the general one, 2 the tabular one."""

    choice: npt.NDArray[np.int8]
    decision: Decision

    @property
    def shares(self) -> tuple[float, float, float]:
        """Shares of the queries of production, the general and the tabular policy."""
        production, general, tabular = (float(np.mean(self.choice == i)) for i in range(3))
        return production, general, tabular


def genspec(
    general: Policy,
    tabular: Policy,
    data: RankingData,
    counts: Counts,
    click_model: ClickModel,
    *,
    production: Policy | None = None,
    confidence: float = 0.95,
    method: str = "bernstein",
    **options: Any,
) -> Selection:
    """GENSPEC (Oosterhuis and de Rijke, 2021): specialise only where a query's own clicks warrant.

    The feature-based policy takes the place of production when its overall difference is surely
    positive; on each query the tabular one takes the place of that when the query's difference is.
    `counts` must not be those that the policies were learned from.

    Parameters
    ----------
    general
        A policy through features, or its scores (one per document).
    tabular
        A policy that knows each query by itself.
    data
        The items.
    counts
        Sessions that neither was learned from.
    click_model
        What a click means.
    production
        Its ranker or scores; by default the items' production_score.
    confidence
        Of each query's choice.
    method
        "bernstein" or "normal".
    **options
        Of `evaluate`.

    Returns
    -------
    Selection
        Which policy serves each query, and the decision.

    Examples
    --------
    >>> import saferank as sr
    >>> items, model = sr.data.synthetic("small", queries=30).train, sr.clicks.trust_bias()
    >>> shown = np.zeros(items.documents)
    >>> counts = sr.clicks.simulate(items, shown, model, sessions=5000, seed=0, judge=0)
    >>> genspec(items.labels, items.labels, items, counts, model, production=shown).decision.ship
    True
    """
    require(0.5 < confidence < 1, "confidence", "in (0.5, 1)", confidence)
    overall = evaluate(general, data, counts, click_model, production=production, **options)
    gain = interval(overall.difference, "clustered", 2 * confidence - 1)
    base = general if gain.lower > 0 else production
    special = evaluate(
        tabular, data, counts, click_model, production=production, against=base, **options
    )
    sure = query_lower(special.difference, 1 - confidence, method) > 0
    choice = np.where(sure, 2, 1 if gain.lower > 0 else 0).astype(np.int8)
    sentence = (
        f"{'The general ranker' if gain.lower > 0 else 'Production'} serves "
        f"{np.mean(~sure):.1%} of the queries, the tabular one {np.mean(sure):.1%}."
    )
    assumes = (
        assumption(0.0),
        f"Each query's choice errs with probability at most {1 - confidence:.2g}; over many "
        "queries some choices do.",
    )
    return Selection(choice, Decision(bool((choice > 0).any()), "genspec", sentence, assumes))
