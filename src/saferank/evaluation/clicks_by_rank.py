"""Clicks per session of a new ranker from chances at ranks: with a click model, or without any."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank._core.flat import Floats
from saferank.clicks import ClickModel
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.errors import InputError, require
from saferank.estimators.list_form import LIST_ESTIMATORS
from saferank.estimators.rank_form import CLICK_ESTIMATORS, ClickEstimator, RankEvidence
from saferank.estimators.session_form import SessionScore
from saferank.evaluation.click_evaluation import ClickEvaluation
from saferank.evaluation.clicks_by_list import evaluate_lists, list_evidence, read_lists
from saferank.evaluation.intervals import QueryScores
from saferank.evaluation.measuring import count_moments
from saferank.evaluation.scored_policies import Deployed, Policy, all_scores, check_policy
from saferank.evaluation.sessions import LogRows
from saferank.evaluation.support import Support, effective_sessions
from saferank.logs.sources import LogName
from saferank.policies import ProductionPolicy
from saferank.policies.production import chances_of_lists

Control = Literal["none", "by-rank", "normalised"]


def evaluate_clicks(
    new: Policy,
    data: RankingData,
    counts: Counts,
    production: ProductionPolicy,
    *,
    estimator: str | ClickEstimator = "ipm",
    control: Control = "by-rank",
    click_model: ClickModel | None = None,
    predictions: npt.ArrayLike | None = None,
    deployed: Deployed = "sampled",
    log: LogName | LogRows | None = None,
) -> ClickEvaluation:
    r"""Estimate the clicks per session that a new ranker would get on the ranks of the log.

    .. math:: \sum_q \frac{N_q}{N} \sum_{d, k} P(d, k)\, r(d, k)

    Parameters
    ----------
    new : the ranker to judge, its scores (one per document), or a function of the data.
    data : the items.
    counts : sessions that had no part in the ranker; for items in the same order.
    production : what production does: `ProductionPolicy.uniform(data.offsets)` and so on.
    estimator : one of `CLICK_ESTIMATORS`, or one of your own (`interpolation(window=3)`); or one of
        `LIST_ESTIMATORS` ("rips", "cascade-dr"), for users who look from the top: they weigh whole
        lists, and need the `log` that the counts are of.
    control : "by-rank" takes off, at each rank, a multiple of the weights' distance to their known
        mean, fitted on the other half of the queries; "normalised" divides by the weights' mean at
        each rank; "none".
    click_model : for estimators that weigh ranks against each other.
    predictions : relevance of each document by a regression on other sessions, for DR.
    deployed : "sampled" or "sorted": how the new ranker's scores become rankings.
    log : the rows of the counts, with a `session_id`, for estimators from lists.

    Returns
    -------
    Scores of new ranker, production and difference; `interval()` is that of the difference.

    Raises
    ------
    InputError : where the log cannot tell: too little of what the new ranker shows was ever shown
        there, or too few sessions are left after weighting.

    Examples
    --------
    >>> import saferank as sr
    >>> items = sr.data.synthetic("small", queries=50, seed=0).train
    >>> shown, users = np.zeros(items.documents), sr.clicks.trust_bias()
    >>> counts = sr.clicks.simulate(items, shown, users, sessions=20_000, seed=0)
    >>> production = sr.policies.ProductionPolicy.uniform(items.offsets)
    >>> result = evaluate_clicks(items.labels, items, counts, production, deployed="sorted")
    >>> bool(result.interval().lower > 0)
    True
    """
    same = np.array_equal(data.offsets, counts.offsets)
    require(same, "counts", f"of the data's documents ({data!r})", repr(counts))
    require(control in _CONTROLS, "control", f"one of {', '.join(_CONTROLS)}", control)
    if isinstance(estimator, str) and estimator in LIST_ESTIMATORS:
        if log is None:
            raise InputError(f"`log` must be given for {estimator}: the rows of these counts.")
        beside = None if predictions is None else np.asarray(predictions, dtype=np.float64)
        return evaluate_lists(
            all_scores(check_policy(new, data, "new"), data, "new"),
            list_evidence(data, counts, production, click_model, beside, estimator),
            read_lists(LogRows.of(log), data, counts),
            estimator=estimator, control=control, deployed=deployed,
        )  # fmt: skip
    if isinstance(estimator, str):
        names = ", ".join((*CLICK_ESTIMATORS, *LIST_ESTIMATORS))
        require(estimator in CLICK_ESTIMATORS, "estimator", f"one of {names}", estimator)
    form = CLICK_ESTIMATORS[estimator] if isinstance(estimator, str) else estimator
    if predictions is not None:
        predictions = flat.check_values("predictions", predictions, data.offsets)
    evidence = RankEvidence(
        counts, production.rank_probabilities(counts.ranks), click_model, predictions
    )
    scores = all_scores(check_policy(new, data, "new"), data, "new")
    policy = chances_of_lists(
        scores, counts.ranks, data.offsets, in_order=deployed == "sorted", filled=production.filled
    )
    return _evaluate(evidence, policy, form, control, str(estimator))


def _evaluate(
    evidence: RankEvidence, policy: Floats, form: ClickEstimator, control: Control, name: str
) -> ClickEvaluation:
    support = _support(evidence, policy, form)
    refusal = support.refusal()
    if refusal is not None:
        raise InputError(f"The log cannot tell by this estimator: {refusal}.")
    own = _own_clicks(evidence)
    new = _CONTROLS[control](form.form(evidence, policy), evidence)
    counts = evidence.counts
    share = counts.sessions / max(counts.total, 1)
    high, low = (float(share @ part) for part in form.unknown(evidence, policy))
    return ClickEvaluation(
        new=_measured(new, counts),
        production=_measured(own, counts),
        difference=_measured(new - own, counts),
        support=support,
        estimator=name,
        assumes=form.assumes,
        unknown=(high, low),
    )


def _own_clicks(evidence: RankEvidence) -> SessionScore:
    """Production's clicks: those that there were."""
    nothing = np.zeros(evidence.shown.shape)
    return SessionScore(np.zeros(evidence.counts.queries), nothing, nothing + 1.0)


def _measured(score: SessionScore, counts: Counts) -> QueryScores:
    # the paper's theorem speaks of exposures, not of ranks: it bounds nothing here
    return count_moments(score, counts, np.full(counts.queries, np.inf))


def _support(evidence: RankEvidence, policy: Floats, form: ClickEstimator) -> Support:
    """Share of what the policy shows that the log can tell of, and how many sessions that is."""
    counts = evidence.counts
    share = flat.repeat_per_document(counts.sessions / max(counts.total, 1), counts.offsets)
    shown = share[:, None] * policy
    total = float(shown.sum())
    lost = float((shown * (1 - form.supported(evidence))).sum())
    weight = _weights(form.form(evidence, policy))
    return Support(
        sessions=counts.total,
        effective=effective_sessions(weight, counts),
        share=1 - lost / total if total > 0 else 0.0,
        unsupported=lost,
    )


def _weights(score: SessionScore) -> SessionScore:
    """What a click on each shown document counts for, clicked or not."""
    v = score.clicked - score.missed
    return SessionScore(np.zeros_like(score.base), v, v)


def _plain(score: SessionScore, _evidence: RankEvidence) -> SessionScore:
    return score


def _by_rank(score: SessionScore, evidence: RankEvidence) -> SessionScore:
    r"""At each rank :math:`x - b_k (W - E W)`, b fitted on the other half of the queries.

    W is the weight of what a session shows at rank k; its mean given the query is
    :math:`\sum_d P_0(d, k)\,v(d, k)`, which is known.
    """
    counts = evidence.counts
    weights = _weights(score).clicked
    expected = flat.query_sums(evidence.shown * weights, counts.offsets)
    away = weights - flat.repeat_per_document(expected, counts.offsets)
    half = np.arange(counts.queries) % 2
    fitted = np.stack([_coefficients(score, away, counts, half == side) for side in (1, 0)])
    b = flat.repeat_per_document(fitted[half], counts.offsets)
    return SessionScore(score.base, score.missed - b * away, score.clicked - b * away)


def _coefficients(
    score: SessionScore, away: Floats, counts: Counts, queries: npt.NDArray[np.bool_]
) -> Floats:
    """Cov(x, W) / Var(W) at each rank, over the sessions of some queries."""
    there = flat.repeat_per_document(queries, counts.offsets)[:, None]
    clicks, missed = counts.clicks * there, (counts.impressions - counts.clicks) * there
    sessions = np.maximum((clicks + missed).sum(axis=0), 1)
    mean = (score.clicked * clicks + score.missed * missed).sum(axis=0) / sessions
    both = away * ((score.clicked - mean) * clicks + (score.missed - mean) * missed)
    own = (away**2 * (clicks + missed)).sum(axis=0)
    b: Floats = np.divide(both.sum(axis=0), own, out=np.zeros(counts.ranks), where=own > 0)
    return b


def _normalised(score: SessionScore, evidence: RankEvidence) -> SessionScore:
    r"""At each rank :math:`E W \cdot \bar x/\bar W`, linear around its own value.

    Biased by order 1/N; the score of a session is :math:`E W (r + (x - r W)/\bar W)`.
    """
    counts = evidence.counts
    weights = _weights(score).clicked
    share = counts.sessions / max(counts.total, 1)
    wanted = share @ flat.query_sums(evidence.shown * weights, counts.offsets)
    x = share @ score.rank_means(counts)
    w = share @ SessionScore(score.base, weights, weights).rank_means(counts)
    ratio = np.divide(x, w, out=np.zeros_like(x), where=w > 0)
    scale = np.divide(wanted, w, out=np.ones_like(w), where=w > 0)
    base = score.base + float((wanted * ratio).sum())
    return SessionScore(
        base, (score.missed - ratio * weights) * scale, (score.clicked - ratio * weights) * scale
    )


_CONTROLS = {"none": _plain, "by-rank": _by_rank, "normalised": _normalised}
