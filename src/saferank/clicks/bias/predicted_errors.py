r"""Standard errors that a fit will have, from what is going to be shown: before any click.

Documents that are shown at several ranks link these like resistors. A document with relevance R and
n_k impressions at rank k adds to harvested position bias the information

.. math:: G_{jk} = R\,\frac{n_j \alpha_j\, n_k \alpha_k}{\sum_l n_l \alpha_l}, \qquad j \ne k,

a *conductance* between ranks j and k: with :math:`L = \mathrm{diag}(G 1) - G` and rare clicks the
variance of :math:`\log \alpha_k / \alpha_r` is the resistance of the network between k and r. Where
clicks are not rare, their variance :math:`n p (1 - p)` is smaller than their mean: with V the
variance of the equations that are solved, the variance of the solution is
:math:`L^{-1} V L^{-1}`.

Trust bias is fitted to second moments of click rates, a pair of ranks at a time (`harvest_trust`).
In the units of that fit, with u what documents differ by along the line of a pair and v the noise
across it, its equations are :math:`\sum_d w_d u_d v_d = 0`, with derivative
:math:`\sum_d w_d u_d^2`. The noise is of first order (clicks at one rank times true differences)
and of second (products of noise), which are uncorrelated (Hoeffding).
"""

from __future__ import annotations

import numpy as np

from saferank._core.flat import Floats, Ints
from saferank.clicks.bias.harvest_trust import LEAST_SHOWN
from saferank.clicks.models import ClickModel

_BLOCK = 1 << 15
_LARGEST = 10.0
"""Of the logarithm of a ratio: what is less certain than that cannot be told."""


def position_errors(
    shown: Floats, relevance: Floats, model: ClickModel, reference: int = 1
) -> Floats:
    """Standard errors of log(alpha_k / alpha_reference) as `harvest_position` will have them.

    Infinite at ranks that nothing links to the reference.

    >>> model = ClickModel([1.0, 0.5], [0.0, 0.0])
    >>> position_errors(np.full((100, 2), 10.0), np.full(100, 0.001), model).round(3)
    array([0.   , 1.731])
    """
    ranks = model.ranks
    bend, variance = np.zeros((ranks, ranks)), np.zeros((ranks, ranks))
    used = np.flatnonzero((np.count_nonzero(shown, axis=1) > 1) & (relevance > 0))
    for start in range(0, used.size, _BLOCK):
        rows = used[start : start + _BLOCK]
        expected = shown[rows] * np.outer(relevance[rows], model.alpha)
        chance = model.probability(relevance[rows])
        noise = shown[rows] * chance * (1 - chance)
        total = expected.sum(axis=1)
        kept = total > 0
        expected, noise, total = expected[kept], noise[kept], total[kept]
        share = expected / total[:, None]
        bend += np.diag(expected.sum(axis=0)) - expected.T @ share
        # (I - share 1') diag(noise) (I - share 1')', summed over documents
        cross = noise.T @ share
        variance += np.diag(noise.sum(axis=0)) - cross - cross.T
        variance += (share * noise.sum(axis=1)[:, None]).T @ share
    return _solved(bend, variance, reference - 1)


def _solved(bend: Floats, variance: Floats, base: int) -> Floats:
    """Errors of the solution of equations with that derivative and variance; 0 at the base.

    Ranks that are not linked to the base have infinite errors.
    """
    from scipy.sparse.csgraph import connected_components

    ranks = bend.shape[0]
    scale = float(np.abs(bend).max(initial=0.0))
    links = np.abs(bend) > 1e-12 * scale if scale > 0 else np.zeros(bend.shape, dtype=np.bool_)
    _, group = connected_components(links, directed=False)
    free = np.flatnonzero((group == group[base]) & (np.arange(ranks) != base))
    error = np.full(ranks, np.inf)
    error[base] = 0.0
    if free.size:
        at = np.ix_(free, free)
        inverse = np.linalg.pinv(bend[at], rcond=1e-14, hermitian=True)
        spread = np.diag(inverse @ variance[at] @ inverse.T)
        error[free] = np.sqrt(np.maximum(spread, 0.0))
    error[~(error < _LARGEST)] = np.inf
    return error


def trust_errors(shown: Floats, relevance: Floats, model: ClickModel, reference: int = 1) -> Floats:
    """Standard errors of log(alpha_k / alpha_reference) as `harvest_trust` will have them.

    Infinite at ranks that nothing links to the reference, or where documents do not differ.

    >>> model = ClickModel([0.5, 0.25], [0.1, 0.1])
    >>> rng = np.random.default_rng(0)
    >>> few, many = (trust_errors(np.full((500, 2), n), rng.random(500), model) for n in (1e2, 4e2))
    >>> bool(1.9 < few[1] / many[1] < 2.2)
    True
    """
    used = np.count_nonzero(shown >= LEAST_SHOWN, axis=1) > 1
    n, own = shown[used], relevance[used]
    ranks = model.ranks
    first, second = np.triu_indices(ranks, 1)
    pairs = _Pairs(shown, relevance, model, first, second)
    weight, level = pairs.means(n, own)
    spread, variance = np.zeros(first.size), np.zeros((first.size, first.size))
    for start in range(0, own.size, _BLOCK // 8):
        rows = slice(start, start + _BLOCK // 8)
        more = pairs.add(n[rows], own[rows], level)
        spread += more[0]
        variance += more[1]
    ends = np.zeros((first.size, ranks))
    row = np.arange(first.size)
    ends[row, second], ends[row, first] = 1.0, -1.0
    ends[weight <= 0] = 0.0
    turned = ends * pairs.turn[:, None]
    bend = (turned * spread[:, None]).T @ turned
    return _solved(bend, turned.T @ variance @ turned, reference - 1)


class _Pairs:
    """Pairs of ranks in the units of `harvest_trust`."""

    def __init__(
        self, shown: Floats, relevance: Floats, model: ClickModel, first: Ints, second: Ints
    ) -> None:
        total = np.maximum(shown.sum(axis=0), 1.0)
        rate = (shown * model.probability(relevance)).sum(axis=0) / total
        noise = np.sqrt(np.maximum(rate * (1 - rate), 1e-12))
        self.model, self.noise, self.first, self.second = model, noise, first, second
        a, b = (model.alpha / noise)[first], (model.alpha / noise)[second]
        angle = np.arctan2(b, a)
        self.sine, self.cosine = np.sin(angle), np.cos(angle)
        self.turn = np.sin(2 * angle) / 2  # of the angle, in the log of its tangent
        self.length = np.hypot(a, b)

    def _weights(self, n: Floats) -> Floats:
        one, two = n[:, self.first], n[:, self.second]
        both = (one >= LEAST_SHOWN) & (two >= LEAST_SHOWN)
        weight: Floats = np.where(both, one * two / np.maximum(one + two, 1), 0.0)
        return weight

    def means(self, n: Floats, relevance: Floats) -> tuple[Floats, Floats]:
        """Weight of each pair, and mean relevance of its documents."""
        total, worth = np.zeros(self.first.size), np.zeros(self.first.size)
        for start in range(0, relevance.size, _BLOCK // 8):
            rows = slice(start, start + _BLOCK // 8)
            weight = self._weights(n[rows])
            total += weight.sum(axis=0)
            worth += relevance[rows] @ weight
        return total, worth / np.where(total > 0, total, 1.0)

    def add(self, n: Floats, relevance: Floats, level: Floats) -> tuple[Floats, Floats]:
        """Derivative of each pair's equation, and the equations' variance, of some documents."""
        weight = self._weights(n)
        apart = weight * self.length * (relevance[:, None] - level)  # w u
        spread = (apart * self.length * (relevance[:, None] - level)).sum(axis=0)
        chance = self.model.probability(relevance)
        many = np.maximum(n, LEAST_SHOWN)  # others have no weight
        unit = chance * (1 - chance) / self.noise**2
        single, double = unit / many, 2 * unit**2 / (many * (many - 1))
        variance = self._shared(-apart * self.sine, apart * self.cosine, single)
        half = weight * self.sine * self.cosine
        variance += self._shared(-half, half, double)
        product = (weight * (self.cosine**2 - self.sine**2)) ** 2
        product *= single[:, self.first] * single[:, self.second]
        return spread, variance + np.diag(product.sum(axis=0))

    def _shared(self, at_first: Floats, at_second: Floats, variance: Floats) -> Floats:
        """Covariance of pairs by noise of the ranks that they share."""
        total = np.zeros((self.first.size, self.first.size))
        for rank in range(self.noise.size):
            factor = at_first * (self.first == rank) + at_second * (self.second == rank)
            pairs = np.flatnonzero((self.first == rank) | (self.second == rank))
            own = factor[:, pairs]
            total[np.ix_(pairs, pairs)] += (own * variance[:, rank : rank + 1]).T @ own
        return total
