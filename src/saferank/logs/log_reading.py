"""Which rows of a log are read, and how: said once, for every pass over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from saferank.counts.feedback import CLICKS, Feedback
from saferank.errors import require
from saferank.logs.exclusions import ExclusionList

HIGHEST_RANK = 2**31 - 1


@dataclass(frozen=True)
class LogReading:
    """Which rows of a log are read, and how; see `saferank.count`.

    Examples
    --------
    >>> LogReading(columns={"rank": "position"}, rank_from=0).rank_from
    0
    """

    columns: Mapping[str, str] | None = None
    where: Sequence[str] = ()
    top: int | None = None
    """The last rank, counted from 1 whatever the log's first rank is."""
    use_sessions: bool = True
    """Without it a `session_id` tells the part of a row and nothing else."""
    rank_from: int = 1
    exclude: ExclusionList | None = None
    feedback: str | Feedback = CLICKS

    def check(self) -> None:
        """`InputError` unless ranks are cut and counted from where they can be."""
        top_rule = f"at least 1 and below {HIGHEST_RANK}"
        require(self.top is None or 1 <= self.top < HIGHEST_RANK, "top", top_rule, self.top)
        require(self.rank_from in (0, 1), "rank_from", "0 or 1", self.rank_from)
