r"""Weights of clicks, document by document, for given multipliers: compiled.

What `saferank.evaluation.click_weights` minimises falls apart into documents once the standard
error and each rank's sum of weights have a price; here each document's problem is solved exactly,
and what the weights add up to is summed in the same sweep.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from saferank._core.flat import Floats, Ints
from saferank._core.kernels import inlined, kernel, parallel_kernel
from saferank.evaluation.bias_set import BiasSet

_NEWTON = 40
_BLOCK = 256
"""Documents that are added up by themselves, so that sums are the same on any threads."""
_SCALARS = 4
SAMPLE = 1 << 15
"""Documents of a sample, at most."""
_GOLDEN = (5**0.5 - 1) / 2
"""Its multiples, modulo 1, are spread more evenly than those of any other number."""


@dataclass(frozen=True, eq=False)
class Prospect:
    """What is known before the clicks to judge by: what is shown, how often, and what to expect."""

    shown: Floats
    r""":math:`P_0(d, k)`, documents x ranks."""
    traffic: Floats
    """The share of the sessions that each document's query has."""
    predicted: Floats
    """Relevance of each document."""
    variance: Floats
    """Of a click around its prediction, documents x ranks."""
    sessions: int
    influence: float = 0.2
    """The most that one click may move the mean, in standard errors: normal theory needs many."""

    @cached_property
    def sample(self) -> Sample:
        """Documents that stand for all of them where there are many."""
        return Sample.of(self)


class Sample(NamedTuple):
    """Documents by which multipliers are chosen; sums over them estimate sums over all."""

    places: Ints
    """Which documents, in their order."""
    prospect: Prospect
    """Of these documents, the traffic of each divided by its chance to be among them."""

    @classmethod
    def of(cls, prospect: Prospect, size: int = SAMPLE) -> Sample:
        """Some documents, with a chance by how much of the traffic there is and shows them.

        One of each of `size` equal shares of that, at places within the shares that are spread
        evenly and never repeat: no chance is needed, and no length of lists can be in step.
        """
        reach = prospect.traffic * (0.5 + prospect.shown.sum(axis=1))
        reached = np.cumsum(reach)
        numbers = np.arange(size)
        points = (numbers + numbers * _GOLDEN % 1) * (reached[-1] / size)
        places, times = np.unique(
            np.minimum(np.searchsorted(reached, points, side="right"), reach.size - 1),
            return_counts=True,
        )
        chance = reach[places] * (size / reached[-1]) / times
        sample = Prospect(
            prospect.shown[places], prospect.traffic[places] / chance, prospect.predicted[places],
            prospect.variance[places], prospect.sessions, prospect.influence,
        )  # fmt: skip
        return cls(places, sample)


class _Documents(NamedTuple):
    """What is known of the documents; see `Prospect`."""

    loss: Floats
    shown: Floats
    traffic: Floats
    predicted: Floats
    variance: Floats


class _Limits(NamedTuple):
    """What weights are limited by."""

    ranks: Floats
    """Rows: alpha, its lowest and highest, up, down, lowest and highest beta."""
    curvature: float
    """2 lambda."""
    clip: float
    """The largest weight."""


@dataclass(frozen=True, eq=False)
class Multipliers:
    """Of the standard error (what a unit of variance costs), and of each rank's sum of weights."""

    error: float
    trust: Floats
    clip: float
    """The largest weight that leaves normal theory many clicks to rest on."""
    theta: Floats
    """Each document's worst relevance when it was last looked for: where the search starts."""


@dataclass(frozen=True, eq=False)
class WeightSums:
    """What weights add up to over all documents, per session."""

    clicks: float
    """What clicks are expected to say, without those that come by beta."""
    left: float
    """What is left of the loss, at its worst."""
    trust: float
    """What beta costs, where every document has one of its own."""
    variance: float
    """Of what one session says."""
    weights: Floats
    """Of each rank."""
    active: Floats
    """How much each rank's sum of weights gives way to its multiplier."""

    @classmethod
    def of(cls, blocks: Floats) -> WeightSums:
        """The sums of all blocks."""
        total = blocks.sum(axis=0)
        clicks, left, trust, variance = map(float, total[:_SCALARS])
        weights, active = total[_SCALARS:].reshape(2, -1)
        return cls(clicks, left, trust, variance, weights, active)

    def bound(self, prospect: Prospect, bias: BiasSet, quantile: float) -> float:
        """The bound if the predictions are right."""
        trust = self.trust if bias.per_document else float(bias.least_trust(self.weights).sum())
        error = quantile * np.sqrt(self.variance / max(prospect.sessions, 1))
        return float(self.clicks + bias.beta @ self.weights + self.left + trust + error)


def solve_documents(
    loss: Floats, prospect: Prospect, bias: BiasSet, multipliers: Multipliers, weights: Floats,
) -> WeightSums:  # fmt: skip
    """Fill `weights` with the solutions of the documents' problems, and add them up."""
    if bias.per_document:
        up, down = bias.beta - bias.beta_low, bias.beta_high - bias.beta
    else:
        up, down = multipliers.trust, -multipliers.trust
    ranks = np.stack(
        [bias.alpha, bias.alpha_low, bias.alpha_high, up, down, bias.beta_low, bias.beta_high]
    )
    limits = _Limits(ranks, 2 * multipliers.error, multipliers.clip)
    documents = _Documents(
        loss, prospect.shown, prospect.traffic, prospect.predicted, prospect.variance
    )
    blocks = np.zeros((-(-loss.size // _BLOCK), _SCALARS + 2 * bias.alpha.size))
    _solve(blocks.shape[0], documents, limits, multipliers.theta, weights, blocks)
    return WeightSums.of(blocks)


@parallel_kernel
def _solve(
    first: int, last: int, documents: _Documents, limits: _Limits, theta: Floats, weights: Floats,
    blocks: Floats,
) -> None:  # fmt: skip
    """Weights of the documents of some blocks, and each block's sums: the same on any threads."""
    loss, shown, _, predicted, variance = documents
    terms = np.zeros((3, shown.shape[1]))
    for block in range(first, last):
        for d in range(block * _BLOCK, min((block + 1) * _BLOCK, loss.size)):
            for k in range(shown.shape[1]):
                expected = limits.ranks[0, k] * predicted[d]
                terms[0, k] = expected + limits.ranks[3, k]
                terms[1, k] = expected - limits.ranks[4, k]
                terms[2, k] = 1 / (variance[d, k] * limits.curvature)
            left, theta[d] = _document(loss[d], shown[d], terms, limits, theta[d], weights[d])
            _add(d, left, documents, limits.ranks, weights[d], blocks[block])


@inlined
def _add(
    d: int, left: float, documents: _Documents, ranks: Floats, weights: Floats, sums: Floats
) -> None:
    """Add a document to the sums of its block."""
    shown, variance = documents.shown[d], documents.variance[d]
    traffic, predicted = documents.traffic[d], documents.predicted[d]
    clicks, trust, spread = 0.0, 0.0, 0.0
    for k in range(shown.size):
        weighed = traffic * shown[k] * weights[k]
        if weighed != 0:
            clicks += weighed * ranks[0, k]
            trust += max(-ranks[5, k] * weighed, -ranks[6, k] * weighed)
            spread += weighed * weights[k] * variance[k]
            sums[_SCALARS + k] += weighed
            sums[_SCALARS + shown.size + k] += traffic * shown[k] / variance[k]
    sums[0] += clicks * predicted
    sums[1] += traffic * max(left, 0.0)
    sums[2] += trust
    sums[3] += spread


@kernel
def _document(
    loss: float, shown: Floats, terms: Floats, limits: _Limits, start: float, weights: Floats
) -> tuple[float, float]:
    r"""A document's weights: those of its worst relevance theta, found by guarded Newton steps.

    For a given theta :math:`v = [\theta\alpha^- - \alpha\hat R - up]^+ / (2 \lambda s)`, or minus
    :math:`[\alpha\hat R - down - \theta\alpha^+]^+ / (2 \lambda s)`. What is left of the loss
    falls in theta; theta is 1 where some is left even then, 0 where none is anyway, else its root.
    Both are returned. Rows of `terms`: what is taken off at once, and the factor.
    """
    ranks, _, clip = limits
    low, high, theta, left = -1.0, 2.0, start, 0.0
    for _ in range(_NEWTON):
        left, slope = loss, 0.0
        for k in range(shown.size):
            weights[k] = 0.0
            if shown[k] <= 0:
                continue
            rise = (theta * ranks[1, k] - terms[0, k]) * terms[2, k]
            fall = (terms[1, k] - theta * ranks[2, k]) * terms[2, k]
            if rise > 0:
                weights[k] = min(rise, clip)
                left -= shown[k] * ranks[1, k] * weights[k]
                if rise < clip:
                    slope += shown[k] * ranks[1, k] ** 2 * terms[2, k]
            elif fall > 0:
                weights[k] = -min(fall, clip)
                left -= shown[k] * ranks[2, k] * weights[k]
                if fall < clip:
                    slope += shown[k] * ranks[2, k] ** 2 * terms[2, k]
        end = (left > 0 and theta == 1) or (left < 0 and theta == 0)
        if end or abs(left) < 1e-11:
            break
        if left > 0:
            low = theta
        else:
            high = theta
        if high - low < 1e-10:
            break
        flat = 2.0 if left > 0 else -1.0
        theta = min(max(theta + left / slope if slope > 0 else flat, 0.0), 1.0)
        if not low < theta < high:
            theta = 0.5 * (max(low, 0.0) + min(high, 1.0))
    return left, theta
