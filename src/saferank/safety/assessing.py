"""`assess`: what `saferank certify` does, from a ranker and counts to a verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank._core.flat import Floats
from saferank.clicks import ClickModel
from saferank.counts import Counts, overlap
from saferank.data import RankingData
from saferank.errors import InputError, require
from saferank.estimators import Evidence
from saferank.evaluation import Deployed, Evaluation, Interval, LowerBound, Policy, interval
from saferank.evaluation import lower_bound as bound_below
from saferank.evaluation.lower_bound import Rows, clipped_interval
from saferank.evaluation.off_policy import evaluate_exposures
from saferank.evaluation.outside import with_outside
from saferank.evaluation.sessions import LogRows
from saferank.learning import Card, Ranker
from saferank.logs.sources import LogName
from saferank.policies import ProductionFit, ProductionPolicy
from saferank.safety.assessment import Assessment, ClickChange, LogFacts, RankRate
from saferank.safety.certificate import Certificate
from saferank.safety.certifying import certify
from saferank.safety.decisions import ClickTest, verdict
from saferank.safety.independence import FLATTERS
from saferank.safety.judging import (
    estimator_for,
    evidence_for,
    judged_counts,
    known_misfits,
    production_of,
    served_exposures,
)


@dataclass(frozen=True)
class Rule:
    """How a verdict is reached: by what, with which tolerance, confidence and interval."""

    by: str = "auto"
    tolerance: float = 0.0
    """Share of production's clicks that may be lost."""
    confidence: float = 0.95
    method: str = "clustered"


def assess(
    ranker: Policy,
    data: RankingData,
    *,
    production: Policy | None = None,
    counts: Counts | None = None,
    users: ClickModel | None = None,
    keep: float | None = None,
    slack: float | None = None,
    weights: npt.ArrayLike | None = None,
    deployed: Deployed = "sampled",
    production_kind: str = "auto",
    guard: bool = False,
    by: str = "auto",
    tolerance: float = 0.0,
    confidence: float = 0.95,
    method: str | None = None,
    same_sessions: bool = False,
    log: LogName | LogRows | None = None,
) -> Assessment:
    """Certify a ranker, estimate its difference to production where there are counts, and decide.

    Parameters
    ----------
    ranker : the ranker to judge, or its scores (one per document), or a function of the data.
    data : the items.
    production : production's ranker or scores; without it the items' production_score.
    counts : the log. Of counts in parts the sessions to judge by make the estimate, and all of
        them tell what production does.
    users : the click model; by default the one that the ranker was learned with.
    keep, slack : the promise; by default the ranker's own, else 0.9 and 0.01.
    weights : of the ranks; by default the ranker's own, else those of the click model.
    deployed : "sampled" or "sorted": how the new ranker's scores become rankings.
    production_kind : what production does: "auto" (by the log), or one of `policies.KINDS`.
    guard : judge the ranker as served with its guard.
    by : "promise", "clicks", "both", or "auto": by clicks where there are counts, and by both
        where the ranker was learned with a promise.
    tolerance : share of production's clicks that may be lost.
    confidence, method : of intervals and of the bound that decides; by default "clustered", and
        "normal" with a log, whose rows tell the variance between sessions.
    same_sessions : make the estimate although the ranker was learned from the same sessions.
    log : the rows that the counts are of, for the exact variance between sessions. For counts in
        parts it is a `LogRows` with their split: only the sessions to judge by are then read.

    Returns
    -------
    The assessment; `assessment.decision.ship` is the verdict.

    Raises
    ------
    InputError : among others where the sessions to judge by had a part in the ranker.

    Examples
    --------
    >>> import saferank as sr
    >>> items = sr.data.synthetic("small", queries=50, seed=0).train
    >>> shown, users = np.zeros(items.documents), sr.clicks.trust_bias()
    >>> counts = sr.clicks.simulate(items, shown, users, sessions=20_000, seed=0)
    >>> assess(items.labels, items, production=shown, counts=counts, users=users).decision.ship
    True
    """
    card = ranker.card if isinstance(ranker, Ranker) else None
    if users is None and card is not None and card.users is not None:
        users = ClickModel.from_dict(card.users)
    if by == "auto" and counts is not None and card is not None and card.keep is not None:
        by = "both"
    if method is None:
        method = "clustered" if log is None else "normal"
    rule = Rule(by, tolerance, confidence, method)
    w, weights_from = _weights(weights, card, users)
    own = (None, None) if card is None else (card.keep, card.slack)
    promise = (_first(keep, own[0], 0.9), _first(slack, own[1], 0.01))
    shown, fit = production_of(production, data, counts, production_kind, deployed, [ranker])
    certificate = certify(
        ranker, data, production=shown, keep=promise[0], slack=promise[1], deployed=deployed,
        weights=w, weights_from=weights_from,
        traffic=None if counts is None or counts.total == 0 else counts,
    )  # fmt: skip
    if counts is None:
        decided = verdict(certificate, guard=guard, by=by)
        return Assessment(decided, certificate, fit=fit, guarded=guard, ranker=_name(ranker))
    if users is None:
        raise InputError("`users` must be given with counts: the ranker's card names none.")
    require(
        w is None or len(w) == users.ranks, "weights", f"of the {users.ranks} ranks of the click "
        "model, so that certificate and estimate speak of the same metric", w and len(w),
    )  # fmt: skip
    judged, flatters = judged_counts(ranker, counts, same_sessions)
    _check_queries(judged, method)
    vector = np.asarray(certificate.weights)
    promised = certificate.promise if guard else None
    served = served_exposures(ranker, data, shown, vector, deployed, promised)
    known = evidence_for(ranker, data, judged, users, shown, vector)
    rows = None if log is None else (_rows_of(log, counts, judged), data)
    found = _estimate(*_owed(known, served, vector), rule, rows)
    assert fit is not None
    found = replace(
        found,
        filled=_filled(shown, counts.part("all")),
        misfits=known_misfits(users, fit, judged),
    )
    seen = served_exposures(ranker, data, shown, vector, deployed, promised, measured=users.alpha)
    clicks = _clicks(*_owed(known, seen, users.alpha), rule, rows)
    test = found.test(clicks, certificate, rule, flatters is not None)
    evaluation = found.evaluation
    old = interval(evaluation.production, method, confidence)
    # no support, no number
    told = evaluation.support.refusal() is None
    return Assessment(
        verdict(certificate, test, guard=guard, by=by, tolerance=tolerance, method=method),
        certificate,
        new=_shifted(found.difference, old.estimate) if told else None,
        production=old if told else None,
        difference=found.difference if told else None,
        bound=found.bound if told else None,
        clicks=clicks if told else None,
        support=evaluation.support,
        estimator=found.estimator,
        fit=fit,
        flatters=flatters,
        guarded=guard,
        log=_log_facts(fit, counts, judged, users),
        ranker=_name(ranker),
    )


def _check_queries(judged: Counts, method: str) -> None:
    """Of one query nothing can be said of queries to come."""
    seen = int(np.count_nonzero(judged.sessions))
    if seen < 2 and method in ("clustered", "bootstrap"):
        raise InputError(
            "`counts` must have sessions to judge by of at least two queries; got one: "
            "--method normal (method='normal') judges the ranker on that query alone."
        )


def _name(ranker: Policy) -> str | None:
    return ranker.fingerprint() if isinstance(ranker, Ranker) else None


_Served = tuple[Floats, Floats, Evidence]


def _owed(
    known: Evidence, served: tuple[Floats, Floats, Floats], weights: npt.ArrayLike
) -> _Served:
    """Exposures and evidence with what production shows beside the items."""
    evidence, omega, omega0 = with_outside(known, *served, weights)
    return omega, omega0, evidence


def _rows_of(log: LogName | LogRows, counts: Counts, judged: Counts) -> LogRows:
    """The rows of the sessions that are judged by."""
    rows = LogRows.of(log)
    if judged is not counts.judge:
        return replace(rows, split=None)
    if rows.split is None:
        raise InputError(
            "`log` must be LogRows with the split of the counts (`CountTable.split`), as these are "
            "in parts: its rows do not tell by themselves which sessions are to judge by."
        )
    return rows


def _clicks(
    rho: Floats, rho0: Floats, known: Evidence, rule: Rule, rows: Rows | None
) -> ClickChange:
    """Change of clicks per session: alpha R differs, beta is clicked whatever stands there."""
    bound = bound_below(rho, rho0, known, confidence=rule.confidence, method=rule.method, rows=rows)
    gap = clipped_interval(
        rho, rho0, known, clip=bound.clip, confidence=rule.confidence, method=rule.method,
        rows=rows,
    )  # fmt: skip
    return ClickChange(float(known.counts.clicks.sum() / known.counts.total), gap, bound)


def _shifted(gap: Interval, by: float) -> Interval:
    """The new ranker's utility: production's estimate and the difference to it, which add up."""
    return replace(gap, estimate=gap.estimate + by, lower=gap.lower + by, upper=gap.upper + by)


def _first(*values: float | None) -> float:
    return next(value for value in values if value is not None)


def _weights(
    given: npt.ArrayLike | None, card: Card | None, users: ClickModel | None
) -> tuple[list[float] | None, str | None]:
    """Rank weights of certificate and estimate alike, and where they come from in words."""
    if given is not None:
        return np.asarray(given, dtype=np.float64).tolist(), "as given"
    own = None if card is None or not card.weights else list(card.weights)
    if own is not None and (users is None or len(own) == users.ranks):
        what = "" if card is None else str(card.recipe.get("weights", ""))
        if what == "clicks":
            source = (card and card.click_model_from) or "the click model it was learned with"
            return own, f"alpha + beta of {source}, as the ranker was learned with"
        return own, "those that the ranker was learned with"
    if users is not None:
        return users.exposure_weights.tolist(), "alpha + beta of the click model"
    return None, None


@dataclass(frozen=True, eq=False)
class _Found:
    """Estimates of what would be served."""

    evaluation: Evaluation
    bound: LowerBound
    estimator: str
    largest: float
    """Most utility per session that there can be."""
    difference: Interval
    """Estimate and interval with clipped weights."""
    filled: float = 1.0
    """Share of the ranks that production's lists fill."""
    misfits: tuple[str, ...] = ()
    """What is known to be wrong of what the estimates rest on."""

    def test(
        self,
        clicks: ClickChange,
        certificate: Certificate,
        rule: Rule,
        flatters: bool,
    ) -> ClickTest:
        production = interval(self.evaluation.production, rule.method, rule.confidence)
        problems = self._problems(self.difference, production)
        assumes = (
            certificate.assumptions[3],
            *_lengths(self.filled),
            "The sessions to judge by had no part in the ranker." if not flatters else FLATTERS,
        )
        return ClickTest(
            clicks.difference, clicks.production, clicks.bound, self.evaluation.difference.total,
            problems, assumes, flatters,
        )  # fmt: skip

    def _problems(self, difference: Interval, production: Interval) -> tuple[str, ...]:
        problems = [*self.misfits]
        refusal = self.evaluation.support.refusal()
        if refusal is not None:
            problems.append(refusal)
        margin = 1e-9 * self.largest
        possible = (
            difference.lower <= self.largest + margin
            and difference.upper >= -self.largest - margin
            and production.lower <= self.largest + margin
            and production.upper >= -margin
        )
        if not possible:
            problems.append(
                f"the estimates lie outside what is possible (a utility of 0 to {self.largest:.3g}"
                f" per session), so the click model or production's policy is wrong"
            )
        return tuple(problems)


def _lengths(filled: float) -> tuple[str, ...]:
    if filled == 1:
        return ()
    return (
        f"Lists are not always full: {1 - filled:.1%} of their rows are not in the log. The new "
        f"ranker's are taken to be as long, and rows to be missing whatever they show.",
    )


def _filled(policy: ProductionPolicy, counts: Counts) -> float:
    if policy.filled is None:
        return 1.0
    there = np.arange(counts.ranks) < flat.sizes(counts.offsets)[:, None]
    owed = counts.sessions @ there.sum(axis=1)
    return float(counts.sessions @ (policy.filled * there).sum(axis=1) / max(owed, 1))


def _estimate(
    omega: Floats,
    omega0: Floats,
    known: Evidence,
    rule: Rule,
    rows: Rows | None,
) -> _Found:
    name, control = estimator_for(known)
    if rows is not None and known.counts.documents != rows[1].documents:
        raise InputError(
            "`log` must show items only, as its rows are matched with them, and some of its "
            "documents have no item: leave the log out; the counts tell without it."
        )
    evaluation = evaluate_exposures(
        omega, omega0, known, estimator=name, control=control, rows=rows
    )
    bound = bound_below(
        omega, omega0, known, confidence=rule.confidence, method=rule.method, rows=rows
    )
    judged = known.counts
    # the metric's weights may be others than the click model's: Z is what production's sum to
    largest = float(
        judged.sessions @ flat.query_sums(omega0, judged.offsets) / max(judged.total, 1)
    )
    how = f"{name}, additive control variate" if control == "additive" else name
    gap = clipped_interval(
        omega, omega0, known, clip=bound.clip, confidence=rule.confidence, method=rule.method,
        rows=rows,
    )  # fmt: skip
    return _Found(evaluation, bound, how, largest, gap)


def _log_facts(fit: ProductionFit, counts: Counts, judged: Counts, users: ClickModel) -> LogFacts:
    everything = counts.part("all")
    parts = overlap(everything).components()
    if len(parts) == 1:
        linked = "Documents were shown at several ranks: all ranks can be compared."
    else:
        linked = f"Ranks fall into {len(parts)} groups that share no document: they cannot be told"
        linked += " apart from relevance."
    return LogFacts(
        sessions=everything.total,
        judged=judged.total,
        clicks=int(everything.clicks.sum()),
        queries_seen=int(np.count_nonzero(everything.sessions)),
        queries=everything.queries,
        sentences=(fit.sentence, linked),
        by_rank=_rates(everything, users),
    )


def _rates(counts: Counts, users: ClickModel) -> tuple[RankRate, ...]:
    """Click rates by rank beside those of the click model, each document's clicks being given.

    Relevance is what a document's clicks amount to, also outside of [0, 1]: cut off, it would be
    too high on average, and so would the model's rates.
    """
    looked = counts.impressions @ users.alpha
    excess = (counts.clicks - counts.impressions * users.beta).sum(axis=1)
    relevance = np.divide(excess, looked, out=np.zeros_like(looked), where=looked > 0)
    chances = relevance[:, None] * users.alpha + users.beta
    expected = (counts.impressions * chances).sum(axis=0)
    shown: Any = counts.impressions.sum(axis=0)
    clicked = counts.clicks.sum(axis=0)
    some = np.maximum(shown, 1)
    return tuple(
        RankRate(k + 1, int(shown[k]), float(clicked[k] / some[k]), float(expected[k] / some[k]))
        for k in range(counts.ranks)
    )
