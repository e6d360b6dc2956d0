r"""Fair exposure: terms in the exposures of units, value and slope of each.

A unit is a document, the documents of a group in a query, or a group over all traffic; it has an
exposure E, a merit M, a number of documents n, and the exposure :math:`E^*` that it has in the
ideal of Diaz et al. (2020): documents sorted by merit, those of equal merit in random order. Units
are compared within blocks: queries, or all traffic as one. In each block, with
:math:`Z = \sum E^*` the exposure that there is to share, a term is 0 where exposure is fair:

=================== ==========================================================================
`disparity`         :math:`\frac{1}{U(U-1)} \sum_{u,v} (E_u M_v - E_v M_u)^2`, as PL-Rank's
`treatment`         :math:`\sum_u (E_u - Z M_u / \sum M)^2 / Z^2`: exposure as merit
`parity`            :math:`\sum_u (E_u - Z n_u / \sum n)^2 / Z^2`: exposure as documents
`expected-exposure` :math:`\sum_u (E_u - E^*_u)^2 / Z^2`: exposure as in the ideal
=================== ==========================================================================

By Lagrange's identity the sum over pairs is :math:`2 (\sum E^2 \sum M^2 - (\sum E M)^2)`: linear
in the number of units.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank._core.value_slope import ValueSlope


class Units(NamedTuple):
    """What exposure is shared among, in blocks; one value per unit."""

    merit: Floats
    size: Floats
    ideal: Floats
    offsets: Ints
    """Cut units into blocks."""

    def take(self, blocks: Ints) -> Units:
        """The units of some blocks."""
        positions, offsets = flat.gather(self.offsets, blocks)
        return Units(self.merit[positions], self.size[positions], self.ideal[positions], offsets)


Term = Callable[[Floats, Units], ValueSlope]
"""Exposures of units to one value per block, and one slope per unit."""


def disparity(exposure: Floats, units: Units) -> ValueSlope:
    """Mean over pairs of (exposure of one x merit of the other - the other way round) squared.

    >>> pair = Units(np.array([1.0, 0.5]), np.ones(2), np.array([0.9, 0.6]), np.array([0, 2]))
    >>> disparity(np.array([1.0, 0.5]), pair).value
    array([0.])
    >>> disparity(np.array([0.5, 1.0]), pair).value
    array([0.5625])
    """
    cuts = units.offsets
    count = flat.sizes(cuts).astype(np.float64)
    pairs = np.maximum(count * (count - 1), 1)
    exposed, merit, both = (
        flat.query_sums(values, cuts)
        for values in (exposure**2, units.merit**2, exposure * units.merit)
    )
    value = 2 * np.maximum(exposed * merit - both**2, 0) / pairs
    own = [flat.repeat_per_document(values, cuts) for values in (merit, both, pairs)]
    return ValueSlope(value, 4 * (exposure * own[0] - units.merit * own[1]) / own[2])


def _towards(exposure: Floats, target: Floats, units: Units) -> ValueSlope:
    """Squared distance of shares of exposure from a target."""
    total = flat.repeat_per_document(flat.query_sums(units.ideal, units.offsets), units.offsets)
    scale = np.maximum(total, 1e-300) ** 2
    gap = exposure - target
    value = flat.query_sums(gap**2 / scale, units.offsets)
    return ValueSlope(value, 2 * gap / scale)


def _in_proportion(to: Floats, units: Units) -> Floats:
    """A block's exposure in proportion to something, or to numbers of documents where it is 0."""
    total, whole, size = (
        flat.repeat_per_document(flat.query_sums(values, units.offsets), units.offsets)
        for values in (units.ideal, to, units.size)
    )
    by_size = total * units.size / np.maximum(size, 1e-300)
    return np.where(whole > 0, total * to / np.where(whole > 0, whole, 1.0), by_size)


def treatment(exposure: Floats, units: Units) -> ValueSlope:
    """Exposure in proportion to merit."""
    return _towards(exposure, _in_proportion(units.merit, units), units)


def parity(exposure: Floats, units: Units) -> ValueSlope:
    """Exposure in proportion to numbers of documents."""
    return _towards(exposure, _in_proportion(units.size, units), units)


def expected_exposure(exposure: Floats, units: Units) -> ValueSlope:
    """Exposure as in the ideal: by merit, equals at random (Diaz et al., 2020)."""
    return _towards(exposure, units.ideal, units)


TERMS: dict[str, Term] = {
    "disparity": disparity,
    "treatment": treatment,
    "parity": parity,
    "expected-exposure": expected_exposure,
}


def sums_by(unit: Ints, values: Floats, count: int) -> Floats:
    """Sums over the documents of each unit.

    >>> sums_by(np.array([1, 0, 1]), np.array([1.0, 2.0, 3.0]), 3)
    array([2., 4., 0.])
    """
    return np.bincount(unit, values, minlength=count).astype(np.float64)


def ideal_exposure(merit: Floats, weights: Floats, offsets: Ints) -> Floats:
    """Exposures of documents that are sorted by merit, those of equal merit in random order.

    >>> ideal_exposure(np.array([0.0, 1.0, 1.0]), np.array([1.0, 0.5]), np.array([0, 3]))
    array([0.  , 0.75, 0.75])
    """
    query = flat.query_of(offsets)
    order = np.lexsort((-merit, query))
    rank = np.arange(merit.size) - offsets[:-1][query]  # `order` keeps queries in place
    shown = np.where(rank < weights.size, weights[np.minimum(rank, weights.size - 1)], 0.0)
    changes = np.ones(merit.size, dtype=np.bool_)
    changes[1:] = (np.diff(query) != 0) | (np.diff(merit[order]) != 0)
    block = np.cumsum(changes) - 1  # of documents that are equals
    mean = np.bincount(block, shown) / np.maximum(np.bincount(block), 1)
    ideal = np.empty(merit.size)
    ideal[order] = mean[block] if merit.size else mean[:0]
    return ideal
