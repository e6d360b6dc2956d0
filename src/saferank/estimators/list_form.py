r"""Estimators from whole lists: for users who look from the top, whose clicks depend on each other.

Given the documents above it, a document is put at rank k with probability
:math:`\pi(d_k \mid d_1, \ldots, d_{k-1})`. The weight of what happens at rank k is

.. math:: w_{1:k} = \prod_{j \le k} \frac{\pi(d_j \mid d_{<j})}{\pi_0(d_j \mid d_{<j})}

which is right whenever a click depends on the documents down to its rank, in whatever way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats, Ints

NOWHERE = -1
"""In place of a document, beyond the end of a list."""
_CANCELS = 1e-6
"""Share of the mass that is left, below which a difference of sums is not precise enough."""


@dataclass(frozen=True)
class ListEstimator:
    """An estimator of a policy's clicks from lists, and what it takes for granted."""

    predicts: bool
    """Whether predicted click rates lower its variance."""
    assumes: tuple[str, ...]


_DOWN = "A click at a rank depends on the documents down to it, not on those below."
_GIVEN = "Given the documents above, production draws the next one by the policy that is given."

LIST_ESTIMATORS: dict[str, ListEstimator] = {
    "rips": ListEstimator(False, (_DOWN, _GIVEN)),
    "cascade-dr": ListEstimator(True, (_DOWN, _GIVEN)),
}
r"""RIPS (McInerney et al., 2020): :math:`\sum_k w_{1:k}\,c_k`.

Cascade-DR (Kiyohara et al., 2022) with a Q function that is a sum of predicted click rates,
:math:`\hat Q_k = \hat r(d_k, k) + \sum_{j > k} E_\pi[\hat r(d_j, j) \mid d_{\le k}]`: what it
expects below a rank is taken off at that rank and added at the next, so that
:math:`\sum_k w_{1:k-1} E_\pi \hat Q_k + w_{1:k}(c_k - \hat Q_k)` is
:math:`\sum_{d,k} P(d, k)\,\hat r(d, k) + \sum_k w_{1:k}\,(c_k - \hat r(d_k, k))`."""


def prefix_weights(new: Floats, production: Floats) -> Floats:
    """w_1, w_12, ... of logarithms of conditional chances, sessions x ranks."""
    # production has shown them all: its chances are not 0; where new's is, so is every weight below
    weights: Floats = np.exp(np.cumsum(new - production, axis=1))
    return weights


def log_chances(
    scores: Floats, offsets: Ints, query: Ints, lists: Ints, *, in_order: bool
) -> Floats:
    """Logarithm of the chance of each document given those above it: sessions x ranks.

    `lists` has documents on the flat axis, and `NOWHERE` beyond a list's end, where it is 0.
    Rankings are drawn by Plackett-Luce, or with `in_order` sorted (ties in the items' order).
    """
    if in_order:
        order = np.lexsort((-scores, flat.query_of(offsets)))
        place = np.empty(scores.size, dtype=np.int64)
        place[order] = np.arange(scores.size) - flat.repeat_per_document(offsets[:-1], offsets)
        right = place[np.maximum(lists, 0)] == np.arange(lists.shape[1])
        return np.where((lists == NOWHERE) | right, 0.0, -np.inf)
    top = np.maximum.reduceat(scores, offsets[:-1]) if scores.size else scores
    mass = np.exp(scores - flat.repeat_per_document(top, offsets))
    total = flat.query_sums(mass, offsets)[query]
    own = np.where(lists == NOWHERE, 0.0, mass[np.maximum(lists, 0)])
    above = np.cumsum(own, axis=1) - own
    left = total[:, None] - above
    for session in np.flatnonzero((left < _CANCELS * total[:, None]).any(axis=1)):
        left[session] = _left(scores, offsets, query[session], lists[session], top)
    chance = scores[np.maximum(lists, 0)] - top[query][:, None] - np.log(left)
    return np.where(lists == NOWHERE, 0.0, np.minimum(chance, 0.0))


def _left(scores: Floats, offsets: Ints, query: int, documents: Ints, top: Floats) -> Floats:
    """The mass of what is not yet shown at each rank, summed anew."""
    own = np.exp(scores[offsets[query] : offsets[query + 1]] - top[query])
    left = np.empty(documents.size)
    for rank, document in enumerate(documents):
        left[rank] = max(float(own.sum()), np.finfo(np.float64).tiny)
        if document != NOWHERE:
            own[document - offsets[query]] = 0.0
    return left
