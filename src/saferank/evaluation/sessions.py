"""The exact variance between sessions, from the row log by one pass of an Ibis engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats
from saferank._core.scratch import scratch_folder
from saferank.counts import Counts, Split
from saferank.counts.feedback import CLICKS, Feedback
from saferank.data import RankingData
from saferank.errors import InputError, require
from saferank.estimators.session_form import SessionScore
from saferank.evaluation.intervals import QueryScores
from saferank.logs.engines.running import Engine, opened
from saferank.logs.feedback_columns import FeedbackColumns
from saferank.logs.log_reading import LogReading
from saferank.logs.schema import read_log
from saferank.logs.sources import LogName, find


@dataclass(frozen=True)
class LogRows:
    """The rows that counts are of, and how they are read.

    Attributes
    ----------
    log : files, folders, globs, or a table in memory, with a `session_id`.
    split : how the counts were split (`CountTable.split`), where only the sessions to judge by
        are meant; None for all.
    columns : the log's own names, as in `count`.
    rank_from : the log's first rank, 0 or 1.
    feedback : what the counts count (`CountTable.feedback`), drawn by the seed of their split.

    See Also
    --------
    evaluate, saferank.assess : take one as `log`.

    Examples
    --------
    >>> rows = LogRows("clicks/*.parquet", columns={"rank": "position"})
    >>> rows.rank_from, rows.split is None
    (1, True)
    """

    log: LogName
    split: Split | None = None
    columns: Mapping[str, str] | None = None
    rank_from: int = 1
    feedback: Feedback = CLICKS

    @classmethod
    def of(cls, log: LogName | LogRows) -> LogRows:
        """A log by name is all of its rows."""
        return log if isinstance(log, LogRows) else cls(log)


def session_moments(
    rows: LogRows,
    data: RankingData,
    counts: Counts,
    scores: Sequence[SessionScore],
    measured: Sequence[QueryScores],
) -> list[QueryScores]:
    """The same estimates with the sample variance of sessions within queries.

    With a split only sessions to judge by are taken: those of `counts.part("judge")`. As in counts,
    rows that repeat session, query, document and rank are one, clicked if any of them was;
    documents without an item say nothing. A log whose queries have other numbers of sessions than
    the counts is refused: the variance would be that of something else.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with (
        scratch_folder() as folder,
        opened("duckdb", spill=folder) as engine,
    ):
        shown = shown_rows(engine, rows, counts.ranks)
        tables = {"queries": query_keys(data), "values": _values(data, counts, scores)}
        for name, table in tables.items():
            pq.write_table(pa.table(table), folder / f"{name}.parquet")
        queries, values = (engine.read(find(folder / f"{name}.parquet")) for name in tables)
        table = _variances(shown, queries, values, len(scores)).to_pyarrow()
    query, sessions = (table[name].to_numpy() for name in ("query_number", "sessions"))
    check_same_sessions(counts, query, sessions)
    refined = []
    for number, before in enumerate(measured):
        variance = np.asarray(table[f"v{number}"].to_numpy(), dtype=np.float64)
        finite = np.isfinite(variance)
        within = before.variance.copy()
        within[query[finite]] = variance[finite]
        refined.append(replace(before, variance=within, variance_from="sessions"))
    return refined


def shown_rows(engine: Engine, rows: LogRows, ranks: int) -> Any:
    """What each session (to judge by) showed: session_id, query_key, doc_key, rank, clicked."""
    read = read_log(
        engine.read(find(rows.log)),
        LogReading(rows.columns, top=ranks, rank_from=rows.rank_from),
        feedback=FeedbackColumns.of(rows.feedback, _seed(rows.split)),
    )
    require(read.has_sessions, "log", "rows with a `session_id`", "rows without it")
    return _once(_to_judge_by(read.kept(read.table), rows.split))


def _variances(shown: Any, queries: Any, values: Any, scores: int) -> Any:
    """Sessions of each query, and the sample variance of each score between them."""
    import ibis

    rows = shown.inner_join(queries, "query_key")
    joined = rows.left_join(
        values, ["query_number", "doc_key", (rows["rank"], values.at_rank)], rname="{name}_right"
    )
    said = {
        f"x{i}": ibis.ifelse(joined.clicked, joined[f"c{i}"], joined[f"m{i}"]).coalesce(0.0).sum()
        for i in range(scores)
    }
    of_sessions = joined.group_by(["query_number", "session_id"]).agg(**said)
    return of_sessions.group_by("query_number").agg(
        sessions=of_sessions.count(),
        **{f"v{i}": of_sessions[f"x{i}"].var(how="sample") for i in range(scores)},
    )


def _seed(split: Split | None) -> int:
    """Of the draws of values, which is that of the split."""
    return 0 if split is None or split.seed is None else split.seed


def check_same_sessions(counts: Counts, query: flat.Array, sessions: flat.Array) -> None:
    """Refuse rows that are not those of the counts."""
    there = np.zeros(counts.queries, dtype=np.int64)
    there[query] = sessions
    differ = int(np.count_nonzero(there != counts.sessions))
    if differ:
        raise InputError(
            f"`log` must be the rows that the counts are of; it has {there.sum():,} sessions where "
            f"the counts have {counts.total:,}, and {differ:,} of {counts.queries:,} queries "
            f"differ."
        )


def _to_judge_by(rows: Any, split: Split | None) -> Any:
    """The rows of sessions to judge by; all of them where no split is given."""
    if split is None or split.off:
        return rows
    ids = rows[{"query": "query_id", "user": "unit"}.get(split.by, "session_id")]
    return rows.filter(split.hash().chooses(ids))


def _once(rows: Any) -> Any:
    """What each session showed, ids as text."""
    keyed = rows.mutate(query_key=rows.query_id.cast("string"), doc_key=rows.doc_id.cast("string"))
    return keyed.group_by("session_id", "query_key", "doc_key", "rank").agg(
        clicked=keyed.count(where=keyed.clicked) > 0
    )


def query_keys(data: RankingData) -> dict[str, flat.Array]:
    """Queries as texts, with their numbers."""
    return {"query_key": data.ids()[0].astype(str), "query_number": np.arange(data.queries)}


def _values(
    data: RankingData, counts: Counts, scores: Sequence[SessionScore]
) -> dict[str, Floats | flat.Array]:
    """One row per document and rank that was shown, with the values of every score."""
    document, rank = np.nonzero(counts.impressions)
    columns: dict[str, Floats | flat.Array] = {
        "query_number": flat.query_of(data.offsets)[document],
        "doc_key": data.ids()[1][document].astype(str),
        "at_rank": rank + 1,
    }
    for number, score in enumerate(scores):
        columns[f"m{number}"] = score.missed[document, rank]
        columns[f"c{number}"] = score.clicked[document, rank]
    return columns
