"""Queries whose lists differ although their documents never change their order.

A fixed ranking from which products come and go shows other lists, and documents at other ranks;
it still says nothing that a fixed ranking does not.
"""

from __future__ import annotations

from typing import Any, Final

from saferank.logs.counting import Counted

RANKS: Final = 10
"""Ranks whose documents are compared, two by two."""
MORE: Final = 1.5
"""Without sessions: documents shown, over ranks, that documents coming and going may explain."""


def one_order(log: Counted, changing: Any) -> int:
    """How many of some queries show lists that differ, and their documents in one order.

    `changing` is an Ibis table of the local DuckDB with the `query_id` of each.
    """
    possible = _possible(log, changing)
    if not log.log.has_sessions:
        few = possible.filter(possible.documents <= MORE * possible.ranks)
        return int(few.count().to_pyarrow().as_py())
    candidates = possible.select("query_id").to_pyarrow()
    if candidates.num_rows == 0:
        return 0
    chosen = log.engine.bring(candidates, "saferank_one_order")
    swapped = log.engine.fetch(_swapped(log, chosen).count().as_table())
    return int(candidates.num_rows - swapped.column(0)[0].as_py())


def _possible(log: Counted, changing: Any) -> Any:
    """Queries whose counts allow one order, with the number of documents and ranks shown.

    In one order the i-th document is never shown below rank i. So of the lowest ranks at which
    documents were shown, sorted, the i-th is at most i.
    """
    import ibis

    kept = log.log.kept(log.tallied)
    kept = kept.filter(kept.impressions > 0).semi_join(changing, "query_id")
    lowest = kept.group_by("query_id", "doc_id").agg(lowest=kept["rank"].max())
    ordered = ibis.window(group_by=lowest.query_id, order_by=lowest.lowest)
    placed = lowest.mutate(place=ibis.row_number().over(ordered) + 1)
    each = placed.group_by("query_id").agg(
        documents=placed.count(),
        ranks=placed.lowest.max(),
        broken=placed.count(where=placed.lowest > placed.place),
    )
    return each.filter(each.broken == 0)


def _swapped(log: Counted, chosen: Any) -> Any:
    """Queries of which two sessions show two documents in different orders: a pass over the log."""
    kept = log.log.kept(log.log.table)
    kept = kept.filter(kept["rank"] <= RANKS).semi_join(chosen, "query_id")
    kept = kept.select("session_id", "query_id", "doc_id", "rank")
    other = kept.view()
    pairs = kept.join(
        other,
        [
            kept.session_id == other.session_id,
            kept.query_id == other.query_id,
            kept.doc_id < other.doc_id,
        ],
        rname="other_{name}",
    )
    above = pairs["rank"] < pairs.other_rank
    each = pairs.group_by("query_id", "doc_id", "other_doc_id").agg(
        above=pairs.count(where=above), below=pairs.count(where=~above)
    )
    both = each.filter((each.above > 0) & (each.below > 0))
    return both.select("query_id").distinct()
