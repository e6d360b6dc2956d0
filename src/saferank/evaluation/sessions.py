"""The exact variance between sessions, from the row log by one pass of an Ibis engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from saferank import flat
from saferank.data import RankingData
from saferank.errors import require
from saferank.evaluation.intervals import QueryScores
from saferank.evaluation.session_scores import SessionScore
from saferank.flat import Floats
from saferank.logs import Counts, Split
from saferank.logs.engines import opened
from saferank.logs.schema import read_log
from saferank.logs.sources import LogName, find
from saferank.scratch import scratch_folder


def session_moments(
    log: LogName,
    data: RankingData,
    counts: Counts,
    scores: Sequence[SessionScore],
    measured: Sequence[QueryScores],
    *,
    split: Split | None = None,
) -> list[QueryScores]:
    """The same estimates with the sample variance of sessions within queries.

    The log must hold the sessions that were counted; queries that are not in it keep what they had.
    With `split`, as the counts record it (`CountTable.split`), only sessions to judge by are taken:
    those of `counts.part("judge")`. As in counts, rows that repeat session, query, document and
    rank are one, clicked if any of them was.
    """
    import ibis
    import pyarrow as pa
    import pyarrow.parquet as pq

    with (
        scratch_folder() as folder,
        opened("duckdb", spill=folder) as engine,
    ):
        read = read_log(engine.read(find(log)), top=counts.ranks)
        require(read.has_sessions, "log", "rows with a `session_id`", "none")
        rows = _once(_to_judge_by(read.kept(read.table), split))
        pq.write_table(pa.table(_values(data, counts, scores)), folder / "values.parquet")
        values = engine.read(find(folder / "values.parquet"))
        joined = rows.inner_join(values, ["query_key", "doc_key", (rows["rank"], values.at_rank)])
        of_sessions = joined.group_by(["query_number", "session_id"]).agg(
            **{
                f"x{i}": ibis.ifelse(joined.clicked, joined[f"c{i}"], joined[f"m{i}"]).sum()
                for i in range(len(scores))
            }
        )
        of_queries = of_sessions.group_by("query_number").agg(
            **{f"v{i}": of_sessions[f"x{i}"].var(how="sample") for i in range(len(scores))}
        )
        table = of_queries.to_pyarrow()
    query = np.asarray(table["query_number"])
    found = []
    for number, before in enumerate(measured):
        variance = np.asarray(table[f"v{number}"].to_numpy(), dtype=np.float64)
        known = np.isfinite(variance)
        within = before.variance.copy()
        within[query[known]] = variance[known]
        found.append(replace(before, variance=within, variance_from="sessions"))
    return found


def _to_judge_by(rows: Any, split: Split | None) -> Any:
    """The rows of sessions to judge by; all of them where no split is given."""
    if split is None or split.off:
        return rows
    ids = rows.query_id if split.by == "query" else rows.session_id
    return rows.filter(split.hash().chooses(ids))


def _once(rows: Any) -> Any:
    """What each session showed, ids as text."""
    keyed = rows.mutate(query_key=rows.query_id.cast("string"), doc_key=rows.doc_id.cast("string"))
    return keyed.group_by("session_id", "query_key", "doc_key", "rank").agg(
        clicked=keyed.count(where=keyed.clicked) > 0
    )


def _values(
    data: RankingData, counts: Counts, scores: Sequence[SessionScore]
) -> dict[str, Floats | flat.Array]:
    """One row a document and rank that was shown, with the values of every score."""
    query_ids, doc_ids = data.ids()
    document, rank = np.nonzero(counts.impressions)
    query = flat.query_of(data.offsets)[document]
    columns: dict[str, Floats | flat.Array] = {
        "query_key": query_ids[query].astype(str),
        "doc_key": doc_ids[document].astype(str),
        "at_rank": rank + 1,
        "query_number": query,
    }
    for number, score in enumerate(scores):
        columns[f"m{number}"] = score.missed[document, rank]
        columns[f"c{number}"] = score.clicked[document, rank]
    return columns
