"""What of counts has items, and what of items was shown: the report of an alignment."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from saferank.counts.split import OFF, Split


@dataclass(frozen=True)
class Alignment:
    """What of the counts has items, and what of the items was shown."""

    documents: int
    """Query-document pairs of the items."""
    shown: int
    """Those that were shown at least once."""
    queries: int
    shown_queries: int
    impressions: int
    """Impressions of documents that the items have."""
    unknown_documents: int = 0
    """Query-document pairs of the counts that the items do not have: left out."""
    unknown_impressions: int = 0
    unknown_clicks: int = 0
    example: str = ""
    """One of the unknown documents."""
    beyond: int = 0
    """Impressions at ranks below the cut, left out."""
    split: Split = OFF
    """How the counts came in parts; those of an older form are drawn when they are read."""
    learn_sessions: int = 0
    judge_sessions: int = 0

    @property
    def support(self) -> float:
        """Share of the items' documents that were ever shown."""
        return self.shown / self.documents if self.documents else 0.0

    def to_dict(self) -> dict[str, Any]:
        """The report for JSON."""
        return {**asdict(self), "support": self.support}

    def sentences(self) -> list[str]:
        """What a user should know, one sentence each."""
        sentences = [
            f"{self.shown:,} of {self.documents:,} items were shown ({self.support:.1%}), of "
            f"{self.shown_queries:,} of {self.queries:,} queries."
        ]
        if self.unknown_documents:
            sentences.append(
                f"{self.unknown_documents:,} documents of the log have no item and are left out "
                f"({self.unknown_impressions:,} impressions, {self.unknown_clicks:,} clicks; for "
                f"example {self.example})."
            )
        if self.beyond:
            sentences.append(f"{self.beyond:,} impressions lie beyond the cut and are left out.")
        sentences.append(self.split.sentence(self.learn_sessions, self.judge_sessions))
        return sentences
