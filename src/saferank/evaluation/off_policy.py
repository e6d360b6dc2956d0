"""Off-policy estimates of a new ranker, of production and of their difference, from counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from saferank import flat
from saferank.clicks import ClickModel
from saferank.data import RankingData
from saferank.errors import require
from saferank.evaluation.intervals import Interval, QueryScores, interval
from saferank.evaluation.policies import (
    Deployed,
    Policy,
    all_scores,
    check_policy,
    exposure_of,
    rank_weights,
)
from saferank.evaluation.session_scores import (
    CONTROLS,
    ESTIMATORS,
    SessionScore,
    rank_covariances,
)
from saferank.evaluation.sessions import session_moments
from saferank.flat import Floats
from saferank.gains import Evidence, exact, from_log
from saferank.logs import Counts
from saferank.logs.sources import LogName

Variance = Literal["ranks", "bound"]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a log says of a new ranker, of production, and of the difference of the two."""

    new: QueryScores
    production: QueryScores
    difference: QueryScores
    estimator: str
    control: str
    unsupported: float
    """Exposure a session that the new ranker gives to documents which production never shows."""

    def record(
        self, method: str = "clustered", confidence: float = 0.95, seed: int = 0
    ) -> dict[str, Any]:
        """Estimates with intervals, for JSON."""
        return {
            "estimator": self.estimator,
            "control": self.control,
            "unsupported": self.unsupported,
            **{
                name: interval(getattr(self, name), method, confidence, seed=seed).record()
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
    users: ClickModel,
    *,
    production: Policy | None = None,
    against: Policy | None = None,
    estimator: str = "affine-ips",
    control: str = "additive",
    predictions: npt.ArrayLike | None = None,
    weights: npt.ArrayLike | None = None,
    deployed: Deployed = "sampled",
    propensities: Literal["exact", "log"] = "exact",
    variance: Variance = "ranks",
    log: LogName | None = None,
) -> Evaluation:
    """Estimate from a log's counts how a new ranker would do, and how production does.

    `against` is who the new ranker is compared with, where it is not production. `weights` are
    those of the ranks (alpha + beta where not given). `propensities` come from
    production's scores, which must then have been drawn from by Plackett-Luce, or from the log.
    The variance within queries is exact with `log`, the rows that the counts are of, with their
    `session_id` (one pass). From counts alone it is that of ranks that do not depend on each
    other (`ranks`), or an upper bound for any dependence (`bound`). DM and DR need `predictions`
    of relevance that were not fitted to the same sessions.

    >>> import saferank as sr
    >>> items = sr.data.synthetic("small", queries=50, seed=0).train
    >>> shown, users = np.zeros(items.documents), sr.clicks.trust_bias()
    >>> counts = sr.clicks.simulate(items, shown, users, sessions=5000, seed=0)
    >>> found = evaluate(items.labels, items, counts, users, production=shown)
    >>> found.interval().lower > 0
    True
    """
    require(estimator in ESTIMATORS, "estimator", f"one of {', '.join(ESTIMATORS)}", estimator)
    require(control in CONTROLS, "control", f"one of {', '.join(CONTROLS)}", control)
    same = np.array_equal(data.offsets, counts.offsets)
    require(same, "counts", f"of the data's documents ({data!r})", repr(counts))
    policy, old = check_policy(new, data, "new"), check_policy(production, data, "production")
    w = users.exposure_weights if weights is None else rank_weights(weights)
    scores, shown = all_scores(policy, data, "new"), all_scores(old, data, "production")
    omega = exposure_of(scores, w, data.offsets, deployed)
    other = shown if against is None else all_scores(check_policy(against, data, "against"), data)
    omega0 = exposure_of(other, w, data.offsets, deployed)
    known = Evidence(
        counts,
        users,
        exact(shown, data.offsets, users, w)
        if propensities == "exact"
        else from_log(counts, users, w),
        None
        if predictions is None
        else flat.check_values("predictions", predictions, data.offsets),
    )

    def of(exposure: Floats) -> SessionScore:
        return CONTROLS[control](ESTIMATORS[estimator](known, exposure), known, exposure)

    after, before = of(omega), of(omega0)
    # A control that is linear in the exposure is at its best on the difference itself.
    difference = after - before if control == "normalised" else of(omega - omega0)
    pairs = ((after, omega), (before, omega0), (difference, omega - omega0))
    measured = [measured_scores(score, exposure, known, variance) for score, exposure in pairs]
    if log is not None:
        scores_ = [score for score, _ in pairs]
        measured = session_moments(log, data, counts, scores_, measured)
    share = flat.spread(counts.sessions / max(counts.total, 1), counts.offsets)
    unsupported = float((share * omega)[known.propensities.rho <= 0].sum())
    after_, before_, difference_ = measured
    return Evaluation(after_, before_, difference_, estimator, control, unsupported)


def measured_scores(
    score: SessionScore, omega: Floats, known: Evidence, variance: Variance
) -> QueryScores:
    """What is known of each query from its counts: mean, variance, range and the bound."""
    counts = known.counts
    at_rank = np.maximum(rank_covariances(score, score, counts), 0.0)
    require(variance in ("ranks", "bound"), "variance", "'ranks' or 'bound'", variance)
    within = at_rank.sum(axis=1) if variance == "ranks" else np.sqrt(at_rank).sum(axis=1) ** 2
    means = score.means(counts)
    estimate = counts.sessions @ means / max(counts.total, 1)
    # One session says nothing of its query's variance: its distance to all others errs upwards.
    alone = counts.sessions <= 1
    within = within * counts.sessions / np.maximum(counts.sessions - 1, 1)
    within[alone] = (means[alone] - estimate) ** 2
    low, high = _range(score, counts)
    return QueryScores(counts.sessions, means, within, low, high, _theorem(omega, known), variance)


def _range(score: SessionScore, counts: Counts) -> tuple[Floats, Floats]:
    """What a session of each query can say at least and at most; a rank may be empty."""
    low, high = score.base.copy(), score.base.copy()
    filled = np.diff(counts.offsets) > 0
    starts = counts.offsets[:-1][filled]
    if starts.size:
        least = np.minimum(np.minimum(score.missed, score.clicked), 0.0)
        most = np.maximum(np.maximum(score.missed, score.clicked), 0.0)
        low[filled] += np.minimum.reduceat(least, starts, axis=0).sum(axis=1)
        high[filled] += np.maximum.reduceat(most, starts, axis=0).sum(axis=1)
    return low, high


def _theorem(omega: Floats, known: Evidence) -> Floats:
    r"""The paper's bound of one session's variance: :math:`2 C^2 \sum_d \omega^2/\omega_0`."""
    users, seen = known.users, known.propensities.seen
    with np.errstate(divide="ignore", invalid="ignore"):
        largest = np.max(np.where(users.beta > 0, users.beta / users.alpha, 0.0))
        terms = np.where(omega != 0, omega**2 / seen, 0.0)
    return np.asarray(
        2 * (1 + largest) ** 2 * flat.query_sums(terms, known.counts.offsets), dtype=np.float64
    )
