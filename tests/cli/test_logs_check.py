"""`saferank logs check` from the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import saferank

from saferank._core.flat import Ints
from saferank.cli.app import main


@pytest.fixture
def log(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    table = pa.table({
        "query_id": rng.integers(0, 3, 400), "doc_id": rng.integers(0, 5, 400),
        "position": rng.integers(1, 4, 400), "click": rng.random(400) < 0.2,
    })  # fmt: skip
    pq.write_table(table, tmp_path / "log.parquet")
    return tmp_path / "log.parquet"


def test_for_people(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chart = log.parent / "chart.svg"
    code, said, _ = saferank(
        monkeypatch, capsys, "logs", "check", log, "--column", "rank=position", "--chart", chart
    )
    assert code == 0
    assert "Click rate by rank" in said
    assert "This log is usable with care" in said
    assert "█" in said
    assert chart.read_text().startswith("<svg")


def test_for_scripts_with_items(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    items = pa.table({
        "query_id": np.repeat([0, 1, 2], 10), "doc_id": np.tile(np.arange(10), 3),
        "length": np.arange(30.0),
    })  # fmt: skip
    pq.write_table(items, log.parent / "items.parquet")
    code, said, _ = saferank(
        monkeypatch, capsys, "logs", "check", log, "--column", "rank=position", "--json",
        "--items", log.parent / "items.parquet",
    )  # fmt: skip
    assert code == 0
    told = json.loads(said)
    assert told["verdict"] == "usable with care"
    assert told["alignment"]["support"] == 0.5
    assert [rate["at"] for rate in told["click_rate_by_rank"]] == [1, 2, 3]
    assert {"name", "value", "severity", "meaning", "advice"} == set(told["findings"][0])


def test_a_log_that_is_not_good_enough_has_exit_code_three(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pq.read_table(log)
    silent = table.set_column(3, "click", pa.array([False] * 400))
    pq.write_table(silent, log)
    arguments = ("logs", "check", log, "--column", "rank=position")
    for more in ((), ("--json",)):
        code, said, _ = saferank(monkeypatch, capsys, *arguments, *more)
        assert code == 3
        assert "not good enough" in said


def test_robots_to_a_list_that_count_takes(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pq.read_table(log)
    visitor = [f"v{number % 40}" for number in range(400)]
    click = [name == "v7" or number % 9 == 0 for number, name in enumerate(visitor)]
    table = table.set_column(3, "click", pa.array(click))
    table = table.append_column("visitor", pa.array(visitor))
    pq.write_table(pa.concat_tables([table] * 4), log)
    columns = ("--column", "rank=position", "--column", "user_id=visitor")
    listed = log.parent / "robots.csv"
    code, _, _ = saferank(monkeypatch, capsys, "logs", "check", log, *columns, "--robots", listed)
    assert code == 0
    assert listed.read_text().splitlines() == ['"user_id"', '"v7"']
    counts = log.parent / "counts.parquet"
    code, said, _ = saferank(
        monkeypatch, capsys, "count", log, "-o", counts, *columns, "--exclude", listed
    )
    assert code == 0
    assert "40 rows are on the list of exclusions and are left out." in said
    assert sum(pq.read_table(counts)["impressions"].to_pylist()) == 1560


def test_bad_input(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, said = saferank(monkeypatch, capsys, "logs", "check", log)
    assert code == 2
    assert "lacks `rank`" in said
    assert len(said.splitlines()) == 1


def test_lists_seen_once_in_random_order_are_good(tmp_path: Path, capsys, monkeypatch) -> None:
    rng = np.random.default_rng(0)
    lists, length = 1500, 8
    rank = np.argsort(rng.random((lists, length)), axis=1)
    x = rng.normal(size=rank.shape)
    query = np.repeat(np.arange(lists), length)
    document = np.tile(np.arange(length), lists)
    table = {"query_id": query, "session_id": query, "doc_id": document}
    log, items = tmp_path / "log.parquet", tmp_path / "items.parquet"

    def verdict(ranks: Ints, *options: str) -> tuple[int, dict[str, Any]]:
        clicks = rng.random(query.size) < 0.4 / np.ravel(ranks)
        pq.write_table(pa.table({**table, "rank": np.ravel(ranks), "click": clicks}), log)
        pq.write_table(pa.table({"query_id": query, "doc_id": document, "x": x.ravel()}), items)
        arguments = ["saferank", "logs", "check", str(log), "--json", *options]
        monkeypatch.setattr(sys, "argv", arguments)
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), json.loads(capsys.readouterr().out)

    assert verdict(rank + 1)[1]["verdict"] == "not good enough"
    for more in ((), ("--items", str(items))):
        code, record = verdict(rank + 1, "--policy", "uniform", *more)
        assert (code, record["verdict"]) == (0, "good")
    by_x = np.argsort(np.argsort(-x, axis=1), axis=1) + 1
    code, record = verdict(by_x, "--policy", "uniform", "--items", str(items))
    assert (code, record["verdict"]) == (3, "not good enough")
    assert any("not in random order" in one["meaning"] for one in record["findings"])
