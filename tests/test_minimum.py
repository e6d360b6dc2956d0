"""Brent's search: the steps of SciPy's, bit by bit."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from saferank._core.minimum import bounded_minimum

FUNCTIONS: dict[str, Callable[[float], float]] = {
    "a parabola": lambda x: (x - 0.3) ** 2,
    "a kink": lambda x: abs(x - 1.7),
    "steep": lambda x: math.cosh(3 * x) - 2 * x,
    "flat at its least": lambda x: (x + 0.5) ** 6,
    "falling": lambda x: -x,
    "rising": math.exp,
    "constant": lambda _: 1.0,
    "two dips": lambda x: math.cos(4 * x) + 0.1 * x,
    "in steps": lambda x: float(np.floor(5 * abs(x))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@given(
    low=st.floats(-5, 5), width=st.floats(1e-3, 10), tolerance=st.sampled_from([1e-3, 1e-5, 1e-8])
)
def test_the_steps_are_those_of_scipy(
    name: str, low: float, width: float, tolerance: float
) -> None:
    ours: list[float] = []
    theirs: list[float] = []

    def noted(points: list[float]) -> Callable[[float], float]:
        def value(x: float) -> float:
            points.append(float(x))
            return FUNCTIONS[name](float(x))

        return value

    at = bounded_minimum(noted(ours), low, low + width, tolerance=tolerance)
    best = minimize_scalar(
        noted(theirs), bounds=(low, low + width), method="bounded", options={"xatol": tolerance}
    )
    assert ours == theirs
    assert at == best.x
