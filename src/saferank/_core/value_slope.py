"""A value that adds up, and its slope: what every loss and objective here returns."""

from __future__ import annotations

from typing import NamedTuple

from saferank._core.flat import Floats


class ValueSlope(NamedTuple):
    """The unreduced value (one per document, or per sample), and its derivative in its argument.

    Examples
    --------
    >>> import numpy as np
    >>> ValueSlope(np.array([4.0]), slope=np.array([2.0])).slope
    array([2.])
    """

    value: Floats
    """One per document, or per sample."""
    slope: Floats
    """Its derivative, of the same shape."""


class Curved(NamedTuple):
    """The same of a concave function (or one near enough), with how fast its slope falls."""

    value: Floats
    slope: Floats
    curvature: Floats
    """At least 0: minus the second derivative, or its expectation."""
