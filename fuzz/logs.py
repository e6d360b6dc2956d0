"""Click logs, counts and conditions on a log; what is accepted is counted again row by row."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import saferank as sr
from fuzz.outcomes import ensure
from fuzz.readers import small_world
from fuzz.tables import mutate_parquet, read_again, to_bytes
from fuzz.target import Target
from saferank.counts import Counts
from saferank.counts.counts_file import save_counts
from saferank.counts.feedback import Feedback
from saferank.logs import count, read_counts
from saferank.logs.conditions import parse

_COLUMNS = (
    "query_id", "doc_id", "rank", "click", "impressions", "clicks", "session_id", "part",
)  # fmt: skip
Sums = dict[tuple[Any, Any, int], tuple[int, int]]
"""Impressions and clicks of each query, document and rank."""


def _log_seeds(_: Path) -> list[bytes]:
    rows = {
        "query_id": ["q", "q", "r", "r", "q"], "doc_id": [1, 2, 3, 1, 1], "rank": [1, 2, 1, 2, 1],
        "click": [0, 1, 0, 1, 1],
    }  # fmt: skip
    summed = {
        "query_id": [1, 1, 2], "doc_id": [1, 2, 3], "rank": [1, 2, 1], "impressions": [9, 5, 7],
        "clicks": [3, 0, 7],
    }  # fmt: skip
    sessions = rows | {"session_id": ["s", "s", "t", "t", "u"]}
    recorded = sessions | {"propensity": [0.5, 0.25, 1.0, 0.125, 0.75]}
    return [to_bytes(pa.table(one)) for one in (rows, summed, sessions, recorded)]


def _read_log(data: bytes, folder: Path) -> None:
    path = folder / "log.parquet"
    path.write_bytes(data)
    named = {"propensity": "propensity"} if b"propensity" in data else {}
    made = count(path, columns=named).to_arrow().to_pylist()
    for row in made:
        value = row.get("propensity")
        ensure(value is None or 1e-9 <= value <= 1, "propensity of a log")
    table = read_again(path, _COLUMNS)
    if table is not None:
        expected = _sums_of_rows(_rows(table), "session_id" in table.column_names)
        ensure(_sums(made) == expected, "counts of a log")


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    # engines see durations as the whole numbers that they are stored as
    columns = [
        (column.cast(pa.int64()) if pa.types.is_duration(column.type) else column).to_pylist()
        for column in table.columns
    ]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _sums_of_rows(rows: list[dict[str, Any]], sessions: bool) -> Sums:
    """What a log of one row per shown document adds up to, or one that is summed already."""
    if not rows or "click" not in rows[0]:
        return _sums(rows)
    once: dict[tuple[Any, ...], tuple[tuple[Any, Any, int], int]] = {}
    for number, row in enumerate(rows):
        key = _id(row["query_id"]), _id(row["doc_id"]), int(row["rank"])
        of = (row["session_id"], *key) if sessions else (number,)
        once[of] = key, max(int(row["click"]), once.get(of, (key, 0))[1])
    return _sums(
        {"query_id": q, "doc_id": d, "rank": rank, "impressions": 1, "clicks": click}
        for (q, d, rank), click in once.values()
    )


def _sums(rows: Any) -> Sums:
    sums: dict[tuple[Any, Any, int], list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        cell = sums[_id(row["query_id"]), _id(row["doc_id"]), int(row["rank"])]
        cell[0] += int(row["impressions"])
        cell[1] += int(row["clicks"])
    return {key: (cell[0], cell[1]) for key, cell in sums.items()}


def _id(value: Any) -> Any:
    """Ids are texts or whole numbers; those of decimal types count as whole numbers."""
    return value if isinstance(value, str) else int(value)


def _counts_seeds(folder: Path) -> list[bytes]:
    data = small_world()
    counts = sr.clicks.simulate(
        data, np.zeros(data.documents), sr.clicks.trust_bias(), sessions=40, seed=0
    )
    save_counts(counts, data, folder / "seed.parquet")
    table = pq.read_table(folder / "seed.parquet")
    few = table.slice(0, 12)
    recorded = few.append_column("propensity", pa.array(np.linspace(0.1, 1, few.num_rows)))
    plain = few.drop_columns(["part", "sessions"])
    return [to_bytes(one) for one in (table, few, plain, recorded)]


def _read_counts(data: bytes, folder: Path) -> None:
    path = folder / "counts.parquet"
    path.write_bytes(data)
    found = read_counts(path)
    table = read_again(path, _COLUMNS)
    if table is None:
        return
    rows = _rows(table)
    _check(found, _sums(rows))
    if found.judge is not None and rows and "part" in rows[0]:
        _check(found.judge, _sums(row for row in rows if row["part"] == "judge"))


def _check(counts: Counts, expected: Sums) -> None:
    """The cells of the arrays are those sums, documents in the order of their ids."""
    # documents of the other part have rows of zeros here, so cells are compared without their ids
    cells = zip(counts.impressions.ravel().tolist(), counts.clicks.ravel().tolist(), strict=True)
    found = sorted(pair for pair in cells if any(pair))
    ensure(found == sorted(pair for pair in expected.values() if any(pair)), "counts of a file")
    for at, total in enumerate(counts.impressions.sum(axis=0, dtype=object).tolist()):
        shown = sum(pair[0] for (_, _, rank), pair in expected.items() if rank == at + 1)
        ensure(shown == total, "impressions at a rank")
    ensure(bool(np.all((counts.clicks >= 0) & (counts.clicks <= counts.impressions))), "clicks")
    if counts.propensity is not None:
        chance = counts.propensity
        ensure(bool(np.all((chance >= 0) & (chance <= 1))), "propensities")


_MOST = 5.0


def _value_seeds(_: Path) -> list[bytes]:
    rows = {
        "query_id": [1, 1, 2, 2, 1], "doc_id": [1, 2, 3, 1, 3], "rank": [1, 2, 1, 2, 3],
        "session_id": [7, 7, 8, 8, 7], "click": [1, 0, 1, 1, 0],
        "revenue": [0.0, 2.5, 7.0, 5.0, 0.5],
    }  # fmt: skip
    return [to_bytes(pa.table(rows))]


def _read_values(data: bytes, folder: Path) -> None:
    """An impression that is worth nothing never counts, one worth the most always does."""
    path = folder / "log.parquet"
    path.write_bytes(data)
    made = count(path, feedback=f"revenue<={_MOST:g}", judge=0).to_arrow().to_pylist()
    table = read_again(path, (*_COLUMNS, "revenue"))
    if table is None:
        return
    worth: dict[tuple[Any, ...], float] = {}
    for row in _rows(table):
        key = row["session_id"], _id(row["query_id"]), _id(row["doc_id"]), int(row["rank"])
        worth[key] = max(float(row["revenue"]), worth.get(key, 0.0))
    low, high, shown = Counter[Any](), Counter[Any](), Counter[Any]()
    for (_, *cell), value in worth.items():
        shown[tuple(cell)] += 1
        low[tuple(cell)] += value >= _MOST
        high[tuple(cell)] += value > 0
    for of, (impressions, clicks) in _sums(made).items():
        ensure(impressions == shown[of], "impressions of a log of values")
        ensure(low[of] <= clicks <= high[of], "values of a log")
    ensure(len(_sums(made)) == len(shown), "rows of a log of values")


def _feedback_seeds(_: Path) -> list[bytes]:
    return [b"purchase", b"cart=1,purchase=5", b"revenue<=200", b"a=0, b=0.5"]


def _read_feedback(data: bytes, _: Path) -> None:
    what = Feedback(data.decode("utf-8", "replace"))
    values = what.kinds.values()
    ensure(all(math.isfinite(value) and value >= 0 for value in values), "a value of feedback")
    ensure(what.unit > 0 and bool(what.noun), "what feedback is worth")
    ensure(bool(what.say("Clicks per session change by +1%.")), "a sentence of feedback")


_SCHEMA = {
    "rank": "int64", "day": "date", "at": "timestamp", "device": "string", "price": "float64",
    "is_app": "boolean", "small": "int8", "cost": "decimal(9, 2)",
}  # fmt: skip


@cache
def _table() -> Any:
    import ibis

    return ibis.table(_SCHEMA, name="log")


def _where_seeds(_: Path) -> list[bytes]:
    return [
        b"rank=3", b"day>=2026-01-31", b"at < 2026-01-31T12:00", b"device='mobile'", b"price!=0.5",
        b"is_app==true", b"small<=-5", b"cost>1.25", b"device=",
    ]  # fmt: skip


def _read_where(data: bytes, _: Path) -> None:
    import ibis
    import sqlglot

    table = _table()
    condition = parse(data.decode("utf-8", "replace"))
    expression = condition.of(table)
    ensure(condition.column in _SCHEMA, "a condition on a column that is not there")
    if len(data) % 4:  # the rest is slow, and not saferank's own
        return
    sql = str(ibis.to_sql(table.filter(expression), dialect="duckdb"))
    ensure(len(sqlglot.parse(sql, read="duckdb")) == 1, "a condition that is several statements")


TARGETS = [
    Target("log", 0.004, _log_seeds, _read_log, mutate_parquet),
    Target("counts", 0.004, _counts_seeds, _read_counts, mutate_parquet),
    Target("values", 0.002, _value_seeds, _read_values, mutate_parquet),
    Target("feedback", 0.03, _feedback_seeds, _read_feedback),
    Target("where", 0.10, _where_seeds, _read_where),
]
