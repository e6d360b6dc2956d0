"""Learn a ranker from a click log, and tell whether it is safe to put in production.

The way of the data: logs -> counts -> gains -> objective -> policy -> certificate -> report.
Each arrow is one sub-package, loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import Any

from saferank.home import ensure_home

__version__ = "0.1.0"

ensure_home()

_PACKAGES = (
    "clicks",
    "data",
    "evaluation",
    "experiments",
    "gains",
    "logs",
    "objectives",
    "plackett_luce",
    "policies",
    "rankers",
    "report",
    "safety",
)
_FUNCTIONS = {
    "assess": "saferank.safety",
    "certify": "saferank.safety",
    "compare": "saferank.safety",
    "count": "saferank.logs",
    "learn": "saferank.rankers",
}

__all__ = ["__version__", *_PACKAGES, *_FUNCTIONS]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"saferank.{name}")
    if name in _FUNCTIONS:
        return getattr(importlib.import_module(_FUNCTIONS[name]), name)
    raise AttributeError(f"module 'saferank' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
