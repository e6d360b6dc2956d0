"""Several candidates and production side by side by an estimator of clicks at ranks or of lists.

`compare` weighs exposures by the click model. These estimators weigh what production put at each
rank, with less of a click model or without any (`saferank.evaluation.evaluate_clicks`); what a log
never shows widens their intervals, and too much of it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from saferank.clicks import ClickModel
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.errors import InputError, require
from saferank.estimators.list_form import LIST_ESTIMATORS
from saferank.estimators.rank_form import CLICK_ESTIMATORS
from saferank.evaluation import LogRows, evaluate_clicks
from saferank.evaluation.click_evaluation import ClickEvaluation
from saferank.evaluation.scored_policies import Deployed, Policy
from saferank.learning import Ranker
from saferank.logs.sources import LogName
from saferank.safety.comparing import Candidate, Comparison
from saferank.safety.estimating import rows_of
from saferank.safety.judging import find_misfits, judged_counts, production_of, scores_on

WITHOUT_MODEL = ("ipm", "rips")
"""Estimators whose estimate is right whatever the click model."""


def compare_clicks(
    rankers: Mapping[str, Policy],
    data: RankingData,
    counts: Counts,
    *,
    estimator: str,
    click_model: ClickModel,
    production: Policy | None = None,
    production_kind: str = "auto",
    deployed: Deployed = "sampled",
    confidence: float = 0.95,
    same_sessions: bool = False,
    log: LogName | LogRows | None = None,
) -> Comparison:
    """Compare candidates with production by an estimator of clicks.

    Parameters
    ----------
    rankers, data, counts, production, production_kind, deployed, same_sessions : as of `compare`.
    estimator : one of `CLICK_ESTIMATORS` or `LIST_ESTIMATORS`.
    click_model : for those that weigh ranks against each other.
    confidence : that all intervals hold at once (Bonferroni).
    log : the rows of the counts, for estimators from lists.

    Returns
    -------
    Comparison
        Candidates that the estimator cannot tell of say why.

    Examples
    --------
    >>> import saferank as sr
    >>> items = sr.data.synthetic("small", queries=50, seed=0).train
    >>> shown, click_model = np.zeros(items.documents), sr.clicks.trust_bias()
    >>> counts = sr.clicks.simulate(items, shown, click_model, sessions=20_000, seed=0)
    >>> comparison = compare_clicks(
    ...     {"labels": items.labels}, items, counts, estimator="ipm", click_model=click_model,
    ...     production=shown, deployed="sorted",
    ... )
    >>> comparison.best.name
    'labels'
    """
    require(len(rankers) > 0, "rankers", "at least one", 0)
    require(0.5 < confidence < 1, "confidence", "in (0.5, 1)", confidence)
    names = (*CLICK_ESTIMATORS, *LIST_ESTIMATORS)
    require(estimator in names, "estimator", f"one of {', '.join(names)}", estimator)
    scores = {name: scores_on(one, data, "ranker") for name, one in rankers.items()}
    shown, fit = production_of(
        production, data, counts, production_kind, deployed, list(scores.values())
    )
    assert fit is not None
    tail = (1 - confidence) / len(rankers)
    candidates = []
    for name, ranker in rankers.items():
        judged, flatters = judged_counts(ranker, counts, same_sessions)
        predictions = ranker.relevance(data) if isinstance(ranker, Ranker) else None
        try:
            result = evaluate_clicks(
                scores[name], data, judged, shown, estimator=estimator, click_model=click_model,
                predictions=predictions, deployed=deployed,
                log=None if log is None else rows_of(log, counts, judged),
            )  # fmt: skip
        except InputError as error:
            candidates.append(Candidate(name, flatters=flatters, refused=_reason(error)))
            continue
        candidates.append(_candidate(name, result, tail, flatters))
    problems = find_misfits(click_model, fit, judged)
    if estimator in WITHOUT_MODEL:
        problems = tuple(problem for problem in problems if problem.startswith("production"))
    total = float(judged.clicks.sum() / max(judged.total, 1))
    best_first = sorted(
        candidates, key=lambda one: np.inf if one.at_least is None else -one.at_least
    )
    return Comparison(
        tuple(best_first), total, judged.total, confidence, fit, problems, counts.feedback
    )


UNSEEN = 0.2
"""Share of production's clicks that may depend on what the log never shows: an estimate counts it
as nothing, and is no estimate of the ranker where that is much."""


def _candidate(name: str, result: ClickEvaluation, tail: float, flatters: str | None) -> Candidate:
    unseen = sum(result.unknown) / max(result.production.estimate, 1e-300)
    if unseen > UNSEEN:
        reason = (
            f"clicks on what the log never shows can make a difference of {unseen:.0%} of "
            f"production's (at most {UNSEEN:.0%} is allowed)"
        )
        return Candidate(name, flatters=flatters, refused=reason)
    both, below = (result.interval("clustered", 1 - part) for part in (tail, 2 * tail))
    return Candidate(
        name, both.estimate + result.production.estimate, both.estimate, both.lower, both.upper,
        below.lower, flatters,
    )  # fmt: skip


def _reason(error: InputError) -> str:
    return str(error).removeprefix("The log cannot tell by this estimator: ").rstrip(".")
