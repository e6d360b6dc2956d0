"""How things are measured: repeats interleaved, the best of each counts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One measured figure and what is asked of it (`wanted` empty: for information)."""

    what: str
    value: float
    unit: str
    wanted: str = ""
    holds: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """The row for JSON."""
        return asdict(self)


def at_least(what: str, value: float, bound: float, unit: str = "x") -> Row:
    """A figure that should not be below a bound."""
    return Row(what, value, unit, f">= {bound:g}", value >= bound)


def at_most(what: str, value: float, bound: float, unit: str) -> Row:
    """A figure that should not be above a bound."""
    return Row(what, value, unit, f"<= {bound:g}", value <= bound)


def info(what: str, value: float, unit: str) -> Row:
    """A figure for information."""
    return Row(what, value, unit)


def best_seconds(*calls: Callable[[], object], repeats: int = 5) -> list[float]:
    """The fastest time of each call, their repeats interleaved so that noise hits all alike."""
    best = [float("inf")] * len(calls)
    for _ in range(repeats):
        for index, call in enumerate(calls):
            start = time.perf_counter()
            call()
            best[index] = min(best[index], time.perf_counter() - start)
    return best
