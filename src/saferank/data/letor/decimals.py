"""Decimal numbers in text, rounded to float64 and then float32, compiled."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from saferank._core.flat import Floats
from saferank._core.kernels import kernel

Bytes = npt.NDArray[np.uint8]

# What is known of a number.
BAD: Final = 0
SURE: Final = 1
UNSURE: Final = 2

_ROOM: Final = 10**17
"""A mantissa below this takes one more digit and still is an int64."""
_EXACT: Final = 2**53
_HUGE: Final = 60
"""Any whole number times a higher power of ten is beyond float32."""
_TINY: Final = 90
"""Any 18 digits over a higher power of ten are 0 in float32."""
_POWERS: Final[Floats] = np.array([float(f"1e{power}") for power in range(_TINY + 1)])
_MARGIN: Final = 2.0**-50


@kernel
def number(text: Bytes, at: int, last: int) -> tuple[int, np.float32, int]:
    """A decimal number rounded to float64 and then float32, and where it ends.

    Up to 18 digits are kept. Where mantissa and power of ten are exact float64, their one product
    or quotient is the rounded float64. Else that has a relative error below 2^-50; rounding never
    changes an order, so if both ends of that interval give one float32, it is the right one.
    If not (about one in 10^7), the number is left unsure.
    """
    negative = False
    if at < last and (text[at] == 45 or text[at] == 43):  # - or +
        negative = text[at] == 45
        at += 1
    mantissa, power, first = 0, 0, at
    while at < last and 48 <= text[at] <= 57:
        if mantissa < _ROOM:
            mantissa = mantissa * 10 + (text[at] - 48)
        else:
            power += 1
        at += 1
    digits = at - first
    if at < last and text[at] == 46:  # .
        at += 1
        first = at
        while at < last and 48 <= text[at] <= 57:
            if mantissa < _ROOM:
                mantissa = mantissa * 10 + (text[at] - 48)
                power -= 1
            at += 1
        digits += at - first
    if digits == 0:
        return BAD, np.float32(0), at
    if at < last and (text[at] == 101 or text[at] == 69):  # e or E
        exponent, end = _exponent(text, at + 1, last)
        if end < 0:
            return BAD, np.float32(0), at
        power += exponent
        at = end
    state, value = _rounded(mantissa, power)
    return state, -value if negative else value, at


@kernel
def _exponent(text: Bytes, at: int, last: int) -> tuple[int, int]:
    """The exponent after an `e` and where it ends; -1 where there is none."""
    negative = False
    if at < last and (text[at] == 45 or text[at] == 43):
        negative = text[at] == 45
        at += 1
    first, exponent = at, 0
    while at < last and 48 <= text[at] <= 57:
        # The bound is far beyond any length of text that could bring the number back in range.
        exponent = min(exponent * 10 + (text[at] - 48), 10**15)
        at += 1
    if at == first:
        return 0, -1
    return (-exponent if negative else exponent), at


@kernel
def _rounded(mantissa: int, power: int) -> tuple[int, np.float32]:
    if mantissa == 0:
        return SURE, np.float32(0)
    if power > _HUGE:
        return SURE, np.float32(np.inf)
    if power < -_TINY:
        return SURE, np.float32(0)
    scaled = mantissa * _POWERS[power] if power >= 0 else mantissa / _POWERS[-power]
    if mantissa <= _EXACT and -22 <= power <= 22:
        return SURE, np.float32(scaled)
    low = np.float32(scaled * (1 - _MARGIN))
    high = np.float32(scaled * (1 + _MARGIN))
    if low != high:
        return UNSURE, np.float32(np.nan)
    return SURE, low
