"""Tails of the usual distributions, and where they begin.

By `scipy.special` alone: importing `scipy.stats` takes longer than many a command.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special


def normal_tail(value: Any) -> Any:
    """P(Z > value).

    >>> float(normal_tail(0.0))
    0.5
    """
    return special.ndtr(-value)


def normal_quantile(tail: Any) -> Any:
    """The value that Z exceeds with this probability.

    >>> round(float(normal_quantile(0.025)), 4)
    1.96
    """
    return -special.ndtri(tail)


def student_tail(value: Any, freedom: Any) -> Any:
    """P(T > value) of Student's t.

    >>> round(float(student_tail(2.262, 9)), 4)
    0.025
    """
    return special.stdtr(freedom, -value)


def student_quantile(tail: Any, freedom: Any) -> Any:
    """The value that Student's t exceeds with this probability.

    >>> round(float(student_quantile(0.025, 9)), 3)
    2.262
    """
    return -special.stdtrit(freedom, tail)


def chi_square_quantile(tail: Any, freedom: Any) -> Any:
    """The value that chi-square exceeds with this probability.

    >>> round(float(chi_square_quantile(0.05, 1)), 3)
    3.841
    """
    return special.chdtri(freedom, tail)


def binomial_at_most(count: Any, trials: Any, chance: Any) -> Any:
    """P(X <= count) of so many trials, count in 0..trials.

    >>> float(binomial_at_most(0, 2, 0.5)), float(binomial_at_most(2, 2, 0.5))
    (0.25, 1.0)
    """
    below = special.betaincc(count + 1.0, np.maximum(trials - count, 1.0), chance)
    return np.where(count >= trials, 1.0, below)


def binomial_at_least(count: Any, trials: Any, chance: Any) -> Any:
    """P(X >= count) of so many trials, count in 0..trials.

    >>> float(binomial_at_least(0, 2, 0.5)), float(binomial_at_least(2, 2, 0.5))
    (1.0, 0.25)
    """
    above = special.betainc(np.maximum(count, 1.0), trials - count + 1.0, chance)
    return np.where(count <= 0, 1.0, above)
