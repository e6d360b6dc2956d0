r"""Sampled gradients of a weighted sum of exposures, behind the same call as the exact one.

For comparison, and for those who want them. With :math:`R(y) = \sum_k w_k g_{y_k}` the gradient of
:math:`\sum_d g_d \omega(d)` is that of the expectation of R over rankings y.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank._core.seeds import generator
from saferank.errors import require
from saferank.plackett_luce.coordinate_gradients import stochastic_rank, stochastic_rank_gumbel
from saferank.plackett_luce.exact import check_weights, exposure_gradient
from saferank.plackett_luce.sampling import log_remaining, sample_query


class Gradient(Protocol):
    """The gradient of the sum of slope times exposure, in the scores."""

    def __call__(
        self,
        scores: npt.ArrayLike,
        weights: npt.ArrayLike,
        offsets: npt.ArrayLike,
        slope: npt.ArrayLike,
        *,
        samples: int = 1000,
        seed: int = 0,
    ) -> Floats:
        """One value per document."""


def reinforce(
    scores: npt.ArrayLike,
    weights: npt.ArrayLike,
    offsets: npt.ArrayLike,
    slope: npt.ArrayLike,
    *,
    samples: int = 1000,
    seed: int = 0,
) -> Floats:
    r"""REINFORCE with the mean reward as control variate, unbiased.

    .. math:: \frac{1}{n-1} \sum_i (R(y_i) - \bar R) \nabla_s \log P(y_i)

    (n - 1, not n: the mean contains the reward it is subtracted from.)
    """
    require(samples >= 2, "samples", "at least 2", samples)
    queries = _Queries(scores, weights, offsets, slope, samples, seed)
    for query in queries:
        reward = query.pay.sum(axis=1)
        advantage = (reward - reward.mean())[:, None] / (samples - 1)
        # d log P / d s_d: 1 where d is ranked, minus its rate over Z_r for each r up to its rank
        pushed = np.cumsum(query.inverse, axis=1)
        ranked = query.scatter(advantage * (1 - query.rates[query.rankings] * pushed))
        unranked = query.rates * (advantage * pushed[:, -1:]).sum()
        unranked -= query.rates * query.scatter(advantage * pushed[:, -1:])
        query.result[:] = ranked - unranked
    return queries.gradient


def pl_rank(
    scores: npt.ArrayLike,
    weights: npt.ArrayLike,
    offsets: npt.ArrayLike,
    slope: npt.ArrayLike,
    *,
    samples: int = 1000,
    seed: int = 0,
) -> Floats:
    r"""PL-Rank-3 (Oosterhuis 2022): rewards that follow a document, and chances it had before.

    With :math:`PR_r = \sum_{x \ge r} w_x g_{y_x}`, :math:`RI_r = \sum_{x \le r} PR_x / Z_x` and
    :math:`DR_r = \sum_{x \le r} w_x / Z_x`, Z the sum of the rates left before a rank, the mean of

    .. math:: PR_{rank(d)+1} + e^{s_d} (g_d DR_{rank(d)} - RI_{rank(d)})
    """
    require(samples >= 1, "samples", "at least 1", samples)
    queries = _Queries(scores, weights, offsets, slope, samples, seed)
    for query in queries:
        following = np.cumsum(query.pay[:, ::-1], axis=1)[:, ::-1]
        risk = np.cumsum(following * query.inverse, axis=1)
        direct = np.cumsum(query.weights * query.inverse, axis=1)
        # an unranked document has the values of the last rank, a ranked one those of its own
        after = query.scatter(following - query.pay)
        risk_of = risk[:, -1].sum() + query.scatter(risk - risk[:, -1:])
        direct_of = direct[:, -1].sum() + query.scatter(direct - direct[:, -1:])
        query.result[:] = (after + query.rates * (query.slope * direct_of - risk_of)) / samples
    return queries.gradient


def exact(
    scores: npt.ArrayLike,
    weights: npt.ArrayLike,
    offsets: npt.ArrayLike,
    slope: npt.ArrayLike,
    *,
    samples: int = 0,
    seed: int = 0,
) -> Floats:
    """The exact gradient; `samples` and `seed` have no part in it."""
    del samples, seed
    return exposure_gradient(scores, weights, offsets, slope)


GRADIENTS: dict[str, Gradient] = {
    "exact": exact,
    "reinforce": reinforce,
    "pl-rank": pl_rank,
    "stochastic-rank": stochastic_rank,
    "stochastic-rank-gumbel": stochastic_rank_gumbel,
}


@dataclass(frozen=True, eq=False)
class _Query:
    """Sampled rankings of one query and what both estimators need of them."""

    rankings: Ints
    """Samples x ranks, positions within the query."""
    rates: Floats
    """exp(score), relative to the highest."""
    inverse: Floats
    """1 / Z before each rank, Z relative to the highest rate too; samples x ranks."""
    pay: Floats
    """Weight of the rank times slope of the document there; samples x ranks."""
    weights: Floats
    slope: Floats
    result: Floats

    def scatter(self, values: Floats) -> Floats:
        """Sum of the values of each document over the rankings and ranks where it stands."""
        spread = np.broadcast_to(values, self.rankings.shape)
        total = np.bincount(self.rankings.ravel(), spread.ravel(), minlength=self.rates.size)
        return total.astype(np.float64, copy=False)


class _Queries:
    """The queries of a call, one after another, and the gradient that they fill."""

    def __init__(
        self,
        scores: npt.ArrayLike,
        weights: npt.ArrayLike,
        offsets: npt.ArrayLike,
        slope: npt.ArrayLike,
        samples: int,
        seed: int,
    ) -> None:
        self.offsets = flat.check_offsets(offsets, np.size(scores))
        self.scores = flat.check_values("scores", scores, self.offsets)
        self.slope = flat.check_values("slope", slope, self.offsets)
        self.weights = check_weights(weights)
        self.samples, self.seed = samples, seed
        self.gradient = np.zeros(self.scores.size)

    def __iter__(self) -> Iterator[_Query]:
        for query, (first, last) in enumerate(pairwise(self.offsets)):
            if last > first:
                rng = generator(self.seed, "gradient", query)
                yield self._query(slice(first, last), rng)

    def _query(self, own: slice, rng: np.random.Generator) -> _Query:
        scores, slope = self.scores[own], self.slope[own]
        weights = self.weights[: scores.size]
        rankings = np.empty((self.samples, weights.size), dtype=np.int64)
        sample_query(scores, rankings, rng)
        inverse = np.exp(scores.max() - log_remaining(rankings, scores))
        rates, pay = np.exp(scores - scores.max()), weights * slope[rankings]
        return _Query(rankings, rates, inverse, pay, weights, slope, self.gradient[own])
