"""Counts of partitions add: day by day equals at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import saferank as sr
from saferank.errors import InputError


def rows(seed: int, sessions: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    session = np.repeat(np.arange(sessions), 3)
    return pa.table({
        "query_id": np.repeat(rng.integers(0, 4, sessions), 3),
        "doc_id": rng.integers(0, 5, session.size),
        "rank": np.tile([1, 2, 3], sessions),
        "click": rng.random(session.size) < 0.3,
        "session_id": session,
        "day": np.repeat(rng.integers(0, 3, sessions), 3),
    })  # fmt: skip


@pytest.mark.parametrize(("use", "on_disk"), [(True, True), (True, False), (False, True)])
def test_day_by_day_equals_at_once(tmp_path: Path, use: bool, on_disk: bool) -> None:
    folder = tmp_path
    log = rows(seed=int(use), sessions=60)
    pq.write_table(log, folder / "log.parquet")
    at_once = sr.logs.count(folder / "log.parquet", use_sessions=use)
    parts = []
    for day in sorted(set(log["day"].to_pylist())):
        output = folder / f"day{day}.parquet" if on_disk else None
        where = [f"day={day}"]
        part = sr.logs.count(folder / "log.parquet", where=where, use_sessions=use, output=output)
        parts.append(output or part)
    merged = sr.logs.merge(parts, output=folder / "all.parquet")
    assert merged.to_arrow().to_pylist() == at_once.to_arrow().to_pylist()
    assert merged.split == at_once.split == sr.counts.Split("session", 0.2, 0)
    assert merged.report is not None
    assert at_once.report is not None
    assert merged.report.sessions == at_once.report.sessions


def counts(path: Path, **columns: list[int]) -> Path:
    base = {"query_id": [1, 1], "doc_id": [1, 2], "rank": [1, 1], "impressions": [3, 0],
            "clicks": [1, 0]}  # fmt: skip
    pq.write_table(pa.table({**base, **columns}), path)
    return path


def test_sessions_must_be_said_in_all_parts_and_rows(tmp_path: Path) -> None:
    one = counts(tmp_path / "a.parquet", sessions=[4, 4])
    again = sr.logs.merge([one, one], judge=0)
    assert again.to_arrow()["sessions"].to_pylist() == [4, 4], "one file twice"
    other = counts(tmp_path / "b.parquet")
    with pytest.raises(InputError, match="`sessions` must be a column of all of the counts"):
        sr.logs.merge([one, other])
    uneven = counts(tmp_path / "c.parquet", sessions=[4, 5])
    with pytest.raises(InputError, match="`sessions` must be the same in all rows of a query"):
        sr.logs.merge([one, uneven])


def test_kinds_of_ids_must_agree(tmp_path: Path) -> None:
    one = counts(tmp_path / "a.parquet")
    other = counts(tmp_path / "b.parquet", doc_id=["x", "y"])  # type: ignore[list-item]
    with pytest.raises(InputError, match="`doc_id` must be the same in every file"):
        sr.logs.merge([one, other])


def test_bad_counts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`clicks` must be at most `impressions`"):
        sr.logs.merge([counts(tmp_path / "a.parquet", clicks=[1, 2])])
