r"""The Lambda family: pairs weighted by how much a metric, bounded or not, would change.

LambdaRank pushes a pair apart by :math:`|\Delta DCG|`, what exchanging their ranks would change.
Here a document d has an exposure :math:`\omega_d` and is paid
:math:`f_d(\omega) = \mu_d \min(\omega, c_d)` if its gain :math:`\mu_d \ge 0`, else
:math:`\mu_d \max(\omega, b_d)`. Lifting i over j moves the difference :math:`\Delta w` of their
ranks' weights from one to the other:

.. math:: \Delta_{ij} = f_i(\omega_i + \Delta w) - f_i(\omega_i)
          + f_j(\omega_j - \Delta w) - f_j(\omega_j)

Without bounds that is :math:`(\mu_i - \mu_j) \Delta w`, LambdaRank's. With PRPO's bounds it is the
change of the bounded metric. The f are concave, so :math:`\Delta_{ij}` and :math:`\Delta_{ji}` are
never both positive: the pair is pushed the way that pays,

.. math:: \lambda_{ij} = \Delta_{ij}\,\sigma(s_j - s_i) \text{ where } \Delta_{ij} > 0 ,

and not at all where neither does: production itself at :math:`\delta = 1` is a fixed point.

LambdaLoss (Wang et al., 2018) derives pair weights as bounds of a metric. Its NDCG-Loss2 moves the
weight between ranks as far apart as the pair, counted from the first,
:math:`\delta w = w_{|r_i - r_j|} - w_{|r_i - r_j| + 1}`, in place of :math:`\Delta w`; NDCG-Loss2++
adds ten times that to LambdaRank's; NDCG-Loss1 weighs a pair by the better document alone,
:math:`(\mu_i - \min_q \mu)\, w_{r_i}` (gains above the query's lowest: rankings do not differ in
what is taken off). Weights beyond the first K ranks are 0 in each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank._core.kernels import kernel, parallel_kernel
from saferank.objectives.goals import (
    Goal,
    QueryBlock,
    RewardRisk,
    Risk,
    RiskPenalised,
    ValueGradient,
)
from saferank.objectives.in_exposures import Objective, PairWeights, Queries, Terms
from saferank.plackett_luce import exposure


class _Paid(NamedTuple):
    """Exposures, what they are paid, and the bounds of what is paid for, one per document."""

    omega: Floats
    gain: Floats
    low: Floats
    high: Floats


class _Ranks(NamedTuple):
    """Weights of the ranks, and how they weigh a pair; see `PairWeights`."""

    weights: Floats
    swap: float
    gap: float
    own: float


@kernel
def _change(gain: float, low: float, high: float, omega: float, moved: float) -> float:
    """f(omega + moved) - f(omega): exactly 0 where a bound allows no more."""
    if gain >= 0:
        return gain * (min(omega + moved, high) - min(omega, high))
    return gain * (max(omega + moved, low) - max(omega, low))


@kernel
def _weight(weights: Floats, rank: int) -> float:
    return float(weights[rank]) if rank < weights.size else 0.0


@parallel_kernel
def _lambdas(
    start: int,
    stop: int,
    scores: Floats,
    offsets: Ints,
    paid: _Paid,
    ranks: _Ranks,
    out: tuple[Floats, Floats],
) -> None:
    omega, gain, low, high = paid
    weights, swap, gap, own = ranks
    push, bend = out
    for query in range(start, stop):
        first, last = offsets[query], offsets[query + 1]
        lowest = gain[first:last].min() if last > first else 0.0
        order = first + np.argsort(-scores[first:last], kind="mergesort")
        for rank in range(min(weights.size, last - first)):
            for other in range(rank + 1, last - first):
                apart = _weight(weights, rank) - _weight(weights, other)
                between = other - rank
                near = _weight(weights, between - 1) - _weight(weights, between)
                for turn in range(2):
                    up, down = order[rank], order[other]
                    if turn == 1:
                        up, down = down, up
                    change = 0.0
                    for factor, moved in ((swap, apart), (gap, near)):
                        if factor != 0:
                            lifted = _change(gain[up], low[up], high[up], omega[up], moved)
                            lowered = _change(
                                gain[down], low[down], high[down], omega[down], -moved
                            )
                            change += factor * (lifted + lowered)
                    if own != 0 and gain[up] > gain[down]:
                        at = _weight(weights, rank if turn == 0 else other)
                        change += own * (gain[up] - lowest) * at
                    if change > 0:
                        wrong = 1 / (1 + np.exp(scores[up] - scores[down]))
                        push[up] += change * wrong
                        push[down] -= change * wrong
                        bend[up] += change * wrong * (1 - wrong)
                        bend[down] += change * wrong * (1 - wrong)


def lambdas(
    scores: Floats,
    weights: Floats,
    offsets: Ints,
    omega: Floats,
    gain: Floats,
    limits: tuple[Floats, Floats],
    pairs: PairWeights,
) -> tuple[Floats, Floats]:
    """Push up and curvature of each score, from the pairs with one of them in the first K ranks."""
    push, bend = np.zeros(scores.size), np.zeros(scores.size)
    ranks = _Ranks(weights, pairs.swap, pairs.gap, pairs.own)
    _lambdas(offsets.size - 1, scores, offsets, _Paid(omega, gain, *limits), ranks, (push, bend))
    return push, bend


@dataclass(frozen=True)
class LambdaGoal(RiskPenalised):
    """Pushes by pairs; the value, which decides when to stop, is the objective's own."""

    objective: Objective
    terms: Terms
    weights: Floats
    share: Floats
    """N_q / N."""

    def values(self, scores: Floats, place: QueryBlock) -> RewardRisk:
        """Reward of some queries."""
        return self._judge(scores, place)[-1]

    def value_and_gradient(
        self, scores: Floats, place: QueryBlock, risk: Risk | None
    ) -> ValueGradient:
        """Judge some queries."""
        del risk
        omega, terms, share, sums = self._judge(scores, place)
        limits, pairs = self.objective.limits(terms), self.objective.pairs
        push, bend = lambdas(scores, self.weights, place.offsets, omega, terms.gain, limits, pairs)
        return ValueGradient(*sums, share * push, share * bend)

    def _judge(self, scores: Floats, place: QueryBlock) -> tuple[Floats, Terms, Floats, RewardRisk]:
        """Exposures, terms and shares of traffic of documents, and the sums of queries."""
        omega = exposure(scores, self.weights, place.offsets)
        terms = Terms(*(term[place.positions] for term in self.terms))
        share = flat.repeat_per_document(self.share[place.queries], place.offsets)
        sums = flat.query_sums(share * self.objective.reward(omega, terms).value, place.offsets)
        return omega, terms, share, RewardRisk(sums, np.zeros_like(sums))


def pair_goal(objective: Objective, queries: Queries) -> Goal:
    """The goal of an objective that pushes pairs."""
    return LambdaGoal(len(queries), objective, queries.terms, queries.weights, queries.share)
