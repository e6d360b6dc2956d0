"""To ship or not: decisions that each say what they rest on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from saferank.clicks import ClickModel
from saferank.data import RankingData
from saferank.errors import require
from saferank.evaluation import Evaluation, Interval, Policy, QueryScores, evaluate, interval
from saferank.evaluation.intervals import query_lower
from saferank.logs import Counts
from saferank.safety.certificate import Certificate

_CLICKS = (
    "Clicks follow the click model with the parameters given: position and trust bias, no other.",
    "Production drew the log's rankings from Plackett-Luce over the scores given.",
    "The ranker was not learned from these sessions; if it was, the estimate flatters it.",
)
_METHODS = {
    "normal": "The log is large enough for normal theory; the verdict is for the log's queries.",
    "clustered": "Queries are independent and many enough for normal theory.",
    "bootstrap": "Queries are independent, and many enough to stand for those to come.",
    "bernstein": "Sessions are independent; the bound holds for any number of them.",
    "cantelli": "Examinations of documents are independent (the paper's theorem); any number of "
    "sessions; the verdict is for the log's queries.",
}


@dataclass(frozen=True)
class Decision:
    """Ship or not, why, and what that assumes."""

    ship: bool
    rule: str
    sentence: str
    assumes: tuple[str, ...]
    guard: float | None = None
    """The share that the guard keeps, where shipping needs it."""

    def record(self) -> dict[str, Any]:
        """The decision for JSON."""
        return asdict(self)


def unconditional(certificate: Certificate, *, guard: bool = False) -> Decision:
    """Ship when every query keeps the promise, by itself or with the guard: whoever clicks."""
    keep, promise = certificate.promise.keep, certificate.promise
    if certificate.holds:
        sentence = f"Ship: each of {certificate.queries:,} queries {promise}, whoever clicks."
        return Decision(True, "promise", sentence, certificate.assumptions)
    stepping = (
        f"the guard steps in on {certificate.guard_share:.1%} of the queries, and "
        f"{certificate.guard_mixing:.1%} of the traffic gets the new ranker"
    )
    if guard:
        sentence = (
            f"Ship with guard {keep:g}: every query then {promise}, whoever clicks; {stepping}."
        )
        return Decision(True, "promise with guard", sentence, certificate.assumptions, keep)
    broken = 1 - certificate.share_holding
    sentence = (
        f"Do not ship as it is: {broken:.1%} of the traffic is on queries that may lose more than "
        f"promised; with guard {keep:g} it can be shipped: {stepping}."
    )
    return Decision(False, "promise", sentence, certificate.assumptions)


def high_confidence(
    difference: QueryScores,
    *,
    tolerance: float = 0.0,
    confidence: float = 0.95,
    method: str = "clustered",
    seed: int = 0,
) -> Decision:
    """SEA (Jagerman et al., 2020): ship when the difference is surely above -tolerance.

    The bound is one-sided: a ranker that is worse by more than the tolerance is shipped with
    probability at most 1 - confidence, under what is assumed.
    """
    require(0.5 < confidence < 1, "confidence", "in (0.5, 1)", confidence)
    require(tolerance >= 0, "tolerance", "at least 0", tolerance)
    found = interval(difference, method, 2 * confidence - 1, seed=seed)
    ship = found.lower >= -tolerance
    sentence = (
        f"{'Ship' if ship else 'Do not ship'}: utility changes by {found.estimate:+.4g} a session, "
        f"and with confidence {confidence:.0%} by at least {found.lower:+.4g} "
        f"({'not below' if ship else 'below'} {-tolerance:+g})."
    )
    return Decision(ship, "high-confidence test", sentence, (*_CLICKS, _METHODS[method]))


def verdict(
    certificate: Certificate,
    evaluation: Evaluation | None = None,
    *,
    guard: bool = False,
    by: str = "promise",
    tolerance: float = 0.0,
    confidence: float = 0.95,
    method: str = "clustered",
) -> Decision:
    """The decision by the promise or by the clicks; clicks that speak clearly against it count."""
    require(by in ("promise", "clicks"), "by", "'promise' or 'clicks'", by)
    require(by == "promise" or evaluation is not None, "counts", "given to decide by clicks", None)
    decided = unconditional(certificate, guard=guard)
    if evaluation is None:
        return decided
    test = high_confidence(
        evaluation.difference, tolerance=tolerance, confidence=confidence, method=method
    )
    if by == "clicks":
        return test
    found = evaluation.interval(method, confidence)
    if decided.ship and found.upper < -tolerance:
        return Decision(False, "clicks", _worse(found), test.assumes)
    return decided


def _worse(found: Interval) -> str:
    return (
        f"Do not ship: by the clicks it is worse than production; utility changes by "
        f"{found.estimate:+.4g} a session, with confidence {found.confidence:.0%} between "
        f"{found.lower:+.4g} and {found.upper:+.4g}."
    )


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
    users: ClickModel,
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
    """
    require(0.5 < confidence < 1, "confidence", "in (0.5, 1)", confidence)
    overall = evaluate(general, data, counts, users, production=production, **options)
    found = interval(overall.difference, "clustered", 2 * confidence - 1)
    base = general if found.lower > 0 else production
    special = evaluate(tabular, data, counts, users, production=production, against=base, **options)
    sure = query_lower(special.difference, 1 - confidence, method) > 0
    choice = np.where(sure, 2, 1 if found.lower > 0 else 0).astype(np.int8)
    sentence = (
        f"{'The general ranker' if found.lower > 0 else 'Production'} serves "
        f"{np.mean(~sure):.1%} of the queries, the tabular one {np.mean(sure):.1%}."
    )
    assumes = (
        *_CLICKS,
        f"Each query's choice errs with probability at most {1 - confidence:.2g}; over many "
        "queries some choices do.",
    )
    return Selection(choice, Decision(bool((choice > 0).any()), "genspec", sentence, assumes))
