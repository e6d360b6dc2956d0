"""Do ranks of a log count from 0? Asked only when rows break the rule of ranks."""

from __future__ import annotations

from typing import Any, Final

from saferank.logs.engines.running import Engine
from saferank.logs.schema import Log

NEARLY_ALL: Final = 0.95
"""Share of the queries whose lists must begin at 0: a few products may be gone from the top."""
AS_OFTEN: Final = 0.8
"""Rank 0 as a share of rank 1, at least: some rows of a log are there twice."""


def counts_from_zero(engine: Engine, log: Log) -> bool:
    """Whether every list begins at rank 0, judged query by query.

    If it does, a query shows rank 0 about as often as rank 1; and nothing lies below 0.
    """
    rows = log.source.filter(log.source["rank"].notnull())
    rank = rows["rank"]
    each = rows.group_by("query_id").agg(
        zero=_often(rows, rank == 0, log.summed),
        one=_often(rows, rank == 1, log.summed),
        below=_often(rows, rank < 0, log.summed),
    )
    begins = (each.zero > 0) & (each.zero >= AS_OFTEN * each.one)
    facts = engine.fetch(
        each.agg(
            queries=each.count(),
            begin=each.count(where=begins),
            below=each.count(where=each.below > 0),
        )
    ).to_pylist()[0]
    return bool(
        facts["queries"] and not facts["below"] and facts["begin"] >= NEARLY_ALL * facts["queries"]
    )


def _often(rows: Any, condition: Any, summed: bool) -> Any:
    """Impressions of the rows that meet a condition; in a summed log a row has several."""
    if summed:
        return condition.ifelse(rows.impressions, 0).sum()
    return rows.count(where=condition)
