"""What `data inspect` says of each column, on a table with every kind of them."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner

from saferank.cli.app import app
from saferank.data import RankingData, read_items
from saferank.data.items import describe_columns, feature_sentences

ROWS = 2000


def table() -> pa.Table:
    brands = ["acme"] * 1200 + ["bolt"] * 700 + ["core"] * 60 + ["dune"] * 5 + [None] * 35
    days = [date(2026, 1, 1 + row % 28) for row in range(ROWS)]
    return pa.table({
        "term": [f"q{row // 10}" for row in range(ROWS)], "SKU": range(ROWS),
        "price": [None if row % 4 == 0 else row / 100 for row in range(ROWS)],
        "code": [2**24 + 1 + row for row in range(ROWS)], "one": [1.0] * ROWS,
        "none": pa.nulls(ROWS), "new": [row % 2 == 0 for row in range(ROWS)],
        "listed": days, "brand": brands, "title": [f"title {row}" for row in range(ROWS)],
    })  # fmt: skip


NAMES = {"query_id": "term", "doc_id": "SKU"}


def test_every_column_is_described() -> None:
    facts = {one.column: one for one in describe_columns(read_items(table(), columns=NAMES))}
    assert {name: one.kind for name, one in facts.items()} == {
        "price": "number", "code": "number", "one": "number", "none": "number", "new": "boolean",
        "listed": "date", "brand": "category", "title": "none",
    }  # fmt: skip
    assert facts["price"].missing == 0.25
    assert facts["price"].values == "0.01 to 19.99"
    assert "a column that says so" in facts["price"].use
    assert facts["code"].use == "as it is, rounded to 24 bits"
    assert facts["one"].use == "constant: says nothing"
    assert facts["none"].use.startswith("no values: says nothing")
    assert facts["listed"].values == "2026-01-01 to 2026-01-28"
    assert facts["brand"].values == "acme, bolt, core and 1 more"
    assert "for networks 3 columns and one for all others" in facts["brand"].use
    assert facts["title"].use == "left out: text of 2,000 or more different values"
    assert facts["title"].missing is None


def test_the_features_in_sentences() -> None:
    assert feature_sentences(read_items(table(), columns=NAMES)) == [
        "7 features: 4 numbers, 1 boolean, 1 date, 1 category; 3 of them with missing values.",
        "Left out: `title` (text of 2,000 or more different values).",
    ]
    assert feature_sentences(RankingData(np.eye(2), [0, 2])) == []


def test_on_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "items.parquet"
    pq.write_table(table(), path)
    columns = [f"--column={name}={own}" for name, own in NAMES.items()]
    arguments = ["data", "inspect", str(path), *columns]
    shown = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"}, catch_exceptions=False)
    assert shown.exit_code == 0
    assert "items.parquet: columns" in shown.stdout
    assert "left out: text of 2,000 or more different values" in shown.stdout
    told = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert [one["column"] for one in told["columns"]] == [
        "price", "code", "one", "none", "new", "listed", "brand", "title"
    ]  # fmt: skip
