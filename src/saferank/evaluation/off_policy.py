"""Off-policy estimates of a new ranker, of production and of their difference, from counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank._core.flat import Floats
from saferank._core.names import part_name
from saferank.clicks import ClickModel
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.errors import require
from saferank.estimators import Evidence
from saferank.estimators.estimator_table import EstimatorLike
from saferank.estimators.propensities import by_policy
from saferank.evaluation.contrast import Contrast
from saferank.evaluation.controls import joint_scores
from saferank.evaluation.intervals import Interval, QueryScores, interval
from saferank.evaluation.measuring import Said, Variance, measured_scores, variance_bound
from saferank.evaluation.scored_policies import (
    Deployed,
    Policy,
    all_scores,
    check_policy,
    exposure_of,
    production_policy,
    rank_weights,
)
from saferank.evaluation.sessions import LogRows, session_moments
from saferank.evaluation.support import Support
from saferank.logs.sources import LogName
from saferank.policies import ProductionPolicy
from saferank.policies.production import filled_ranks


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a log says of a new ranker, of production, and of the difference of the two.

    See Also
    --------
    evaluate : makes one.

    Examples
    --------
    >>> import numpy as np
    >>> import saferank as sr
    >>> items = sr.data.synthetic("small", queries=40, seed=0).train
    >>> model, shown = sr.clicks.trust_bias(), np.zeros(items.documents)
    >>> counts = sr.clicks.simulate(items, shown, model, sessions=20_000, seed=0)
    >>> evaluation = sr.evaluation.evaluate(items.labels, items, counts, model, production=shown)
    >>> bool(evaluation.interval().lower > 0), evaluation.estimator
    (True, 'affine-ips')
    """

    new: QueryScores
    """Utility of the new ranker: mean and variance of each query."""
    production: QueryScores
    """The same of production."""
    difference: QueryScores
    """The same of the new ranker less production, session by session."""
    estimator: str
    """The name of the estimator."""
    control: str
    """The name of the control variate that steadies it."""
    support: Support
    """How many sessions the estimate rests on, and how far it leaves what they show."""

    @property
    def unsupported(self) -> float:
        """Exposure per session of the new ranker on documents that production never shows."""
        return self.support.unsupported

    def record(
        self, method: str = "clustered", confidence: float = 0.95, seed: int = 0
    ) -> dict[str, Any]:
        """Estimates with intervals, for JSON."""
        return {
            "estimator": self.estimator,
            "control": self.control,
            "unsupported": self.unsupported,
            **{
                name: interval(getattr(self, name), method, confidence, seed=seed).to_dict()
                for name in ("new", "production", "difference")
            },
        }

    def interval(
        self, method: str = "clustered", confidence: float = 0.95, *, seed: int = 0
    ) -> Interval:
        """The interval of the difference to production."""
        return interval(self.difference, method, confidence, seed=seed)


def evaluate(
    new: Policy,
    data: RankingData,
    counts: Counts,
    click_model: ClickModel,
    *,
    production: Policy | ProductionPolicy | None = None,
    against: Policy | None = None,
    estimator: EstimatorLike = "affine-ips",
    control: str = "additive",
    predictions: npt.ArrayLike | None = None,
    weights: npt.ArrayLike | None = None,
    deployed: Deployed = "sampled",
    propensities: Literal["exact", "log"] = "exact",
    variance: Variance = "ranks",
    log: LogName | LogRows | None = None,
) -> Evaluation:
    """Estimate from a log's counts how a new ranker would do, and how production does.

    Parameters
    ----------
    new
        The new ranker, its scores (one per document), or a function of the data.
    data
        The items.
    counts
        Sessions that the new ranker was not learned from.
    click_model
        What a click means.
    production
        Its policy, or its scores, which must then have been drawn from by Plackett-Luce.
    against
        Who the new ranker is compared with, where it is not production.
    estimator
        A name of `estimators.ESTIMATORS` with a session form, or an `Estimator`.
    control
        A name of `CONTROLS`: which control variate steadies it.
    predictions
        Of relevance, one per document, not fitted to these sessions: for DM and DR.
    weights
        Of the ranks, K of them; by default alpha + beta.
    deployed
        "sampled" or "sorted": how the new ranker's scores become rankings.
    propensities
        "exact" by production's policy, or "log": averaged from what was shown.
    variance
        Without a log: that of ranks that do not depend on each other ("ranks"), or an upper bound
        for any dependence ("bound").
    log
        The rows that the counts are of, with their `session_id`, for the exact variance within
        queries (one pass); `LogRows` says which of its sessions are meant.

    Returns
    -------
    Evaluation
        `evaluation.interval()` is that of the difference to production.

    Examples
    --------
    >>> import saferank as sr
    >>> items = sr.data.synthetic("small", queries=50, seed=0).train
    >>> shown, click_model = np.zeros(items.documents), sr.clicks.trust_bias()
    >>> counts = sr.clicks.simulate(items, shown, click_model, sessions=5000, seed=0)
    >>> evaluation = evaluate(items.labels, items, counts, click_model, production=shown)
    >>> evaluation.interval().lower > 0
    True
    """
    same = np.array_equal(data.offsets, counts.offsets)
    require(same, "counts", f"of the data's documents ({data!r})", repr(counts))
    w = click_model.exposure_weights if weights is None else rank_weights(weights)
    policy = check_policy(new, data, "new")
    shown = production_policy(production, data)
    if propensities == "log":
        shown = replace(ProductionPolicy.observed(counts), filled=filled_ranks(counts))
    scores = all_scores(policy, data, "new")
    omega = exposure_of(scores, w, data.offsets, deployed, shown.filled)
    if against is None:
        old = production_policy(production, data, deployed)
        omega0 = replace(old, filled=shown.filled).exposure(w)
    else:
        other = all_scores(check_policy(against, data, "against"), data)
        omega0 = exposure_of(other, w, data.offsets, deployed, shown.filled)
    evidence = Evidence(
        counts,
        click_model,
        by_policy(shown, click_model, w),
        None
        if predictions is None
        else flat.check_values("predictions", predictions, data.offsets),
    )
    rows = None if log is None else (LogRows.of(log), data)
    contrast = Contrast(omega, omega0, evidence, rows)
    return evaluate_exposures(contrast, estimator=estimator, control=control, variance=variance)


def evaluate_exposures(
    contrast: Contrast,
    *,
    estimator: EstimatorLike = "affine-ips",
    control: str = "additive",
    variance: Variance = "ranks",
) -> Evaluation:
    """The same for exposures that are known: one joint estimate, so that new = old + difference.

    The control variate is that of the difference, in all three.
    """
    new, production, difference = _measured(contrast, estimator, control, variance)
    name = estimator if isinstance(estimator, str) else part_name(estimator)
    return Evaluation(new, production, difference, name, control, contrast.support())


def _measured(
    contrast: Contrast, estimator: EstimatorLike, control: str, variance: Variance
) -> list[QueryScores]:
    """Scores of new, production and difference."""
    evidence, exposures = contrast.evidence, _exposures(contrast)
    if control == "none" and isinstance(estimator, str) and contrast.rows is None:
        return _measured_apart(contrast, estimator, variance)
    scores = joint_scores(contrast.omega, contrast.omega0, evidence, estimator, control)
    measured = [
        measured_scores(score, exposure, evidence, variance)
        for score, exposure in zip(scores, exposures, strict=True)
    ]
    if contrast.rows is None:
        return measured
    return session_moments(*contrast.rows, evidence.counts, scores, measured)


def _measured_apart(contrast: Contrast, estimator: str, variance: Variance) -> list[QueryScores]:
    """The same some queries at a time, where none of them has a say in what others say."""
    said: list[list[Said]] = [[], [], []]
    bases: list[list[Floats]] = [[], [], []]
    for part in contrast.blocks():
        scores = joint_scores(part.omega, part.omega0, part.evidence, estimator, "none")
        for number, score in enumerate(scores):
            said[number].append(Said.of(score, part.evidence.counts, variance))
            bases[number].append(score.base)
    return [
        Said.join(own).scores(
            np.concatenate(base), contrast.evidence.counts,
            variance_bound(exposure, contrast.evidence),
        )
        for own, base, exposure in zip(said, bases, _exposures(contrast), strict=True)
    ]  # fmt: skip


def _exposures(contrast: Contrast) -> tuple[Floats, Floats, Floats]:
    """Of the new policy, of production, and their difference."""
    return contrast.omega, contrast.omega0, contrast.omega - contrast.omega0
