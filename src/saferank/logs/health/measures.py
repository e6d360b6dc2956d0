"""What the health of a log is judged by: aggregates of its tally, and two more of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saferank.counts.overlap import Overlap
from saferank.logs.counting import Counted
from saferank.logs.health.order import one_order
from saferank.logs.tally import total

OVERLAP_RANKS = 50


@dataclass(frozen=True)
class Rate:
    """Impressions and clicks at a rank, or on a day."""

    at: int | str
    impressions: int
    clicks: int

    @property
    def rate(self) -> float:
        """Clicks an impression."""
        return self.clicks / self.impressions if self.impressions else 0.0


@dataclass(frozen=True)
class Queries:
    """How sessions spread over the queries."""

    total: int
    seen_once: int
    several: int
    """Queries with more than one session."""
    one_list: int
    """Those of them that show one document per rank, always the same."""
    one_order: int
    """Those whose documents never change their order: they move only as others come or go."""
    sessions: int


@dataclass(frozen=True)
class Documents:
    """Query-document pairs that were shown, and those of them at several ranks."""

    total: int
    several_ranks: int


def by_rank(log: Counted) -> tuple[Rate, ...]:
    """Impressions and clicks at each rank."""
    kept = _kept(log)
    rates = kept.group_by("rank").agg(
        impressions=total(kept.impressions), clicks=total(kept.clicks)
    )
    rows = rates.order_by("rank").to_pyarrow().to_pylist()
    return tuple(Rate(row["rank"], row["impressions"], row["clicks"]) for row in rows)


def by_day(log: Counted) -> tuple[Rate, ...]:
    """Impressions and clicks on each day; a pass over the log's dates, where it has some."""
    if log.log.dated is None:
        return ()
    dated = log.log.kept(log.log.dated)
    if log.log.summed:
        sums = {"impressions": total(dated.impressions), "clicks": total(dated.clicks)}
    else:
        sums = {"impressions": dated.count(), "clicks": dated.count(where=dated.clicked)}
    rows = log.engine.fetch(dated.group_by("day").agg(**sums)).to_pylist()
    rates = [Rate(str(row["day"]), row["impressions"], row["clicks"]) for row in rows]
    return tuple(sorted(rates, key=lambda rate: str(rate.at)))


def documents(log: Counted) -> Documents:
    """Query-document pairs, and those that were seen at more than one rank."""
    kept = _shown(log)
    pairs = kept.group_by("query_id", "doc_id").agg(ranks=kept.count())
    row = _one(pairs.agg(total=pairs.count(), several_ranks=pairs.count(where=pairs.ranks > 1)))
    return Documents(**row)


def queries(log: Counted) -> Queries:
    """How sessions spread over queries, and how many of these always show the same."""
    kept = _shown(log)
    ranks = kept.group_by("query_id", "rank").agg(
        impressions=total(kept.impressions), clicks=total(kept.clicks), documents=kept.count()
    )
    each = ranks.group_by("query_id").agg(
        impressions=total(ranks.impressions),
        clicks=total(ranks.clicks),
        variety=ranks.documents.max(),
        sessions=ranks.impressions.max(),
    )
    if log.by_query is not None:
        said = log.by_query.select(query_key="query_id", said="sessions")
        each = each.inner_join(said, each.query_id == said.query_key)
        each = each.mutate(sessions=each.said)
    several = each.sessions > 1
    row = _one(
        each.agg(
            total=each.count(),
            seen_once=each.count(where=each.sessions <= 1),
            several=each.count(where=several),
            one_list=each.count(where=several & (each.variety == 1)),
            sessions=total(each.sessions),
        )
    )
    changing = each.filter(several & (each.variety > 1)).select("query_id")
    return Queries(**row, one_order=row["one_list"] + one_order(log, changing))


def overlap(log: Counted) -> Overlap:
    """Documents that were seen at both of two ranks, without holding the counts in memory."""
    kept = _shown(log)
    few = kept.filter(kept["rank"] <= OVERLAP_RANKS)
    other = few.view()
    pairs = few.join(
        other,
        [few.query_id == other.query_id, few.doc_id == other.doc_id, few["rank"] < other["rank"]],
        rname="other_{name}",
    )
    n, m = pairs.impressions.cast("float64"), pairs.other_impressions.cast("float64")
    cells = pairs.group_by("rank", "other_rank").agg(
        documents=pairs.count(), weight=(n * m / (n + m)).sum()
    )
    size = min(log.report.ranks, OVERLAP_RANKS)
    shared, weight = np.zeros((size, size), dtype=np.int64), np.zeros((size, size))
    for row in cells.to_pyarrow().to_pylist():
        place = row["rank"] - 1, row["other_rank"] - 1
        shared[place], weight[place] = row["documents"], row["weight"]
    return Overlap(shared + shared.T, weight + weight.T)


def _kept(log: Counted) -> Any:
    return log.log.kept(log.tallied)


def _shown(log: Counted) -> Any:
    kept = _kept(log)
    return kept.filter(kept.impressions > 0)


def _one(aggregate: Any) -> dict[str, int]:
    return _filled(aggregate.to_pyarrow().to_pylist()[0])


def _filled(row: dict[str, int | None]) -> dict[str, int]:
    return {name: int(value or 0) for name, value in row.items()}
