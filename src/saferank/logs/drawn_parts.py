"""Sessions to judge by, drawn from counts that were summed before they were split.

Of the N sessions of a query m are to judge by, m binomial. At each rank those are m of N drawn
without replacement, so the documents that they show there are multivariate hypergeometric (and so
are sessions that show nothing at that rank), and the clicks of each document hypergeometric. That
is the law of a split by session, ranks apart, if clicks are independent given impressions.

The draw depends on the seed and the ids, not on the order of rows: each query has a stream of its
own, and the documents of a rank are taken in the order of their ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from saferank._core.chance import States, binomial, hypergeometric, numbered, streams
from saferank._core.flat import Ints
from saferank._core.kernels import kernel
from saferank._core.progress import bar
from saferank.counts.count_table import COLUMNS
from saferank.counts.split import Split
from saferank.logs.engines.running import DuckDB
from saferank.logs.parts import Parts
from saferank.logs.tally import INVERSE, JUDGE_COLUMNS

BATCH = 1 << 18
"""Rows that are drawn at a time; what they take in memory does not grow with the counts."""


def draw(local: DuckDB, counts: Any, by_query: Any | None, split: Split, folder: Path) -> Parts:
    """Counts (one row for each query, document and rank) in parts.

    Without `by_query` a query had as many sessions as its most shown rank has impressions.
    """
    columns = [*COLUMNS, *([INVERSE] if INVERSE in counts.columns else [])]
    wanted = counts.select(*columns)
    if by_query is not None:
        wanted = counts.inner_join(by_query, "query_id").select(*columns, "sessions")
    ordered = wanted.order_by("query_id", "rank", "doc_id")
    totals = np.zeros(2, dtype=np.int64)
    files = folder / "drawn.parquet", folder / "drawn-sessions.parquet"
    writers: list[pq.ParquetWriter] = []
    try:
        with bar("Drawing sessions to judge by", None) as advance:
            for block in _whole_queries(local.batches(ordered, BATCH)):
                tables = _drawn(block, split)
                if not writers:
                    writers += [
                        pq.ParquetWriter(file, table.schema)
                        for file, table in zip(files, tables, strict=True)
                    ]
                for writer, table in zip(writers, tables, strict=True):
                    writer.write_table(table)
                totals += [pc.sum(tables[1][name]).as_py() for name in _SESSIONS]
                advance(block.num_rows)
    finally:
        for writer in writers:
            writer.close()
    if not writers:
        return Parts(split, counts.mutate(**dict.fromkeys(JUDGE_COLUMNS, 0)))
    drawn, sessions = (local.connection.read_parquet(str(file)) for file in files)
    learn_judge = int(totals[0] - totals[1]), int(totals[1])
    return Parts(split, drawn, None if by_query is None else sessions, learn_judge)


_SESSIONS = ("sessions", "judge_sessions")


def _whole_queries(batches: Any) -> Iterator[pa.Table]:
    """Sorted rows in blocks that end where a query does."""
    pending: list[pa.Table] = []
    for batch in batches:
        table = pa.Table.from_batches([batch])
        if table.num_rows == 0:
            continue
        cuts = _starts(table["query_id"])
        if cuts.size == 1 and pending and _same_query(pending[-1], table):
            pending.append(table)
            continue
        if pending and not _same_query(pending[-1], table):
            yield pa.concat_tables(pending)
            pending = []
        last = int(cuts[-1])
        if last:
            yield pa.concat_tables([*pending, table.slice(0, last)])
            pending = []
        pending.append(table.slice(last))
    if pending:
        yield pa.concat_tables(pending)


def _same_query(before: pa.Table, after: pa.Table) -> bool:
    return bool(before["query_id"][before.num_rows - 1] == after["query_id"][0])


def _starts(ids: pa.ChunkedArray) -> Ints:
    """Where another id begins."""
    changes = pc.not_equal(ids.slice(1), ids.slice(0, len(ids) - 1))
    flags = np.concatenate([[True], changes.to_numpy().astype(np.bool_)])
    return np.flatnonzero(flags).astype(np.int64)


def _drawn(block: pa.Table, split: Split) -> tuple[pa.Table, pa.Table]:
    """Counts of whole queries with what is to judge by, and the sessions of those queries."""
    starts = _starts(block["query_id"])
    queries = block["query_id"].take(pa.array(starts))
    offsets = np.append(starts, block.num_rows)
    rank, impressions, clicks = (
        block[name].to_numpy().astype(np.int64) for name in ("rank", "impressions", "clicks")
    )
    sessions = _most_shown(offsets, rank, impressions)
    if "sessions" in block.column_names:
        sessions = block["sessions"].to_numpy()[starts].astype(np.int64)
    assert split.seed is not None
    assert split.judge is not None
    states = streams(split.seed, "drawn", np.array(queries.to_pylist(), dtype=object))
    judged = _draw(offsets, rank, impressions, clicks, sessions, split.judge, states)
    by_query = dict(zip(_SESSIONS, (sessions, judged[0]), strict=True))
    drawn = block.drop_columns(["sessions"]) if "sessions" in block.column_names else block
    for name, column in zip(JUDGE_COLUMNS, judged[1:], strict=True):
        drawn = drawn.append_column(name, pa.array(column))
    return drawn, pa.table({"query_id": queries, **by_query})


@kernel
def _most_shown(offsets: Ints, rank: Ints, impressions: Ints) -> Ints:
    """Impressions of each query's most shown rank; rows are sorted by query and rank."""
    most = np.zeros(offsets.size - 1, dtype=np.int64)
    for query in range(most.size):
        at_rank = 0
        for row in range(offsets[query], offsets[query + 1]):
            same = row > offsets[query] and rank[row] == rank[row - 1]
            at_rank = at_rank + impressions[row] if same else impressions[row]
            most[query] = max(most[query], at_rank)
    return most


@kernel
def _draw(
    offsets: Ints,
    rank: Ints,
    impressions: Ints,
    clicks: Ints,
    sessions: Ints,
    share: float,
    states: States,
) -> tuple[Ints, Ints, Ints]:
    """Sessions of each query, impressions and clicks of each row to judge by.

    Rows are sorted by query and rank.
    """
    chosen = np.zeros(offsets.size - 1, dtype=np.int64)
    shown, clicked = np.zeros_like(impressions), np.zeros_like(clicks)
    for query in range(chosen.size):
        chosen[query], state = binomial(sessions[query], share, numbered(states[query], 0))
        rest, wanted = 0, 0
        for row in range(offsets[query], offsets[query + 1]):
            if row == offsets[query] or rank[row] != rank[row - 1]:
                state = numbered(states[query], rank[row])
                rest, wanted = sessions[query], chosen[query]
            number, hits = impressions[row], clicks[row]
            shown[row], state = hypergeometric(number, rest - number, wanted, state)
            clicked[row], state = hypergeometric(hits, number - hits, shown[row], state)
            rest, wanted = rest - number, wanted - shown[row]
    return chosen, shown, clicked
