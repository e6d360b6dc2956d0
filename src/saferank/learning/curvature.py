r"""Positive curvatures for boosting: how far one round may move each score.

A leaf moves its documents by the sum of their gradients over the sum of their curvatures. Goals
with a curvature of their own (regression, imitation, pairs) bring it. A policy's value is linear in
exposures and not concave in scores, so its second derivative itself will not do. With one rank,
:math:`V(s) = \sum_d g_d\,p_d`, p the softmax of s, it is along a direction u

.. math:: V'' = \sum_d \frac{\partial V}{\partial s_d} (u_d - \bar u)^2, \quad
          \bar u = \sum_d p_d\,u_d ,

so the absolute gradient is the smallest diagonal that bounds :math:`|V''|` whatever the signs, up
to the shift :math:`\bar u` that changes no ranking. With more ranks Plackett-Luce is one such
softmax a rank, and the same holds rank by rank (docs/trees.md).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats
from saferank.objectives.goals import Goal, QueryBlock, ValueGradient
from saferank.plackett_luce import exposure

# Of the mean: keeps a leaf of documents without a gradient from dividing 0 by 0.
_LEAST = 1e-3

Rule = Callable[[Goal, Floats, QueryBlock, Floats], Floats]


def _gradient(goal: Goal, scores: Floats, place: QueryBlock, size: Floats) -> Floats:
    """The absolute gradient: no leaf moves further than 1, whatever the scale of the gains."""
    del goal, scores, place
    return size


def _exposure(goal: Goal, scores: Floats, place: QueryBlock, size: Floats) -> Floats:
    """omega (1 - omega), in the form of a Fisher information, with a query's total of the above."""
    weights = getattr(goal, "weights", np.ones(1))
    share = exposure(scores, weights / weights.max(), place.offsets)
    shape = np.clip(share * (1 - share), 0, None)
    mass, whole = (flat.query_sums(values, place.offsets) for values in (size, shape))
    scale = np.divide(mass, whole, out=np.zeros_like(mass), where=whole > 0)
    return shape * flat.repeat_per_document(scale, place.offsets)


def _constant(goal: Goal, scores: Floats, place: QueryBlock, size: Floats) -> Floats:
    """The same for every document, with the same total."""
    del goal, scores, place
    return np.full_like(size, size.mean())


CURVATURES: dict[str, Rule] = {
    "gradient": _gradient,
    "exposure": _exposure,
    "constant": _constant,
}


def curvature(
    goal: Goal, scores: Floats, place: QueryBlock, judged: ValueGradient, rule: str
) -> Floats:
    """A curvature above 0 for each score (0 everywhere if nothing is left to be learned)."""
    bent = judged.curvature
    if bent is None:
        bent = CURVATURES[rule](goal, scores, place, np.abs(judged.gradient))
    return bent + _LEAST * float(bent.mean())
