"""Counts that say how many sessions each query had: the number must be one that can be."""

from __future__ import annotations

from typing import Any

from saferank.errors import InputError
from saferank.logs.tally import total


def check_enough_sessions(counts: Any, by_query: Any) -> None:
    """Refuse fewer sessions of a query than impressions at one of its ranks.

    Parameters
    ----------
    counts
        Ibis table of `query_id`, `rank` and `impressions`.
    by_query
        Ibis table of `query_id` and `sessions`, as the counts say them.
    """
    by_rank = counts.group_by("query_id", "rank").agg(impressions=total(counts.impressions))
    both = by_rank.inner_join(by_query, "query_id")
    few = both.filter(both.sessions < both.impressions).order_by("query_id", "rank").limit(1)
    broken = few.to_pyarrow().to_pylist()
    if broken:
        row = broken[0]
        raise InputError(
            f"`sessions` of a query must be at least its impressions at each rank; got "
            f"{row['sessions']} < {row['impressions']} at rank {row['rank']} of query "
            f"{row['query_id']!r}."
        )
