r"""From scores of sessions to an estimate with an interval: averaged and bounded in this one place.

Two different things can be meant by the utility of a policy. `normal` and `cantelli` speak of the
queries of the log, each with its share :math:`N_q/N` of the sessions; `clustered`, `bootstrap` and
`bernstein` speak of the population that the log's queries or sessions were drawn from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from saferank._core.flat import Floats, Ints
from saferank._core.seeds import generator
from saferank._core.tails import normal_quantile, student_quantile
from saferank.errors import require

RESAMPLES = 2000


@dataclass(frozen=True, eq=False)
class QueryScores:
    """Scores of sessions, unreduced: what is known of each query."""

    sessions: Ints
    mean: Floats
    """Mean score of the query's sessions."""
    variance: Floats
    """Variance of the score of one session within the query."""
    low: Floats
    """No session of the query can have a lower score; `high`: none a higher."""
    high: Floats
    bound: Floats
    """The paper's upper bound of the variance of one session."""
    variance_from: str
    """Where the variance comes from: `sessions` (exact), `ranks` or `bound` (from counts)."""
    least_variance: float = 0.0
    """Of one session's score: what the click model expects at least. Few sessions hardly ever show
    the rare ones with large weights, and their own variance is then too small."""
    cluster: Ints | None = None
    """The user of each query, where queries of one user depend on each other."""

    def sums(self, values: Floats) -> Floats:
        """Sums over the queries seen of each user, or one value per query seen."""
        seen = self.sessions > 0
        if self.cluster is None:
            return values[seen]
        _, unit = np.unique(self.cluster[seen], return_inverse=True)
        return np.bincount(unit, values[seen]).astype(np.float64)

    @property
    def total(self) -> int:
        """N, all sessions."""
        return int(self.sessions.sum())

    @property
    def share(self) -> Floats:
        """N_q / N."""
        return self.sessions / max(self.total, 1)

    @property
    def estimate(self) -> float:
        """The mean over all sessions."""
        return float(self.share @ self.mean)


@dataclass(frozen=True)
class Interval:
    """An estimate and where the truth lies, with the stated confidence.

    See Also
    --------
    interval : makes one.

    Examples
    --------
    >>> interval = Interval(0.2, 0.1, 0.3, "clustered", 0.95)
    >>> interval.lower > 0
    True
    """

    estimate: float
    """The value that the sessions say."""
    lower: float
    """The truth lies above it."""
    upper: float
    """The truth lies below it."""
    method: str
    """A name of `INTERVALS`."""
    confidence: float
    """Probability that the interval holds the truth, at least."""

    def to_dict(self) -> dict[str, Any]:
        """The interval for JSON."""
        return asdict(self)


def interval(
    scores: QueryScores, method: str = "clustered", confidence: float = 0.95, *, seed: int = 0
) -> Interval:
    """An interval by one of the methods in `INTERVALS`; each side errs with half of the rest.

    So a one-sided bound of confidence 1 - d is the `lower` of an interval of 1 - 2 d.

    Parameters
    ----------
    scores
        Of sessions, reduced to queries; an `Evaluation` has three of them.
    method
        A name of `INTERVALS`.
    confidence
        In (0, 1).
    seed
        Of the bootstrap.

    Returns
    -------
    Interval
        Estimate, lower and upper end.

    Examples
    --------
    >>> ones, zeros = np.ones(4), np.zeros(4)
    >>> scores = QueryScores(np.full(4, 25), ones, ones, zeros, 2 * ones, ones, "ranks")
    >>> round(interval(scores, "normal").upper, 3)
    1.196
    """
    require(method in INTERVALS, "method", f"one of {', '.join(INTERVALS)}", method)
    require(0 < confidence < 1, "confidence", "in (0, 1)", confidence)
    require(scores.total > 0, "counts", "of at least one session", scores.total)
    lower, upper = INTERVALS[method](scores, (1 - confidence) / 2, seed)
    return Interval(scores.estimate, float(lower), float(upper), method, confidence)


Bounds = tuple[float, float]


def _around(estimate: float, width: float) -> Bounds:
    return estimate - width, estimate + width


def normal(scores: QueryScores, tail: float, seed: int) -> Bounds:
    """Normal theory for the log's queries: :math:`\\sum_q (N_q/N)^2 \\sigma_q^2 / N_q`."""
    del seed
    error = (
        np.sqrt(max(float(scores.sessions @ scores.variance), _least_variance(scores)))
        / scores.total
    )
    return _around(scores.estimate, float(normal_quantile(tail) * error))


def clustered(scores: QueryScores, tail: float, seed: int) -> Bounds:
    """Student's t for a population of queries (or users), within which sessions may depend."""
    del seed
    off = scores.sums(scores.sessions * (scores.mean - scores.estimate))
    count = off.size
    if count < 2:
        return -np.inf, np.inf
    error = (
        np.sqrt(max(count / (count - 1) * float(off @ off), _least_variance(scores))) / scores.total
    )
    return _around(scores.estimate, _student(tail, count - 1) * error)


@lru_cache(maxsize=64)
def _student(tail: float, freedom: int) -> float:
    """Quantiles of Student's t: some hundred bounds of a curve ask for the same."""
    return float(student_quantile(tail, freedom))


def _least_variance(scores: QueryScores) -> float:
    """The least variance of the sum over all sessions."""
    return scores.total * scores.least_variance


def bootstrap(scores: QueryScores, tail: float, seed: int) -> Bounds:
    """Percentiles of the estimate over queries (or users) resampled with replacement."""
    rng = generator(seed, "bootstrap")
    sums = scores.sums(scores.sessions * scores.mean)
    sessions = scores.sums(scores.sessions.astype(np.float64))
    estimates = np.empty(RESAMPLES)
    at_a_time = max(1, (1 << 21) // sums.size)
    for first in range(0, RESAMPLES, at_a_time):
        rows = min(at_a_time, RESAMPLES - first)
        drawn = rng.integers(0, sums.size, (rows, sums.size))
        estimates[first : first + rows] = sums[drawn].sum(axis=1) / sessions[drawn].sum(axis=1)
    lower, upper = np.quantile(estimates, [tail, 1 - tail])
    return float(lower), float(upper)


def bernstein(scores: QueryScores, tail: float, seed: int) -> Bounds:
    r"""Empirical Bernstein (Maurer and Pontil, 2009) over sessions drawn independently.

    .. math:: \sqrt{2 V \ln(2/t) / N} + 7 R \ln(2/t) / (3(N-1))
    """
    del seed
    count = scores.total
    if count < 2:
        return -np.inf, np.inf
    seen = scores.sessions > 0
    spread = float(scores.high[seen].max() - scores.low[seen].min())
    between = scores.share @ (scores.mean - scores.estimate) ** 2
    variance = float(scores.share @ scores.variance + between) * count / (count - 1)
    log = np.log(2 / tail)
    width = np.sqrt(2 * variance * log / count) + 7 * spread * log / (3 * (count - 1))
    return _around(scores.estimate, float(width))


def cantelli(scores: QueryScores, tail: float, seed: int) -> Bounds:
    r"""The paper's theorem: Cantelli's inequality with its bound of the variance.

    .. math:: C \sqrt{\frac{2Z}{N} \frac{1-t}{t}\, d_2(\omega \Vert \omega_0)}, \quad
              C = 1 + \max_k \beta_k/\alpha_k
    """
    del seed
    variance = float(scores.share @ scores.bound) / scores.total
    return _around(scores.estimate, float(np.sqrt((1 - tail) / tail * variance)))


def query_lower(scores: QueryScores, tail: float, method: str = "bernstein") -> Floats:
    """A lower bound of each query's own utility; minus infinity where it has too few sessions."""
    require(method in ("normal", "bernstein"), "method", "normal or bernstein", method)
    count = np.maximum(scores.sessions, 2)
    if method == "normal":
        width = normal_quantile(tail) * np.sqrt(scores.variance / count)
    else:
        log = np.log(2 / tail)
        width = np.sqrt(2 * scores.variance * log / count)
        width += 7 * (scores.high - scores.low) * log / (3 * (count - 1))
    lower: Floats = np.where(scores.sessions >= 2, scores.mean - width, -np.inf)
    return lower


INTERVALS: dict[str, Callable[[QueryScores, float, int], Bounds]] = {
    "normal": normal,
    "clustered": clustered,
    "bootstrap": bootstrap,
    "bernstein": bernstein,
    "cantelli": cantelli,
}
