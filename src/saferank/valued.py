"""A value that adds up, and its slope: what every loss and objective here returns."""

from __future__ import annotations

from typing import NamedTuple

from saferank.flat import Floats


class Valued(NamedTuple):
    """The unreduced value (one a document, or a sample), and its derivative in its argument."""

    value: Floats
    slope: Floats
