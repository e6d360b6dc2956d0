"""What the log is like: its size, how it fits production's policy and the click model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saferank.clicks import ClickModel
from saferank.counts import Counts, overlap
from saferank.policies.production_fit import ProductionFit


@dataclass(frozen=True)
class RankRate:
    """Clicks at a rank: how many impressions, the rate seen, and the click model's."""

    rank: int
    impressions: int
    observed: float
    modelled: float


@dataclass(frozen=True)
class LogFacts:
    """What the log is like: its size, how it fits production's policy and the click model."""

    sessions: int
    """Of the whole log; `judged` are those of the estimates."""
    judged: int
    clicks: int
    queries_seen: int
    queries: int
    sentences: tuple[str, ...]
    by_rank: tuple[RankRate, ...]

    @property
    def size(self) -> tuple[int, ...]:
        """Numbers by which another log is recognised, whatever click model it was read with."""
        seen = tuple(rate.impressions for rate in self.by_rank)
        return (self.sessions, self.judged, self.clicks, self.queries_seen, self.queries, *seen)


def log_facts(
    fit: ProductionFit, counts: Counts, judged: Counts, click_model: ClickModel
) -> LogFacts:
    """Facts of the whole log, of which `judged` are the sessions to judge by."""
    everything = counts.part("all")
    parts = overlap(everything).components()
    if len(parts) == 1:
        linked = "Documents were shown at several ranks: all ranks can be compared."
    else:
        linked = f"Ranks fall into {len(parts)} groups that share no document: they cannot be told"
        linked += " apart from relevance."
    return LogFacts(
        sessions=everything.total,
        judged=judged.total,
        clicks=int(everything.clicks.sum()),
        queries_seen=int(np.count_nonzero(everything.sessions)),
        queries=everything.queries,
        sentences=(fit.sentence, linked),
        by_rank=_rates(everything, click_model),
    )


def _rates(counts: Counts, click_model: ClickModel) -> tuple[RankRate, ...]:
    """Click rates by rank beside those of the click model, each document's clicks being given.

    Relevance is what a document's clicks amount to, also outside of [0, 1]: cut off, it would be
    too high on average, and so would the model's rates.
    """
    looked = counts.impressions @ click_model.alpha
    excess = (counts.clicks - counts.impressions * click_model.beta).sum(axis=1)
    relevance = np.divide(excess, looked, out=np.zeros_like(looked), where=looked > 0)
    chances = relevance[:, None] * click_model.alpha + click_model.beta
    expected = (counts.impressions * chances).sum(axis=0)
    shown: Any = counts.impressions.sum(axis=0)
    clicked = counts.clicks.sum(axis=0)
    some = np.maximum(shown, 1)
    return tuple(
        RankRate(k + 1, int(shown[k]), float(clicked[k] / some[k]), float(expected[k] / some[k]))
        for k in range(counts.ranks)
    )
