"""The minimum of a function of one number between two bounds, by Brent's method.

The steps, and the bits, are those of `scipy.optimize.minimize_scalar(method="bounded")`, whose
import takes longer than many a search.
"""

from __future__ import annotations

import math
from collections.abc import Callable

_ROOT = math.sqrt(2.2e-16)
_GOLDEN = 0.5 * (3.0 - math.sqrt(5.0))
MOST = 500
"""Values of the function, at most."""


def bounded_minimum(
    function: Callable[[float], float], low: float, high: float, *, tolerance: float
) -> float:
    """Where a function is least between two bounds, to within a tolerance; it must have one dip.

    Golden sections, or where they are trusted the lowest point of the parabola through the three
    best points (Brent, Algorithms for Minimization without Derivatives, 1973).

    >>> round(bounded_minimum(lambda x: (x - 2) ** 2, 0.0, 5.0, tolerance=1e-6), 6)
    2.0
    """
    at = low + _GOLDEN * (high - low)
    best = second = third = (at, function(at))
    step = before = 0.0
    for _ in range(1, MOST):
        middle = 0.5 * (low + high)
        least = _ROOT * abs(best[0]) + tolerance / 3.0
        if abs(best[0] - middle) <= 2.0 * least - 0.5 * (high - low):
            break
        fitted = None
        if abs(before) > least:
            fitted = _parabola(best, second, third, before, (low, high))
            before = step
        if fitted is None:
            before = (low if best[0] >= middle else high) - best[0]
            step = _GOLDEN * before
        else:
            step = fitted
            near = best[0] + step
            if near - low < 2.0 * least or high - near < 2.0 * least:
                step = least if middle >= best[0] else -least
        at = best[0] + (max(abs(step), least) if step >= 0 else -max(abs(step), least))
        tried = (at, function(at))
        if tried[1] <= best[1]:
            low, high = (best[0], high) if at >= best[0] else (low, best[0])
            best, second, third = tried, best, second
            continue
        low, high = (at, high) if at < best[0] else (low, at)
        if tried[1] <= second[1] or second[0] == best[0]:
            second, third = tried, second
        elif tried[1] <= third[1] or third[0] in (best[0], second[0]):
            third = tried
    return best[0]


def _parabola(
    best: tuple[float, float],
    second: tuple[float, float],
    third: tuple[float, float],
    before: float,
    bounds: tuple[float, float],
) -> float | None:
    """The step to the lowest point of a parabola; None where it leads out or shrinks too slowly."""
    r = (best[0] - second[0]) * (best[1] - third[1])
    q = (best[0] - third[0]) * (best[1] - second[1])
    p = (best[0] - third[0]) * q - (best[0] - second[0]) * r
    q = 2.0 * (q - r)
    p, q = (-p if q > 0.0 else p), abs(q)
    inside = q * (bounds[0] - best[0]) < p < q * (bounds[1] - best[0])
    return p / q if inside and abs(p) < abs(0.5 * q * before) else None
