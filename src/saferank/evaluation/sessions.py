"""The exact variance between sessions, from the row log by one pass of an Ibis engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from saferank import flat
from saferank.data import RankingData
from saferank.errors import require
from saferank.evaluation.intervals import QueryScores
from saferank.evaluation.session_scores import SessionScore
from saferank.flat import Floats
from saferank.logs import Counts
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
) -> list[QueryScores]:
    """The same estimates with the sample variance of sessions within queries.

    The log must hold the sessions that were counted; queries that are not in it keep what they had.
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
        rows = read.kept(read.table)
        rows = rows.mutate(
            query_key=rows.query_id.cast("string"), doc_key=rows.doc_id.cast("string")
        )
        rows = rows.distinct()
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
