r"""The coordinate-conditional gradient of StochasticRank (Ustimenko and Prokhorenkova, 2020).

A ranking sorts perturbed scores :math:`z = s + \text{noise}`. Given the perturbed scores of all
others, the reward :math:`R = \sum_k w_k g_{y_k}` is a step function of :math:`z_d`: where it passes
the r-th of the others, :math:`o_r`, documents d and :math:`o_r` exchange ranks r and r + 1. The
expectation over d's own noise is then known, and its derivative is

.. math:: \sum_{r \le K} (w_r - w_{r+1}) (g_d - g_{o_r})\, f(z_{o_r} - s_d) ,

f the density of the noise and :math:`w_{K+1} = 0`. The mean over draws of the others is unbiased
for the policy *of that noise*. StochasticRank's noise is Gaussian: its policy sorts scores with
Gaussian noise, here of the variance that Gumbel noise has, so that it is close to Plackett-Luce and
not the same. With Gumbel noise the same estimator is unbiased for Plackett-Luce itself.

Only the gradient is StochasticRank's: its boosting with Langevin noise is not here.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank._core.flat import Floats
from saferank._core.kernels import kernel
from saferank._core.seeds import generator
from saferank.errors import require
from saferank.plackett_luce.exact import check_weights

SIGMA = math.pi / math.sqrt(6)
"""The standard deviation of Gumbel noise, which the Gaussian noise has too."""
_DRAWS_AT_A_TIME = 1 << 20


def stochastic_rank(
    scores: npt.ArrayLike,
    weights: npt.ArrayLike,
    offsets: npt.ArrayLike,
    slope: npt.ArrayLike,
    *,
    samples: int = 1000,
    seed: int = 0,
) -> Floats:
    """StochasticRank: unbiased for lists sorted by scores with Gaussian noise."""
    return _estimate(scores, weights, offsets, slope, samples, seed, gumbel=False)


def stochastic_rank_gumbel(
    scores: npt.ArrayLike,
    weights: npt.ArrayLike,
    offsets: npt.ArrayLike,
    slope: npt.ArrayLike,
    *,
    samples: int = 1000,
    seed: int = 0,
) -> Floats:
    """The same with Gumbel noise: unbiased for Plackett-Luce."""
    return _estimate(scores, weights, offsets, slope, samples, seed, gumbel=True)


def _estimate(
    scores: npt.ArrayLike,
    weights: npt.ArrayLike,
    offsets: npt.ArrayLike,
    slope: npt.ArrayLike,
    samples: int,
    seed: int,
    *,
    gumbel: bool,
) -> Floats:
    require(samples >= 1, "samples", "at least 1", samples)
    cuts = flat.check_offsets(offsets, np.size(scores))
    values = flat.check_values("scores", scores, cuts)
    slopes = flat.check_values("slope", slope, cuts)
    rank_weights = check_weights(weights)
    gradient = np.zeros(values.size)
    for query, (first, last) in enumerate(pairwise(cuts)):
        if last - first < 2:
            continue  # a document alone has no rank to exchange
        own = slice(first, last)
        drops = -np.diff(rank_weights[: last - first], append=0.0)
        rng = generator(seed, "gradient", query)
        rows = max(1, _DRAWS_AT_A_TIME // int(last - first))
        for start in range(0, samples, rows):
            size = (min(rows, samples - start), int(last - first))
            noise = (
                -np.log(rng.standard_exponential(size))
                if gumbel
                else SIGMA * rng.standard_normal(size)
            )
            _add(values[own], slopes[own], drops, noise, gumbel, gradient[own])
    return gradient / samples


@kernel
def _density(at: float, gumbel: bool) -> float:
    if gumbel:
        # far below its mode exp(-at) is infinite, and the density 0
        return math.exp(-at - math.exp(-at)) if at > -700.0 else 0.0
    return math.exp(-0.5 * (at / SIGMA) ** 2) / (SIGMA * math.sqrt(2 * math.pi))


@kernel
def _add(
    scores: Floats, slope: Floats, drops: Floats, noise: Floats, gumbel: bool, gradient: Floats
) -> None:
    """Add the derivatives of every draw; `drops` is what a rank weighs above the next."""
    kept = min(drops.size + 1, scores.size)
    leaders = np.empty(kept, dtype=np.int64)
    for draw in noise:
        perturbed = scores + draw
        count = 0
        for d in range(scores.size):
            place = count
            while place > 0 and perturbed[leaders[place - 1]] < perturbed[d]:
                if place < kept:
                    leaders[place] = leaders[place - 1]
                place -= 1
            if place < kept:
                leaders[place] = d
                count = min(count + 1, kept)
        for d in range(scores.size):
            rank = 0  # among the others
            for place in range(count):
                other = leaders[place]
                if other != d and rank < drops.size:
                    weight = drops[rank] * (slope[d] - slope[other])
                    if weight != 0.0:
                        gradient[d] += weight * _density(perturbed[other] - scores[d], gumbel)
                    rank += 1
