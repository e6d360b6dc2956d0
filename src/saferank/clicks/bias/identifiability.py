"""Whether a log can tell position bias from relevance, and what can be done when it cannot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saferank.counts import Counts, overlap
from saferank.counts.overlap import Overlap

WEAK_LINK = 100.0
"""Sessions below which a link between ranks is called weak."""


@dataclass(frozen=True, eq=False)
class Identifiability:
    """Which ranks of a log can be compared, through documents seen at several of them."""

    overlap: Overlap
    shown: tuple[int, ...]
    """Ranks (from 1) at which anything was shown."""
    components: tuple[tuple[int, ...], ...]
    """Groups of ranks that documents seen at several ranks connect."""
    several: int
    """Documents seen at more than one rank, often enough."""
    documents: int
    """Documents seen at all."""
    least: int = 1
    """Impressions at a rank that make a document seen there."""
    moved: int = 0
    """Documents seen at more than one rank at all, however seldom."""

    @property
    def deterministic(self) -> bool:
        """Whether every document was always shown at one rank."""
        return self.moved == 0

    @property
    def identified(self) -> bool:
        """Whether all ranks are connected, so that bias can be told from relevance up to scale."""
        return len(self.components) == 1

    @property
    def weakest(self) -> tuple[int, int, float] | None:
        """The weakest link that holds the ranks together: its ranks, and sessions it is worth."""
        if len(self.shown) < 2 or not self.identified:
            return None
        at = [rank - 1 for rank in self.shown]
        weight = self.overlap.weight[np.ix_(at, at)]
        levels = np.unique(weight[weight > 0])
        for level in levels.tolist():
            if len(_connected(self.overlap, self.shown, level)) > 1:
                first, second = np.argwhere(self.overlap.weight == level)[0].tolist()
                return first + 1, second + 1, level
        raise AssertionError("a link without which ranks stay connected")

    @property
    def finding(self) -> str:
        """Which ranks can be compared through the same documents, in one sentence."""
        if not self.shown:
            return "Nothing was shown: the log can tell nothing."
        often = "" if self.least == 1 else " twice" if self.least == 2 else f" {self.least} times"
        if self.several == 0 and len(self.shown) > 1:
            said = (
                "Every document was always shown at one rank"
                if self.deterministic
                else f"No document was shown{often} at each of two ranks"
            )
            return f"{said}: the same documents cannot tell alpha from relevance."
        if not self.identified:
            seen = f" shown{often} at both" if often else ""
            return (
                f"Ranks fall into groups that no document{seen} connects ({self._groups}): they "
                "cannot be compared."
            )
        if self.weakest is None:
            return "Only one rank was shown: there is no position bias to tell."
        first, second, weight = self.weakest
        return (
            f"All ranks are connected{', but only weakly' if weight < WEAK_LINK else ''}: "
            f"{self.several} of {self.documents} documents were seen{often} at several ranks, and "
            f"the weakest link that is needed, between ranks {first} and {second}, is worth "
            f"{weight:.0f} sessions."
        )

    @property
    def _groups(self) -> str:
        named = [_named(group) for group in self.components]
        return ", ".join(named if len(named) < 5 else [*named[:3], f"and {len(named) - 3} more"])

    @property
    def verdict(self) -> str:
        """What the log can tell through the same documents and, if not, what can be done."""
        return self.finding if self.identified or not self.shown else f"{self.finding} {_ADVICE}"

    def to_dict(self) -> dict[str, Any]:
        """The finding for JSON."""
        return {
            "identified": self.identified,
            "deterministic": self.deterministic,
            "components": [list(group) for group in self.components],
            "documents_at_several_ranks": self.several,
            "documents_shown": self.documents,
            "documents_at_both_ranks": self.overlap.documents.tolist(),
            "sessions_of_links": self.overlap.weight.tolist(),
            "verdict": self.verdict,
        }


_ADVICE = (
    "What can still be done: say so if lists were in random order (--policy uniform), serve chance "
    "(saferank explore), let features tell (--items), or bring a click model."
)


def identifiability(counts: Counts, *, least: int = 1) -> Identifiability:
    """Which ranks of the counts are connected by documents seen `least` times at both.

    Position bias needs one impression at each of two ranks, trust bias two.

    Parameters
    ----------
    counts
        Impressions of documents at ranks.
    least
        Impressions that a document needs at both of two ranks to connect them.

    Returns
    -------
    Identifiability
        Groups of connected ranks, and a sentence on them.

    Examples
    --------
    >>> always = Counts([0, 2], impressions=[[9, 0], [0, 9]], clicks=[[3, 0], [0, 1]])
    >>> print(identifiability(always).finding)
    Every document was always shown at one rank: the same documents cannot tell alpha from \
relevance.
    """
    ranks_seen = np.count_nonzero(counts.impressions >= least, axis=1)
    shown = tuple((np.flatnonzero(counts.impressions.any(axis=0)) + 1).tolist())
    links = overlap(counts, least=least)
    return Identifiability(
        links,
        shown,
        _connected(links, shown, 0.0),
        int(np.count_nonzero(ranks_seen > 1)),
        int(np.count_nonzero(counts.impressions.any(axis=1))),
        least,
        int(np.count_nonzero(np.count_nonzero(counts.impressions, axis=1) > 1)),
    )


def _connected(links: Overlap, shown: tuple[int, ...], least: float) -> tuple[tuple[int, ...], ...]:
    groups = (tuple(rank for rank in group if rank in shown) for group in links.components(least))
    return tuple(group for group in groups if group)


def _named(group: tuple[int, ...]) -> str:
    if len(group) == 1:
        return f"rank {group[0]}"
    said = " ".join(map(str, group[:6]))
    return f"ranks {said}" if len(group) <= 6 else f"ranks {said} and {len(group) - 6} more"
