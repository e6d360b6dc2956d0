"""Learn a ranker from a click log, and tell whether it is safe to put in production.

The flow: logs, counts, estimators, objectives, learning, safety, report and serving.
Each arrow is one sub-package, loaded when it is first used; type checkers see all of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from saferank._core.home import ensure_home

if TYPE_CHECKING:
    from saferank import (
        clicks,
        counts,
        data,
        errors,
        estimators,
        evaluation,
        experiments,
        learning,
        logs,
        metrics,
        objectives,
        plackett_luce,
        policies,
        report,
        rounds,
        safety,
        scorers,
        serving,
        testing,
    )
    from saferank.errors import InputError
    from saferank.learning import Ranker, Recipe, learn, load
    from saferank.logs import count
    from saferank.rounds import Loop
    from saferank.safety import Guard, assess, certify, compare

__version__ = "0.2.0"

ensure_home()

__all__ = [
    "Guard",
    "InputError",
    "Loop",
    "Ranker",
    "Recipe",
    "__version__",
    "assess",
    "certify",
    "clicks",
    "compare",
    "count",
    "counts",
    "data",
    "errors",
    "estimators",
    "evaluation",
    "experiments",
    "learn",
    "learning",
    "load",
    "logs",
    "metrics",
    "objectives",
    "plackett_luce",
    "policies",
    "report",
    "rounds",
    "safety",
    "scorers",
    "serving",
    "testing",
]
_FROM = {
    "errors": ("InputError",),
    "logs": ("count",),
    "learning": ("Ranker", "Recipe", "learn", "load"),
    "rounds": ("Loop",),
    "safety": ("Guard", "assess", "certify", "compare"),
}
"""Names of sub-packages that are here too."""
_HOMES = {name: package for package, names in _FROM.items() for name in names}


if not TYPE_CHECKING:  # to type checkers a name that is not there is an error

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            return getattr(importlib.import_module(f"saferank.{_HOMES[name]}"), name)
        if name in __all__:
            return importlib.import_module(f"saferank.{name}")
        raise AttributeError(f"module 'saferank' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
