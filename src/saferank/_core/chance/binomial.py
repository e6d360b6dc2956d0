"""Binomial numbers inside kernels, exact for any n and p.

Few trials: one by one. Few expected successes: inversion, term by term. Many: transformed
rejection with squeeze (BTRS, Hörmann 1993), whose cost does not grow with n.
"""

from __future__ import annotations

import math

import numpy as np

from saferank._core.chance.streams import after, uniform
from saferank._core.kernels import kernel

_TRIAL_BY_TRIAL = 8
_INVERSION_BELOW = 10.0
_MOST_BY_INVERSION = 150  # of at most 10 expected: never reached but by a rounding error


@kernel
def binomial(n: int, p: float, state: np.uint64) -> tuple[int, np.uint64]:
    """A number of successes in n trials, and the state after it."""
    if n <= 0 or p <= 0.0:
        return 0, state
    if p >= 1.0:
        return n, state
    if p > 0.5:
        failures, state = _rare(n, 1.0 - p, state)
        return n - failures, state
    return _rare(n, p, state)


@kernel
def _rare(n: int, p: float, state: np.uint64) -> tuple[int, np.uint64]:
    if n <= _TRIAL_BY_TRIAL:
        successes = 0
        for _ in range(n):
            state = after(state)
            successes += int(uniform(state) < p)
        return successes, state
    if n * p < _INVERSION_BELOW:
        return _inversion(n, p, state)
    return _rejection(n, p, state)


@kernel
def _inversion(n: int, p: float, state: np.uint64) -> tuple[int, np.uint64]:
    """Take P(0), P(1), ... off a uniform number until nothing is left of it."""
    odds = p / (1.0 - p)
    none = math.exp(n * math.log1p(-p))
    while True:
        state = after(state)
        left, term, successes = uniform(state), none, 0
        while left >= term and successes <= _MOST_BY_INVERSION:
            left -= term
            successes += 1
            term *= odds * (n - successes + 1) / successes
        if successes <= min(n, _MOST_BY_INVERSION):
            return successes, state


@kernel
def _rejection(n: int, p: float, state: np.uint64) -> tuple[int, np.uint64]:
    """Propose from a transformed uniform number; most proposals need no logarithm."""
    q = 1.0 - p
    spread = math.sqrt(n * p * q)
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    centre = n * p + 0.5
    certain = 0.92 - 4.2 / b
    while True:
        state = after(state)
        u = uniform(state) - 0.5
        state = after(state)
        v = uniform(state)
        edge = 0.5 - abs(u)
        proposed = math.floor((2.0 * a / edge + b) * u + centre) if edge > 0.0 else -1.0
        if edge >= 0.07 and v <= certain:
            return int(proposed), state
        if proposed < 0.0 or proposed > n:
            continue
        scale = (2.83 + 5.1 / b) * spread
        if math.log(v * scale / (a / (edge * edge) + b)) <= _log_ratio(n, p, proposed):
            return int(proposed), state


@kernel
def _log_ratio(n: int, p: float, k: float) -> float:
    """log P(k) / P(m), m the mode; written with log1p, so that it holds for large n too."""
    q = 1.0 - p
    m = math.floor((n + 1) * p)
    return (
        (k + 0.5) * math.log1p((n * p - k + p - q) / (q * (k + 1.0)))
        - (m + 0.5) * math.log1p((n * p - m + p - q) / (q * (m + 1.0)))
        + (n + 1.0) * math.log1p((k - m) / (n - k + 1.0))
        + (_stirling(m) + _stirling(n - m) - _stirling(k) - _stirling(n - k))
    )


@kernel
def _stirling(k: float) -> float:
    """log k! less Stirling's formula for it, (k + 1/2) log(k + 1) - (k + 1) + log(2 pi) / 2."""
    if k < 10.0:
        formula = (k + 0.5) * math.log(k + 1.0) - (k + 1.0) + 0.5 * math.log(2.0 * math.pi)
        return math.lgamma(k + 1.0) - formula
    x = 1.0 / (k + 1.0)
    return x * (1.0 / 12.0 - x * x * (1.0 / 360.0 - x * x / 1260.0))
