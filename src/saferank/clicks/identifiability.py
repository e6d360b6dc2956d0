"""Whether a log can tell position bias from relevance, and what can be done when it cannot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saferank.logs import Counts, Overlap, overlap

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
    """Documents seen at more than one rank."""
    documents: int
    """Documents seen at all."""

    @property
    def deterministic(self) -> bool:
        """Whether every document was always shown at one rank."""
        return self.several == 0

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
    def verdict(self) -> str:
        """What the log can tell, in plain sentences."""
        if not self.shown:
            return "Nothing was shown: the log can tell nothing."
        if self.documents and self.deterministic and len(self.shown) > 1:
            return (
                "Every document was always shown at one rank: alpha cannot be told from relevance. "
                + _ADVICE
            )
        if not self.identified:
            groups = ", ".join(_named(group) for group in self.components)
            return (
                f"Ranks fall into groups that no document connects ({groups}): alpha can be "
                f"compared within a group only. {_ADVICE}"
            )
        if self.weakest is None:
            return "Only one rank was shown: there is no position bias to tell."
        first, second, weight = self.weakest
        strength = "but only weakly" if weight < WEAK_LINK else "well"
        return (
            f"All ranks are connected, {strength}: {self.several} of {self.documents} documents "
            f"were seen at several ranks, and the weakest link that is needed, between ranks "
            f"{first} and {second}, is worth {weight:.0f} sessions."
        )

    def record(self) -> dict[str, Any]:
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
    "What can still be done: randomise a little (swap neighbours in some sessions), use logs of "
    "several rankers together, let features describe relevance (documents that are alike then "
    "connect ranks), or take a click model from elsewhere; methods that need none still hold."
)


def identifiability(counts: Counts) -> Identifiability:
    """Which ranks of the counts are connected by documents seen at both.

    >>> always = Counts([0, 2], impressions=[[9, 0], [0, 9]], clicks=[[3, 0], [0, 1]])
    >>> print(identifiability(always).verdict[:80])
    Every document was always shown at one rank: alpha cannot be told from relevance
    """
    ranks_seen = np.count_nonzero(counts.impressions, axis=1)
    shown = tuple((np.flatnonzero(counts.impressions.any(axis=0)) + 1).tolist())
    links = overlap(counts)
    return Identifiability(
        links,
        shown,
        _connected(links, shown, 0.0),
        int(np.count_nonzero(ranks_seen > 1)),
        int(np.count_nonzero(ranks_seen)),
    )


def _connected(links: Overlap, shown: tuple[int, ...], least: float) -> tuple[tuple[int, ...], ...]:
    groups = (tuple(rank for rank in group if rank in shown) for group in links.components(least))
    return tuple(group for group in groups if group)


def _named(group: tuple[int, ...]) -> str:
    return "rank " + str(group[0]) if len(group) == 1 else "ranks " + " ".join(map(str, group))
