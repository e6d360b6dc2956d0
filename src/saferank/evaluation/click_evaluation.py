"""Clicks per session of a new ranker, of production, and their difference, however estimated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from saferank.evaluation.intervals import Interval, QueryScores, interval
from saferank.evaluation.support import Support


@dataclass(frozen=True, eq=False)
class ClickEvaluation:
    """Clicks per session of the new ranker, of production, and their difference."""

    new: QueryScores
    production: QueryScores
    difference: QueryScores
    support: Support
    estimator: str
    assumes: tuple[str, ...]
    unknown: tuple[float, float]
    """How far estimates may be too high and too low for what the log never shows."""

    def interval(
        self,
        method: str = "clustered",
        confidence: float = 0.95,
        *,
        of: Literal["new", "production", "difference"] = "difference",
        seed: int = 0,
    ) -> Interval:
        """An interval, by default of the difference to production.

        It reaches as far as clicks on what the log never shows can: from none to always.
        """
        own = interval(getattr(self, of), method, confidence, seed=seed)
        if of == "production":
            return own
        high, low = self.unknown
        return replace(own, lower=own.lower - high, upper=own.upper + low)

    def to_dict(
        self, method: str = "clustered", confidence: float = 0.95, *, seed: int = 0
    ) -> dict[str, Any]:
        """Estimates with intervals, for JSON."""
        return {
            "estimator": self.estimator,
            "assumes": list(self.assumes),
            "support": self.support.to_dict(),
            **{
                name: self.interval(method, confidence, of=name, seed=seed).to_dict()
                for name in ("new", "production", "difference")
            },
        }
