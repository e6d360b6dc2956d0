"""Contracts that every part passes, for parts of your own, too: each raises `AssertionError`."""

from saferank.testing.contracts import (
    check_click_model,
    check_estimator,
    check_objective,
    check_policy,
    check_scorer,
)

__all__ = [
    "check_click_model",
    "check_estimator",
    "check_objective",
    "check_policy",
    "check_scorer",
]
