"""The ship rule: one record from the command line to the page."""

from __future__ import annotations

from dataclasses import dataclass, replace

from saferank.errors import InputError, require
from saferank.safety.guarded import Mode

TOLD = 0.2
"""Doubt that figures are told for where none decides."""
RULES = ("auto", "promise", "clicks", "both")


@dataclass(frozen=True)
class Rule:
    """How a verdict is reached: by what, of what is served, and how sure it has to be.

    Examples
    --------
    >>> Rule(by="clicks", tolerance=0.01).confidence
    0.95
    >>> Rule(by="luck")
    Traceback (most recent call last):
    saferank.errors.InputError: `by` must be one of auto, promise, clicks, both; got 'luck'.
    """

    by: str = "auto"
    """"promise", "clicks", "both", or "auto": by clicks where there are counts, and by both where
    the ranker was learned with a promise, or where a doubt is given and a promise stated."""
    tolerance: float = 0.0
    """Share of production's clicks that may be lost."""
    confidence: float = 0.95
    """Of intervals and of the bound that decides."""
    method: str | None = None
    """One of `evaluation.INTERVALS`; None: "clustered", and "normal" with a log, whose rows tell
    the variance between sessions."""
    guard: bool = False
    """Judge the ranker as served with its guard."""
    same_sessions: bool = False
    """Make the estimate although the ranker was learned from the same sessions."""
    doubt: float | None = None
    """How far the click model's numbers may be from the truth, as a share of themselves, and the
    ranker still has to be surely good enough. None: the verdict takes the click model as it is,
    and says how far it may be wrong."""
    guard_mode: Mode = "best"
    """What the guard serves: "best" or "mix"; see `Guard`."""
    holdout: float = 0.0
    """Share of each query's sessions that the guard leaves to production, for comparison."""

    def __post_init__(self) -> None:
        require(self.by in RULES, "by", f"one of {', '.join(RULES)}", self.by)
        require(0 <= self.tolerance < 1, "tolerance", "in [0, 1)", self.tolerance)
        require(0 <= self.holdout < 1, "holdout", "in [0, 1)", self.holdout)
        if self.holdout and not self.guard:
            raise InputError("`holdout` is a part of the guard: give --guard (guard=True), too.")
        require(0 <= self.told_doubt < float("inf"), "doubt", "at least 0", self.doubt)

    @property
    def joined(self) -> bool:
        """Whether it asks for both: enough for certain on average, and a promise to every query."""
        return self.by == "both" and self.doubt is not None

    @property
    def told_doubt(self) -> float:
        """The doubt that figures are told for, whether or not it decides."""
        return TOLD if self.doubt is None else self.doubt

    @property
    def interval(self) -> str:
        """The method of intervals."""
        return "clustered" if self.method is None else self.method

    def settle(self, *, counts: bool, promise: bool, log: bool, stated: bool = False) -> Rule:
        """The rule with nothing left open: by what is there to decide by.

        `promise`: the ranker was learned with one; `stated`: one was asked for when judging.
        """
        asked = promise or (self.doubt is not None and (stated or self.guard))
        both = self.by == "auto" and counts and asked
        method = ("normal" if log else "clustered") if self.method is None else self.method
        return replace(self, by="both" if both else self.by, method=method)
