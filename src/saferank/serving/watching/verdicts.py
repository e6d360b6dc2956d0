"""Continue, ship wider, or roll back: what the sequences of an experiment say to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from saferank._core.flat import Floats
from saferank.errors import require
from saferank.serving.watching.confidence_sequences import ConfidenceSequence, confidence_sequence
from saferank.serving.watching.experiment import Experiment, Metric

Verdict = Literal["continue", "ship wider", "roll back"]


@dataclass(frozen=True, eq=False)
class Watched:
    """One metric and its sequence; `tolerance` is the share of production's that may be lost."""

    metric: Metric
    sequence: ConfidenceSequence
    tolerance: float

    def change(self, difference: float) -> float:
        """A difference as a share of production's value."""
        return difference / self.metric.production if self.metric.production > 0 else np.nan

    @property
    def allowed(self) -> float:
        """The difference down to which nothing is lost beyond the tolerance."""
        return -self.tolerance * max(self.metric.production, 0.0)

    @property
    def harmed(self) -> bool:
        """Whether it is surely worse than tolerated."""
        return bool(self.sequence.upper[-1] < self.allowed)

    @property
    def sure(self) -> bool:
        """Whether it is surely not worse than tolerated."""
        return bool(self.sequence.lower[-1] >= self.allowed)

    @property
    def says(self) -> str:
        """The same in words."""
        if self.harmed:
            return "worse than tolerated"
        return "not worse than tolerated" if self.sure else "not sure yet"

    def to_dict(self) -> dict[str, Any]:
        """The metric for JSON."""
        sequence = self.sequence
        return {
            "name": self.metric.name,
            "production": self.metric.production,
            "estimate": float(sequence.estimate[-1]),
            "lower": float(sequence.lower[-1]),
            "upper": float(sequence.upper[-1]),
            "tolerance": self.tolerance,
            "sessions": int(sequence.observations[-1]),
            "missing": self.metric.missing,
            "by_day": {
                name: _finite(getattr(sequence, name)) for name in ("estimate", "lower", "upper")
            },
        }

    def sentence(self) -> str:
        """The metric in one sentence."""
        low, high = self.sequence.lower[-1], self.sequence.upper[-1]
        if not np.isfinite(low):
            return f"{self.metric.name}: too few sessions to say anything yet"
        share = self.change
        return (
            f"{self.metric.name}: {share(self.sequence.estimate[-1]):+.1%} against production "
            f"({share(low):+.1%} to {share(high):+.1%})"
        )


@dataclass(frozen=True, eq=False)
class Watch:
    """What guarded traffic says so far."""

    experiment: Experiment
    watched: tuple[Watched, ...]
    confidence: float
    least: int

    @property
    def primary(self) -> Watched:
        """Clicks, by which it is decided."""
        return self.watched[0]

    @property
    def verdict(self) -> Verdict:
        """Roll back on sure harm to anything; wider only when clicks and guardrails are safe."""
        if self.sessions < self.least:
            return "continue"
        if any(each.harmed for each in self.watched):
            return "roll back"
        return "ship wider" if all(each.sure for each in self.watched) else "continue"

    @property
    def sessions(self) -> int:
        """Sessions that compare the two rankers."""
        return int(self.primary.sequence.observations[-1])

    def sentence(self) -> str:
        """The verdict and why, in one sentence."""
        sentences = "; ".join(each.sentence() for each in self.watched)
        if self.sessions < self.least:
            return f"Continue: {self.sessions:,} of the {self.least:,} sessions that are needed."
        return f"{self.verdict.capitalize()}: {sentences}."

    def next_step(self) -> str:
        """What to do now."""
        if self.verdict == "roll back":
            return "serve production alone, and learn from this log, too."
        if self.verdict == "ship wider":
            return "certify again by this log, with a smaller --holdout or --keep, and watch on."
        return "leave it as it is, and look again when there are more sessions."

    def notes(self) -> list[str]:
        """What was left out, and what it assumes."""
        experiment, notes = self.experiment, []
        if experiment.alone:
            notes.append(
                f"{experiment.alone:,} of {experiment.lists:,} lists are of queries that get one "
                f"ranker only: they compare nothing. Keep a small share of production there."
            )
        if experiment.unusable:
            notes.append(
                f"{experiment.unusable:,} lists have no session, an arm other than 'new' and "
                f"'production', or a share that is no probability: left out."
            )
        notes += [
            f"{each.metric.missing:,} lists have no value of {each.metric.name}: left out."
            for each in self.watched
            if each.metric.missing
        ]
        notes.append(
            "Production's value is that of all sessions had they been production's: its lists "
            "weigh 1 / (1 - share), so it is not the plain mean of production's arm."
        )
        notes.append(
            f"All intervals hold at every look at once ({self.confidence:.0%}), as far as sessions "
            f"are independent and {self.least:,} of them are enough for normal sums."
        )
        return notes

    def to_dict(self) -> dict[str, Any]:
        """The watch for JSON."""
        return {
            "verdict": self.verdict,
            "sentence": self.sentence(),
            "sessions": self.sessions,
            "days": list(self.experiment.days),
            "metrics": [each.to_dict() for each in self.watched],
            "lists": self.experiment.lists,
            "lists_alone": self.experiment.alone,
            "lists_unusable": self.experiment.unusable,
            "confidence": self.confidence,
            "notes": self.notes(),
        }


def watch(
    experiment: Experiment,
    *,
    tolerance: float = 0.01,
    guardrail_tolerance: float = 0.02,
    confidence: float = 0.95,
    planned: float | None = None,
    least: int = 1000,
) -> Watch:
    """Judge guarded traffic, however often it is looked at.

    Parameters
    ----------
    experiment : from `read_experiment`: clicks first, then the guardrails.
    tolerance : share of production's clicks that may be lost; `guardrail_tolerance`: of the others.
    confidence : that every interval of every metric holds at every look; shared out evenly.
    planned : sessions at which intervals are to be narrowest; by default ten times the first
        day's. Choose it before looking.
    least : sessions below which nothing is decided.

    Examples
    --------
    >>> days = Metric("clicks", np.array([4000]), np.array([-900.0]), np.array([9000.0]), 1.2, 0)
    >>> watch(Experiment(("all",), (days,), 4000, 0, 0, 2000)).verdict
    'roll back'
    """
    require(0 <= tolerance < 1, "tolerance", "in [0, 1)", tolerance)
    require(0 <= guardrail_tolerance < 1, "guardrail_tolerance", "in [0, 1)", guardrail_tolerance)
    require(least >= 2, "least", "at least 2", least)
    each = 1 - (1 - confidence) / len(experiment.metrics)
    first = int(experiment.metrics[0].sessions[0])
    watched = tuple(
        Watched(
            metric,
            confidence_sequence(
                metric.sessions, metric.sums, metric.squares, confidence=each,
                planned=10.0 * max(first, 1) if planned is None else planned, least=least,
            ),
            tolerance if index == 0 else guardrail_tolerance,
        )
        for index, metric in enumerate(experiment.metrics)
    )  # fmt: skip
    return Watch(experiment, watched, confidence, least)


def _finite(values: Floats) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]
