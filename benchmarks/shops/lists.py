r"""How lists are made from scores: sorted, or sorted after noise of its own in every session.

Plackett-Luce at temperature T is sorting by s + T g with Gumbel noise g, and a shop that sorts
with "a little noise" adds normal noise. For independent noise with density f and distribution F,
document d is at rank k exactly when k - 1 of the others are above it:

.. math:: P(d, k) = \int f(y - s_d)\; \mathrm{PB}_{-d}\bigl(k - 1;\; 1 - F(y - s_i)\bigr)\, dy

where PB is the Poisson-binomial distribution of how many others are above y. The trapezoid rule
converges exponentially on it. Nothing here is shared with `saferank`: this is the referee.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Noise = Literal["gumbel", "normal"]

STEP = 0.25
"""Between the points of the trapezoid rule, in units of the noise."""
BELOW = {"gumbel": 4.0, "normal": 9.0}
ABOVE = {"gumbel": 37.0, "normal": 9.0}
"""How far noise reaches, up to 1e-16."""
QUERIES_AT_ONCE = 8


def pad(values: npt.NDArray[np.generic], offsets: Ints, fill: float) -> Floats:
    """Values of each query's documents as a row, filled up to the longest."""
    sizes = np.diff(offsets)
    rows = np.full((sizes.size, max(1, int(sizes.max(initial=1)))), fill)
    rows[np.arange(rows.shape[1]) < sizes[:, None]] = values
    return rows


def unpad(rows: npt.NDArray[np.generic], offsets: Ints) -> npt.NDArray[np.generic]:
    """The opposite of `pad`: one value (or row) per document."""
    return rows[np.arange(rows.shape[1]) < np.diff(offsets)[:, None]]


def sorted_rankings(scores: Floats, offsets: Ints, k: int) -> Ints:
    """Positions of each query's first k documents by score, earlier ones first; -1 past the end."""
    rows = pad(scores, offsets, -np.inf)
    order = np.argsort(-rows, axis=1, kind="stable")[:, :k]
    return _positions(order, offsets[:-1], np.diff(offsets), k)


def _positions(order: Ints, first: Ints, sizes: Ints, k: int) -> Ints:
    shown = np.full((order.shape[0], k), -1, dtype=np.int64)
    width = min(k, order.shape[1])
    inside = np.arange(width) < sizes[:, None]
    shown[:, :width] = np.where(inside, order[:, :width] + first[:, None], -1)
    return shown


def sorted_probabilities(scores: Floats, offsets: Ints, k: int) -> Floats:
    """P(d, k) of the sorted ranking: ones and zeros, documents x k."""
    return probabilities_of(sorted_rankings(scores, offsets, k), int(offsets[-1]))


def probabilities_of(rankings: Ints, documents: int) -> Floats:
    """P(d, k) of one ranking per query, documents x k."""
    table = np.zeros((documents, rankings.shape[1]))
    for rank in range(rankings.shape[1]):
        shown = rankings[:, rank]
        table[shown[shown >= 0], rank] = 1.0
    return table


def rank_probabilities(
    scores: Floats,
    offsets: Ints,
    k: int,
    *,
    noise: Noise = "gumbel",
    scale: float = 1.0,
    step: float = STEP,
) -> Floats:
    """P(document at rank) of sorting by score plus independent noise, documents x k; exact.

    >>> P = rank_probabilities(np.log([3.0, 1.0]), np.array([0, 2]), 2)
    >>> P.round(12)
    array([[0.75, 0.25],
           [0.25, 0.75]])
    """
    if scale == 0:
        return sorted_probabilities(scores, offsets, k)
    table = np.zeros((int(offsets[-1]), k))
    by_size = np.argsort(np.diff(offsets), kind="stable")
    for start in range(0, by_size.size, QUERIES_AT_ONCE):
        block = by_size[start : start + QUERIES_AT_ONCE]
        sizes = np.diff(offsets)[block]
        inside = np.arange(sizes.max(initial=0)) < sizes[:, None]
        place = (offsets[block][:, None] + np.arange(inside.shape[1]))[inside]
        rows = np.full(inside.shape, -np.inf)
        rows[inside] = scores[place] / scale
        table[place] = _block(rows, sizes, k, noise, step)[inside]
    return table


def _block(rows: Floats, sizes: Ints, k: int, noise: Noise, step: float) -> Floats:
    """P(d, k) of some queries: queries x documents x k."""
    density, above = _noise(rows, sizes, k, noise, step)
    queries, documents, points = density.shape
    before = np.zeros((documents, queries, points, k))  # how many of the earlier ones are above y
    state = np.zeros((queries, points, k))
    state[..., 0] = 1.0
    for document in range(documents):
        before[document] = state
        state = _passed(state, above[:, document])
    table = np.zeros((queries, documents, k))
    state = np.zeros((queries, points, k))
    state[..., 0] = 1.0
    for document in range(documents - 1, -1, -1):  # `state`: the same of the later ones
        weighted = state * density[:, document, :, None]
        for rank in range(k):
            earlier = before[document][..., : rank + 1]
            table[:, document, rank] = np.einsum(
                "qpa,qpa->q", earlier, weighted[..., rank::-1] if rank else weighted[..., :1]
            )
        state = _passed(state, above[:, document])
    return table


def _passed(state: Floats, above: Floats) -> Floats:
    """The distribution of the number above after one more document."""
    chance = above[..., None]
    result = state * (1 - chance)
    result[..., 1:] += state[..., :-1] * chance
    return result


def _noise(rows: Floats, sizes: Ints, k: int, noise: Noise, step: float) -> tuple[Floats, Floats]:
    """Density (times the step) and chance to be above y: queries x documents x points of y."""
    ordered = -np.sort(-rows, axis=1)
    lowest = ordered[np.arange(rows.shape[0]), np.minimum(k, sizes) - 1] - BELOW[noise]
    points = int(np.ceil((ordered[:, 0] + ABOVE[noise] - lowest).max() / step)) + 1
    y = lowest[:, None] + step * np.arange(points)
    with np.errstate(over="ignore", invalid="ignore"):
        gap = y[:, None, :] - rows[:, :, None]  # inf where there is no document
        if noise == "gumbel":
            decay = np.exp(-gap)
            density = np.where(np.isfinite(decay), decay * np.exp(-decay), 0.0)
            return density * step, -np.expm1(-decay)
        density = np.exp(-(gap**2) / 2) / np.sqrt(2 * np.pi)
        return density * step, ndtr(-gap)


@dataclass(frozen=True)
class Maker:
    """Makes lists: scores, and the noise that is added to them in every session."""

    scores: Floats
    noise: Noise = "normal"
    scale: float = 0.0

    def probabilities(self, offsets: Ints, k: int) -> Floats:
        """P(document at rank), documents x k."""
        return rank_probabilities(self.scores, offsets, k, noise=self.noise, scale=self.scale)

    def draw(self, rng: np.random.Generator, query: Ints, offsets: Ints, k: int) -> Ints:
        """A list for each entry of `query`: positions, -1 past the end."""
        rows = pad(self.scores, offsets, -np.inf)[query]
        if self.scale:
            draw = rng.gumbel if self.noise == "gumbel" else rng.normal
            rows = rows + draw(0.0, self.scale, size=rows.shape)
        order = np.argsort(-rows, axis=1, kind="stable")
        return _positions(order, offsets[query], np.diff(offsets)[query], k)
