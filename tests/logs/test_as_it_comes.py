"""Logs as they come: tables in memory, ranks from 0, rows to leave out, and careless outputs."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import saferank as sr
from saferank.data.frames import as_arrow
from saferank.errors import InputError


class Capsule:
    """A table that is known by nothing but Arrow's C interface."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def with_views(table: pa.Table) -> Capsule:
    """Strings as Polars hands them over: views, and categories as dictionaries of views."""
    query = table["query_id"].cast(pa.string_view())
    return Capsule(table.set_column(table.column_names.index("query_id"), "query_id", query))


FRAMES: dict[str, Callable[[pa.Table], Any]] = {
    "arrow": lambda table: table,
    "pandas": lambda table: table.to_pandas(),
    "pandas, other index": lambda table: table.to_pandas().set_index(np.arange(table.num_rows) * 3),
    "pandas, categories": lambda table: table.to_pandas().astype({"query_id": "category"}),
    "capsule": Capsule,
    "views": with_views,
}
if importlib.util.find_spec("polars"):
    import polars as pl

    FRAMES["polars"] = pl.from_arrow
    FRAMES["polars, categories"] = lambda table: pl.from_arrow(table).cast(
        {"query_id": pl.Categorical}
    )


def a_log(rank_from: int = 1) -> pa.Table:
    rng = np.random.default_rng(0)
    order = rng.permuted(np.tile(np.arange(6), (300, 1)), axis=1)[:, :4]
    return pa.table({
        "session_id": np.repeat(np.arange(300), 4),
        "query_id": np.repeat([f"q{n}" for n in rng.integers(0, 5, 300)], 4),
        "doc_id": order.ravel(),
        "rank": np.tile(np.arange(4), 300) + rank_from,
        "click": rng.random(1200) < 0.3,
    })  # fmt: skip


def rows_of(table: sr.counts.CountTable) -> list[dict[str, Any]]:
    return table.to_arrow().to_pylist()


@pytest.mark.parametrize("kind", FRAMES)
def test_a_table_in_memory_is_counted_like_its_file(tmp_path: Path, kind: str) -> None:
    log = a_log()
    pq.write_table(log, tmp_path / "log.parquet")
    given = FRAMES[kind](log)
    assert rows_of(sr.count(given)) == rows_of(sr.count(tmp_path / "log.parquet"))
    assert sr.logs.check_log(given).report.rows == 1200
    sr.count(given, output=tmp_path / "counts.parquet")
    assert rows_of(sr.counts.CountTable.open(tmp_path / "counts.parquet")) == rows_of(sr.count(log))


def test_counts_in_memory_are_a_summed_log() -> None:
    counted = sr.count(a_log())
    again = sr.count(counted.to_arrow().to_pandas())
    assert rows_of(again) == rows_of(counted)


def test_a_table_that_arrow_cannot_hold_gets_one_sentence() -> None:
    with pytest.raises(InputError, match="`log` must be a table that Arrow can hold") as raised:
        sr.count(pd.DataFrame({"query_id": ["a", 1, object()]}))
    assert "\n" not in str(raised.value)
    twice = pd.DataFrame([[1, 2]], columns=["x", "x"])
    with pytest.raises(InputError, match="must be a table"):
        as_arrow(twice)


@pytest.mark.parametrize("summed", [False, True])
def test_ranks_from_zero(summed: bool) -> None:
    usual, log = a_log(), a_log(rank_from=0)
    if summed:
        usual, log = (
            t.to_pandas().groupby(["query_id", "doc_id", "rank"], as_index=False)
            .click.agg(impressions="size", clicks="sum") for t in (usual, log)
        )  # fmt: skip
    expected = rows_of(sr.count(usual))
    assert rows_of(sr.count(log, rank_from=0)) == expected
    assert sr.count(log, rank_from=0, top=2).report.ranks == 2
    for skip_bad in (False, True):
        with pytest.raises(InputError, match=r"ranks count from 0.*--rank-from 0") as raised:
            sr.count(log, skip_bad=skip_bad)
        assert "skip" not in str(raised.value), "never the advice to drop every top result"
    left = sr.count(log, where=["rank>=1"])
    assert left.report.ranks == 3


def test_ranks_from_zero_are_seen_beside_repeated_rows() -> None:
    log = a_log(rank_from=0)
    lower = np.flatnonzero(log["rank"].to_numpy() == 1)[::10]
    with pytest.raises(InputError, match=r"ranks count from 0.*--rank-from 0"):
        sr.count(pa.concat_tables([log, log.take(lower)]))


def test_a_few_rows_at_rank_zero_are_bad_rows() -> None:
    log = a_log().to_pandas()
    log.loc[log.session_id % 10 == 0, "rank"] -= 1
    with pytest.raises(InputError, match="`rank` must be a whole number of at least 1"):
        sr.count(log)
    below = a_log(rank_from=0).to_pandas()
    below.loc[0, "rank"] = -1
    with pytest.raises(InputError, match="at least 0"):
        sr.count(below, rank_from=0)
    with pytest.raises(InputError, match="`rank_from` must be 0 or 1"):
        sr.count(log, rank_from=2)


@pytest.mark.parametrize("form", ["csv", "parquet", "frame"])
def test_exclusions(tmp_path: Path, form: str) -> None:
    log = a_log().to_pandas()
    log["agent"] = np.where(log.session_id % 7 == 0, "crawler", "person")
    log.loc[log.session_id == 5, "agent"] = None
    listed = pd.DataFrame({"session_id": [3, 4, None], "agent": [None, None, "crawler"]})
    path: Any = listed
    if form == "csv":
        path = tmp_path / "out.csv"
        path.write_text("session_id,agent\n3,\n4,\n,crawler\n")
    if form == "parquet":
        path = tmp_path / "out.parquet"
        pq.write_table(pa.table({"session_id": [3, 4, None], "agent": [None, None, "crawler"]}),
                       path)  # fmt: skip
    kept = log[~log.session_id.isin([3, 4]) & (log.agent != "crawler")]
    counted = sr.count(log, exclude=path)
    assert rows_of(counted) == rows_of(sr.count(kept))
    assert counted.report.excluded == len(log) - len(kept)
    assert counted.report.sentences()[-1] == (
        f"{len(log) - len(kept)} rows are on the list of exclusions and are left out."
    )
    renamed = log.rename(columns={"session_id": "request"})
    assert rows_of(sr.count(renamed, columns={"session_id": "request"}, exclude=path)) == rows_of(
        counted
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [("user\nx\n", "columns of the log .*; got 'user'"), ("session_id\n", "at least one value"),
     ("", "must be a list as CSV or Parquet")],
)  # fmt: skip
def test_a_bad_list_of_exclusions(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "out.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        sr.count(a_log(), exclude=tmp_path / "out.csv")
    with pytest.raises(InputError, match="a file that exists"):
        sr.count(a_log(), exclude=tmp_path / "none.csv")


def test_the_log_is_never_the_output(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(a_log(), path)
    before = path.read_bytes()
    (tmp_path / "link.parquet").symlink_to(path)
    for output in (path, tmp_path / "link.parquet", tmp_path / ".." / tmp_path.name / path.name):
        with pytest.raises(InputError, match="`output` must be another file than the log"):
            sr.count(path, output=output)
    with pytest.raises(InputError, match="another file than the log"):
        sr.count([path], output=path)
    assert path.read_bytes() == before
    sr.count(path, output=tmp_path / "counts.parquet")
    sr.count(path, output=tmp_path / "counts.parquet")
