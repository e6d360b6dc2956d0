"""`assess`: what `saferank certify` does, from a ranker and counts to a verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from saferank._core.flat import Floats
from saferank.clicks import ClickModel
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.errors import InputError, require
from saferank.estimators import Evidence
from saferank.evaluation import Interval, LogRows, interval
from saferank.evaluation.scored_policies import Deployed, Policy, rank_weights
from saferank.learning import Provenance, Ranker
from saferank.logs.sources import LogName
from saferank.policies import ProductionPolicy
from saferank.policies.production_fit import ProductionFit
from saferank.safety.assessment import ITEMS, Assessment
from saferank.safety.certificate import Certificate
from saferank.safety.certifying import certify
from saferank.safety.decisions import verdict
from saferank.safety.doubting import doubt_served
from saferank.safety.estimating import (
    Estimates,
    click_change,
    estimate,
    filled_share,
    rows_of,
)
from saferank.safety.examination import Asked, Examination
from saferank.safety.fair_exposures import report_exposures
from saferank.safety.independence import can_tell
from saferank.safety.judging import (
    Served,
    evidence_for,
    find_misfits,
    judged_counts,
    production_as_said,
    production_of,
    scores_on,
)
from saferank.safety.log_facts import log_facts
from saferank.safety.promise import Promise, promise_of
from saferank.safety.rule import Rule

_DEFAULT = Rule()


def assess(
    ranker: Policy,
    data: RankingData,
    *,
    production: Policy | ProductionPolicy | None = None,
    counts: Counts | None = None,
    click_model: ClickModel | None = None,
    promise: Promise | None = None,
    weights: npt.ArrayLike | None = None,
    examination: Asked = "auto",
    deployed: Deployed = "sampled",
    production_kind: str = "auto",
    rule: Rule = _DEFAULT,
    log: LogName | LogRows | None = None,
    logged_by: ProductionPolicy | None = None,
) -> Assessment:
    """Certify a ranker, estimate its difference to production where there are counts, and decide.

    Parameters
    ----------
    ranker
        The ranker to judge, or its scores (one per document), or a function of the data.
    data
        The items.
    production
        Production's ranker or scores, or its policy where that is known; without it the items'
        production_score.
    counts
        The log. Of counts in parts the sessions to judge by make the estimate, and all of them
        tell what production does.
    click_model
        By default the one that the ranker was learned with.
    promise
        What every query has to keep; by default the ranker's own, else 0.9 and 0.01.
    weights
        Of the ranks, K of them; by default the ranker's own, else those of the click model.
    examination
        What the promise is for: "fitted" (the rank weights), "any" (every way of looking in which a
        rank is looked at no more than the one above it), "dcg", or other rank weights; "auto" is
        "any" where the rule asks for doubt and promise together, else "fitted".
    deployed
        "sampled" or "sorted": how the new ranker's scores become rankings.
    production_kind
        What production does: "auto" (by the log), or one of `policies.KINDS`.
    rule
        By what to decide, with which tolerance and confidence, with or without the guard.
    log
        The rows that the counts are of, for the exact variance between sessions. For counts in
        parts it is a `LogRows` with their split: only the sessions to judge by are then read.
    logged_by
        What made the log, where that was not `production`, whose kind is then taken as said: a
        guarded ranker, or several policies one after another (`policies.mix_policies`).

    Returns
    -------
    Assessment
        `assessment.decision.ship` is the verdict.

    Raises
    ------
    InputError
        Among others where the sessions to judge by had a part in the ranker.

    Examples
    --------
    >>> import saferank as sr
    >>> items = sr.data.synthetic("small", queries=50, seed=0).train
    >>> shown, click_model = np.zeros(items.documents), sr.clicks.trust_bias()
    >>> counts = sr.clicks.simulate(items, shown, click_model, sessions=20_000, seed=0)
    >>> assessment = assess(
    ...     items.labels, items, production=shown, counts=counts, click_model=click_model
    ... )
    >>> assessment.decision.ship
    True
    """
    provenance = ranker.provenance if isinstance(ranker, Ranker) else None
    click_model = _own_model(provenance) if click_model is None else click_model
    own = provenance is not None and provenance.keep is not None
    given, stated = counts is not None, promise is not None
    rule = rule.settle(counts=given, promise=own, log=log is not None, stated=stated)
    w, weights_from = _weights(weights, provenance, click_model)
    scores = scores_on(ranker, data, "ranker")
    _check_tolerance(rule, logged_by)
    if logged_by is None and not isinstance(production, ProductionPolicy):
        shown, fit = production_of(production, data, counts, production_kind, deployed, [scores])
    else:
        how = deployed if production_kind == "auto" else production_kind
        shown, fit = production_as_said(production, data, how, logged_by, counts)
    asked = _examination(examination, rule)
    certificate = certify(
        scores, data, production=shown, deployed=deployed, weights=w, weights_from=weights_from,
        examination=asked, mode=rule.guard_mode, holdout=rule.holdout,
        promise=promise_of(ranker) if promise is None else promise,
        relevance=ranker.relevance(data) if isinstance(ranker, Ranker) else None,
        traffic=None if counts is None or counts.total == 0 else counts,
    )  # fmt: skip
    looking = Examination.of(asked, w)
    alone = Served(scores, data, shown, looking.weights, deployed)
    behind = alone.guarded(certificate.promise, looking, rule)
    served = behind if rule.guard else alone
    evidence = None
    if counts is None:
        assessment = Assessment(verdict(certificate, rule=rule), certificate, fit=fit)
    else:
        judging = _JudgingLog.of(counts, click_model, w.size, logged_by, log)
        assessment, evidence = _by_clicks(ranker, served, judging, certificate, fit, rule)
    if data.groups is not None:
        exposures = report_exposures(ranker, served, behind, counts, evidence, rule)
        assessment = replace(assessment, exposures=exposures)
    return _named(replace(assessment, guarded=rule.guard), ranker, production, data)


def _examination(asked: Asked, rule: Rule) -> Asked:
    """What the promise is for: every way of looking where it is asked for together with doubt."""
    if isinstance(asked, str) and asked == "auto":
        return "any" if rule.joined else "fitted"
    return asked


def _named(
    assessment: Assessment,
    ranker: Policy,
    production: Policy | ProductionPolicy | None,
    data: RankingData,
) -> Assessment:
    """The assessment with what it is of, and what that was compared with."""
    source = None
    if isinstance(production, Ranker):
        source = production.fingerprint()
    elif isinstance(production, ProductionPolicy):
        source = None
    elif production is None or (
        data.production is not None and np.array_equal(np.asarray(production), data.production)
    ):
        source = ITEMS
    name = ranker.fingerprint() if isinstance(ranker, Ranker) else None
    return replace(assessment, ranker=name, production_from=source)


@dataclass(frozen=True, eq=False)
class _JudgingLog:
    """The log to judge by: what was counted, what a click means, what made it, and its rows."""

    counts: Counts
    click_model: ClickModel
    made_by: ProductionPolicy | None
    """What made it, where that was not production."""
    rows: LogName | LogRows | None

    @classmethod
    def of(
        cls,
        counts: Counts,
        click_model: ClickModel | None,
        ranks: int,
        made_by: ProductionPolicy | None,
        rows: LogName | LogRows | None,
    ) -> _JudgingLog:
        """The log of checked options."""
        if click_model is None:
            raise InputError("`click_model` must be given with counts: the ranker names none.")
        require(
            ranks == click_model.ranks, "weights",
            f"of the {click_model.ranks} ranks of the click model, so that certificate and "
            "estimate speak of the same metric", ranks,
        )  # fmt: skip
        return cls(counts, click_model, made_by, rows)

    def evidence(self, ranker: Policy, served: Served, judged: Counts) -> Evidence:
        """What the sessions to judge by say."""
        made = served.production if self.made_by is None else self.made_by
        return evidence_for(ranker, served.data, judged, self.click_model, made, served.weights)


def _by_clicks(
    ranker: Policy,
    served: Served,
    log: _JudgingLog,
    certificate: Certificate,
    fit: ProductionFit | None,
    rule: Rule,
) -> tuple[Assessment, Evidence]:
    """The assessment by certificate and clicks, and what the sessions to judge by say."""
    assert fit is not None  # a log tells what production does
    counts, click_model = log.counts, log.click_model
    judged, flatters = judged_counts(ranker, counts, rule.same_sessions)
    _check_queries(judged, rule.interval)
    evidence = log.evidence(ranker, served, judged)
    rows = None if log.rows is None else rows_of(log.rows, counts, judged)
    estimates = replace(
        estimate(served.compared(evidence, rows=rows), rule),
        filled=filled_share(served.production, counts.part("all")),
        misfits=find_misfits(click_model, fit, judged),
    )
    clicks = click_change(served.compared(evidence, click_model.alpha, rows), rule)
    test = estimates.test(
        clicks, certificate, rule, flatters=flatters is not None,
        independent=can_tell(ranker, counts),
    )  # fmt: skip
    # where something speaks against the click model or production, no doubt about them is graded
    doubts = None if test.problems else doubt_served(served, evidence, counts, rule)
    test = replace(test, doubts=doubts)
    assessment = Assessment(
        verdict(certificate, test, rule=rule).about(counts.feedback),
        certificate,
        feedback=counts.feedback,
        support=estimates.evaluation.support,
        estimator=estimates.estimator,
        fit=fit,
        flatters=flatters,
        log=log_facts(fit, counts, judged, click_model),
    )
    if not estimates.tell(rule):
        return assessment, evidence  # no support, or nothing that can be: no number
    assessment = replace(
        assessment,
        **_utilities(estimates, rule),
        clicks=clicks,
        clicks_alone=_clicks_alone(served, evidence, rule, rows),
        doubts=doubts,
    )
    return assessment, evidence


def _utilities(estimates: Estimates, rule: Rule) -> dict[str, Any]:
    """Utility of what would be served and of production, their difference and its bound."""
    new, old = (
        interval(scores, rule.interval, rule.confidence)
        for scores in (estimates.evaluation.new, estimates.evaluation.production)
    )
    return {
        "new": _centre(new, old.estimate + estimates.difference.estimate),
        "production": old,
        "difference": estimates.difference,
        "bound": estimates.bound,
    }


def _clicks_alone(
    served: Served, evidence: Evidence, rule: Rule, rows: LogRows | None
) -> Interval | None:
    """Change of clicks without the guard; none where it is not there, or the log cannot tell."""
    if served.guard is None:
        return None
    alone = replace(served, guard=None)
    contrast = alone.compared(evidence, evidence.click_model.alpha, rows)
    if contrast.support().refusal() is not None:
        return None
    return click_change(contrast, rule).difference


def _check_tolerance(rule: Rule, logged_by: ProductionPolicy | None) -> None:
    if logged_by is not None:
        least = "0 where other policies made the log: production's clicks are only estimated"
        require(rule.tolerance == 0, "tolerance", least, rule.tolerance)


def _check_queries(judged: Counts, method: str) -> None:
    """Of one query nothing can be said of queries to come."""
    seen = int(np.count_nonzero(judged.sessions))
    if seen < 2 and method in ("clustered", "bootstrap"):
        raise InputError(
            "`counts` must have sessions to judge by of at least two queries; got one: "
            "--method normal (method='normal') judges the ranker on that query alone."
        )


def _centre(own: Interval, estimate: float) -> Interval:
    """An interval moved to another estimate: production's and the difference to it add up."""
    by = estimate - own.estimate
    return replace(own, estimate=estimate, lower=own.lower + by, upper=own.upper + by)


def _own_model(provenance: Provenance | None) -> ClickModel | None:
    """The click model that a ranker was learned with."""
    if provenance is None or provenance.click_model is None:
        return None
    return ClickModel.from_dict(provenance.click_model)


def _weights(
    given: npt.ArrayLike | None, provenance: Provenance | None, click_model: ClickModel | None
) -> tuple[Floats, str]:
    """Rank weights of certificate and estimate alike, and where they come from in words."""
    if given is not None:
        return rank_weights(given), "as given"
    if provenance is not None and provenance.weights:
        own = rank_weights(provenance.weights)
        if click_model is None or own.size == click_model.ranks:
            return own, _source(provenance)
    if click_model is not None:
        return click_model.exposure_weights, "alpha + beta of the click model"
    return rank_weights(None if provenance is None else provenance.weights), "DCG's"


def _source(provenance: Provenance) -> str:
    if str(provenance.recipe.get("weights", "")) != "clicks":
        return "those that the ranker was learned with"
    source = provenance.click_model_from or "the click model it was learned with"
    return f"alpha + beta of {source}, as the ranker was learned with"
