"""Queries and events of User Behavior Insights become the log that they tell of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from saferank.cli.app import app
from saferank.errors import InputError
from saferank.logs import count, read_ubi


def rows_of_a_shop(sessions: int = 400, seed: int = 0) -> list[dict[str, Any]]:
    """What users saw and did, as rows; the truth that the files below tell in their own form."""
    rng = np.random.default_rng(seed)
    rows = []
    for session in range(sessions):
        query, client = rng.choice(["tea", "green tea", "mug"]), f"client-{rng.integers(90)}"
        for place, doc in enumerate(rng.permutation(8)[: rng.integers(2, 6)]):
            click = bool(rng.random() < 0.4 / (place + 1))
            bought = click and bool(rng.random() < 0.5)
            rows.append({
                "query_id": str(query), "doc_id": f"sku-{doc}", "rank": place + 1,
                "session_id": f"s{session}", "user_id": client,
                "day": f"2026-02-{1 + session % 9:02d}", "click": int(click),
                "purchase": int(bought),
            })  # fmt: skip
    return rows


def documents(rows: list[dict[str, Any]], *, first: int = 1) -> tuple[list[Any], list[Any]]:
    """The same as queries and events, with what such indices have beside."""
    lists: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        lists.setdefault(row["session_id"], []).append(row)
    login = {"action_name": "login", "client_id": "client-1", "timestamp": "x"}
    queries: list[Any] = []
    events: list[Any] = [login]
    for session, shown in lists.items():
        one = shown[0]
        queries.append({
            "application": "shop", "query_id": session, "client_id": one["user_id"],
            "user_query": one["query_id"], "object_id_field": "sku",
            "timestamp": f"{one['day']}T08:00:00.000Z", "query": "{\"match\": {}}",
            "query_response_hit_ids": [row["doc_id"] for row in shown],
        })  # fmt: skip
        events.append({"query_id": session, "action_name": "on_search", "event_attributes": {}})
        for row in shown:
            for action in ("impression", "click", "purchase"):
                if action == "impression" or row[action]:
                    events.append({
                        "query_id": session, "action_name": action, "client_id": one["user_id"],
                        "timestamp": f"{one['day']}T08:01:00.000Z",
                        "event_attributes": {
                            "object": {"object_id": row["doc_id"], "object_id_field": "sku"},
                            "position": {"ordinal": row["rank"] - 1 + first, "x": 1.5},
                        },
                    })  # fmt: skip
    return queries, events


def _arrow(records: list[Any]) -> pa.Table:
    """Columns are those of the first record: the fullest comes first."""
    return pa.Table.from_pylist(sorted(records, key=lambda record: -len(record)))


def write(folder: Path, name: str, records: list[Any], form: str) -> Path:
    path = folder / f"{name}.{'parquet' if form.startswith('parquet') else 'ndjson'}"
    if form == "parquet":
        pq.write_table(_arrow(records), path)
    elif form == "parquet with dots":
        table = _arrow(records)
        while any(pa.types.is_struct(field.type) for field in table.schema):
            table = table.flatten()
        pq.write_table(table, path)
    else:
        wrap = form == "hits"
        lines = [json.dumps({"_id": "1", "_source": each} if wrap else each) for each in records]
        path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("form", ["json", "hits", "parquet", "parquet with dots"])
@pytest.mark.parametrize("shown", ["hits", "events"])
def test_every_form_tells_the_rows_that_there_were(tmp_path: Path, form: str, shown: str) -> None:
    rows = rows_of_a_shop()
    queries, events = documents(rows)
    names = write(tmp_path, "q", queries, form), write(tmp_path, "e", events, form)
    report = read_ubi(*names, tmp_path / "log.parquet", shown=shown)
    got = pq.read_table(tmp_path / "log.parquet").to_pylist()
    order = ("session_id", "rank")
    assert sorted(got, key=lambda r: tuple(r[k] for k in order)) == sorted(
        rows, key=lambda r: tuple(r[k] for k in order)
    )
    assert report.lists == 400
    assert report.actions == {a: sum(r[a] for r in rows) for a in ("click", "purchase")}
    assert report.unlinked == 401
    assert report.agreeing == report.placed == len(events) - 401


def test_counts_are_those_of_the_rows_by_the_command_line(tmp_path: Path) -> None:
    rows = rows_of_a_shop()
    queries, events = documents(rows, first=0)
    names = write(tmp_path, "q", queries, "json"), write(tmp_path, "e", events, "json")
    log = tmp_path / "log.parquet"
    said = CliRunner().invoke(app, ["logs", "ubi", *map(str, names), "-o", str(log)])
    assert said.exit_code == 0, said.output
    assert "Places of events count from 0, and 100% agree" in " ".join(said.output.split())
    for feedback in ("click", "purchase"):
        ubi, own = (count(each, feedback=feedback) for each in (log, pa.Table.from_pylist(rows)))
        assert ubi.to_arrow().sort_by("query_id").num_rows > 0
        keys = [(name, "ascending") for name in ("query_id", "doc_id", "rank", "part")]
        assert ubi.to_arrow().sort_by(keys).equals(own.to_arrow().sort_by(keys))


def test_what_does_not_fit_is_told(tmp_path: Path) -> None:
    queries, events = documents(rows_of_a_shop(50))
    stray = {"query_id": "s1", "action_name": "click",
             "event_attributes": {"object": {"object_id": "elsewhere"}}}  # fmt: skip
    late = {"query_id": "nobody", "action_name": "click",
            "event_attributes": {"object": {"object_id": "sku-1"}}}  # fmt: skip
    for query in queries:
        query["query_response_hit_ids"].reverse()
        query["timestamp"] = 1769853600000
    names = (write(tmp_path, "q", queries, "json"),
             write(tmp_path, "e", [*events, stray, late], "json"))  # fmt: skip
    report = read_ubi(*names, tmp_path / "log.parquet")
    assert report.unmatched == 2
    assert "users saw other lists" in " ".join(report.sentences())
    days = set(pq.read_table(tmp_path / "log.parquet")["day"].to_pylist())
    assert days == {"2026-01-31"}


@pytest.mark.parametrize(("change", "message"), [
    ({"click": "product_click"}, "there are: click, purchase. Name it with --click"),
    ({"shown": "everything"}, "`shown` must be one of"),
    ({"shown": "events", "impression": "seen"}, "nothing tells what was shown"),
])  # fmt: skip
def test_refusals(tmp_path: Path, change: dict[str, str], message: str) -> None:
    queries, events = documents(rows_of_a_shop(50))
    names = write(tmp_path, "q", queries, "json"), write(tmp_path, "e", events, "json")
    with pytest.raises(InputError, match=message) as refused:
        read_ubi(*names, tmp_path / "log.parquet", **change)
    assert len(str(refused.value)) <= 300
    assert not (tmp_path / "log.parquet").exists()


def test_other_files_are_refused(tmp_path: Path) -> None:
    queries, events = documents(rows_of_a_shop(20))
    bare = [{"id": 1, "text": "tea"}]
    good = write(tmp_path, "e", events, "parquet")
    with pytest.raises(InputError, match="must have the field `query_id`"):
        read_ubi(write(tmp_path, "q", bare, "parquet"), good, tmp_path / "log.parquet")
    for query in queries:
        del query["query_response_hit_ids"]
    without = write(tmp_path, "w", queries, "json")
    assert read_ubi(without, good, tmp_path / "log.parquet").shown_by == "events"
    (tmp_path / "broken.ndjson").write_text('{"query_id": ')
    with pytest.raises(ValueError, match="JSON"):
        read_ubi(tmp_path / "broken.ndjson", good, tmp_path / "log.parquet")
