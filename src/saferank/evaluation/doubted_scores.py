r"""What sessions say of a doubted loss: mean, variance and range of each query, in one sweep.

A session that shows document d at rank k says :math:`v_{d,k} (c - \hat c_{d,k})`, its click around
what was predicted of it, on top of its query's base: what may be left of the loss at worst, and
what :math:`\beta` takes off. `saferank.evaluation.measuring` does the same for any score in more
passes; this is asked for some hundred times per curve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from saferank._core.flat import Floats, Ints
from saferank._core.kernels import parallel_kernel
from saferank.counts import Counts
from saferank.evaluation.bias_set import BiasSet
from saferank.evaluation.intervals import QueryScores

_SCALARS = 7
_EDGE = 1e-9
"""Up to this nothing is left of a loss: weights that cover it do so up to rounding."""


class Asked(NamedTuple):
    """What is asked of clicks: a loss, and weights by which they tell it."""

    loss: Floats
    """A, one per document."""
    v: Floats
    """Weights of clicks; this and the next two are documents x ranks."""
    shown: Floats
    """P0."""
    spread: Floats
    """Variance of clicks around what is predicted of them."""
    predicted: Floats
    """Relevance, one per document."""


class _Sessions(NamedTuple):
    """Counts of the sessions to judge by, as arrays."""

    offsets: Ints
    impressions: Ints
    clicks: Ints
    sessions: Ints


@dataclass(frozen=True, eq=False)
class DoubtedScores:
    """Scores of sessions, and what weights add up to at each rank of each query."""

    scores: QueryScores
    weights: Floats
    """Sums of P0 v, queries x ranks."""


def doubted_scores(
    asked: Asked, counts: Counts, bias: BiasSet, *, owed: Floats, observed: Floats | None = None
) -> DoubtedScores:
    """What sessions say of the loss, its worst rest included.

    Parameters
    ----------
    asked
        The loss, and the weights of clicks that are to tell it.
    counts
        Of the sessions to judge by.
    bias
        The click models that are thought possible.
    owed
        One per query: loss that no document of the log has.
    observed
        Where production is known from frequencies only, what a unit of them adds to the loss at
        each rank: what is left of it then varies with the lists.

    Returns
    -------
    DoubtedScores
        Where each document has a beta of its own, it is at its worst; else as fitted.
    """
    ranks = asked.v.shape[1]
    limits = np.stack(
        [bias.alpha_low, bias.alpha_high, bias.beta, bias.beta, np.zeros(ranks), bias.alpha,
         bias.beta]
    )  # fmt: skip
    if bias.per_document:
        limits[2:4] = bias.beta_low, bias.beta_high
    if observed is not None:
        limits[4] = observed
    out = np.zeros((counts.queries, _SCALARS + ranks))
    log = _Sessions(counts.offsets, counts.impressions, counts.clicks, counts.sessions)
    _queries(counts.queries, log, asked, limits, observed is not None, out)
    base, said, within, low, high, weighed, least = out[:, :_SCALARS].T
    base = base + owed
    mean, sessions = base + said, counts.sessions
    if observed is None:
        within = np.where(weighed > 0, within, 0.0)
    # One session says nothing of its query's variance: its distance to all others errs upwards.
    alone = (sessions <= 1) & ((weighed > 0) | (observed is not None))
    estimate = sessions @ mean / max(counts.total, 1)
    within = np.where(
        alone, (mean - estimate) ** 2, within * sessions / np.maximum(sessions - 1, 1)
    )
    share = sessions / max(counts.total, 1)
    scores = QueryScores(
        sessions, mean, within, base + low, base + high, np.zeros(counts.queries), "ranks",
        least_variance=float(share @ least), cluster=counts.cluster,
    )  # fmt: skip
    return DoubtedScores(scores, out[:, _SCALARS:])


@parallel_kernel
def _queries(
    first: int, last: int, log: _Sessions, asked: Asked, limits: Floats, lists: bool, out: Floats
) -> None:
    """Rows of `out`: base, what is said on top, variance, range, the largest weight, ..."""
    offsets, impressions, clicks, sessions = log
    loss, v, shown, spread, predicted = asked
    ranks = v.shape[1]
    # rows: what sessions say, the same with its square where lists vary, its range
    said = np.zeros((5, ranks))
    for q in range(first, last):
        total = max(float(sessions[q]), 1.0)
        said[:] = 0.0
        base, asks, least = 0.0, 0.0, 0.0
        for d in range(offsets[q], offsets[q + 1]):
            left = loss[d]
            for k in range(ranks):
                weight = v[d, k]
                weighed = shown[d, k] * weight
                left -= weighed * (limits[0, k] if weight > 0 else limits[1, k])
                expected = limits[5, k] * predicted[d] + limits[6, k]
                base += weighed * (expected - (limits[2, k] if weighed > 0 else limits[3, k]))
                least += weighed * weight * spread[d, k]
                asks = max(asks, abs(weight))
                out[q, _SCALARS + k] += weighed
            base += max(left, 0.0)
            for k in range(ranks):
                weight, varies = v[d, k], 0.0
                if lists and left > _EDGE:
                    varies = limits[4, k] - weight * (limits[0, k] if weight > 0 else limits[1, k])
                missed = -weight * (limits[5, k] * predicted[d] + limits[6, k])
                clicked = missed + weight
                if impressions[d, k] > 0:
                    taken = float(clicks[d, k])
                    rest = float(impressions[d, k]) - taken
                    said[0, k] += missed * rest + clicked * taken
                    wide, far = missed + varies, clicked + varies
                    said[1, k] += wide * rest + far * taken
                    said[2, k] += wide * wide * rest + far * far * taken
                said[3, k] = min(said[3, k], missed + varies, clicked + varies)
                said[4, k] = max(said[4, k], missed + varies, clicked + varies)
        out[q, 0], out[q, 5], out[q, 6] = base, asks, least
        for k in range(ranks):
            out[q, 1] += said[0, k] / total
            out[q, 2] += max(said[2, k] / total - (said[1, k] / total) ** 2, 0.0)
            out[q, 3] += said[3, k]
            out[q, 4] += said[4, k]
