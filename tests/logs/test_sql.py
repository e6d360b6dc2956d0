"""The SQL that each engine gets, kept in files: a change of it is seen in review.

Where it is meant, SAFERANK_UPDATE_SQL=1 writes the files anew.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import ibis
import pytest

from saferank.counts.feedback import Feedback
from saferank.counts.hashing import Hash
from saferank.logs.conditions import filtered
from saferank.logs.feedback_columns import FeedbackColumns
from saferank.logs.log_reading import LogReading
from saferank.logs.repeats import rank_spans
from saferank.logs.schema import read_log
from saferank.logs.tally import sessions, tally

DIALECTS = ("duckdb", "pyspark", "bigquery", "snowflake", "trino", "postgres")
FOLDER = Path(__file__).parent / "sql"

IDS = {"query_id": "string", "doc_id": "int64"}
ROWS = ibis.table({**IDS, "rank": "int32", "click": "boolean", "device": "string"}, name="log")
SUMMED = ibis.table({**IDS, "rank": "int32", "impressions": "int64", "clicks": "int64"}, name="log")
SESSIONS = ibis.table(
    {**IDS, "rank": "float64", "click": "int8", "session_id": "string", "day": "date"}, name="log"
)


NUMBERS = ibis.table({**ROWS.schema(), "session_id": "int64"}, name="log")
VALUES = ibis.table({**NUMBERS.schema(), "cart": "boolean", "revenue": "float64"}, name="log")
PARTS = ibis.table({**SUMMED.schema(), "part": "string"}, name="log")


def _columns(text: str, dialect: str) -> FeedbackColumns:
    return FeedbackColumns(Feedback(text), 0, dialect)


def expressions(dialect: str) -> dict[str, Any]:
    hashed = Hash(0.2, 0, dialect)
    by_session = read_log(
        filtered(SESSIONS, ["day>=2026-01-31"]), LogReading(top=10), hashed=hashed
    )
    return {
        "rows": tally(read_log(filtered(ROWS, ["device=mobile"]))),
        "rows_in_parts": tally(read_log(NUMBERS, LogReading(use_sessions=False), hashed=hashed)),
        "summed": tally(read_log(SUMMED)),
        "summed_in_parts": tally(read_log(PARTS)),
        "values": tally(read_log(VALUES, feedback=_columns("revenue<=200", dialect))),
        "sessions": tally(by_session),
        "sessions_of_queries": sessions(by_session),
        "ranks_of_documents": rank_spans(by_session, 0, dialect),
    }


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", expressions("duckdb"))
def test_sql(name: str, dialect: str) -> None:
    if dialect == "pyspark":
        _ = ibis.pyspark  # the compiler needs options that come with the backend
    sql = str(ibis.to_sql(expressions(dialect)[name], dialect=dialect)) + "\n"
    path = FOLDER / f"{name}.{dialect}.sql"
    if os.environ.get("SAFERANK_UPDATE_SQL"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(sql)
    assert sql == path.read_text()
