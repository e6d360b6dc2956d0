"""Conditions: what they parse to, and which rows meet them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import ibis
import pyarrow as pa
import pytest

from saferank.errors import InputError
from saferank.logs.conditions import Condition, filtered, parse

ROWS = pa.table({
    "n": [1, 2, 3],
    "x": [0.5, 1.5, 2.5],
    "s": ["a", "b=c", "it's"],
    "b": [True, False, True],
    "d": [dt.date(2026, 1, day) for day in (1, 2, 3)],
    "t": [dt.datetime(2026, 1, day, 12) for day in (1, 2, 3)],
    "l": [[1], [2], [3]],
})  # fmt: skip


@pytest.fixture
def table() -> Iterator[Any]:
    connection = ibis.duckdb.connect()
    connection.con.register("rows", ROWS)
    yield connection.table("rows")
    connection.disconnect()


@pytest.mark.parametrize(
    ("text", "parsed"),
    [("a=b", Condition("a", "=", "b")),
     (" a >= 'x y' ", Condition("a", ">=", "x y")),
     ("a!=", Condition("a", "!=", "")),
     ("a==b==c", Condition("a", "==", "b==c")),
     ("user agent < 3", Condition("user agent", "<", "3"))],
)  # fmt: skip
def test_parse(text: str, parsed: Condition) -> None:
    assert parse(text) == parsed


@pytest.mark.parametrize("text", ["", "a", "=b", "__import__('os').system('true')"])
def test_what_is_no_condition(text: str) -> None:
    with pytest.raises(InputError, match="`where` must be like"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "kept"),
    [("n=2", [2]), ("n != 2", [1, 3]), ("n<3", [1, 2]), ("x>=1.5", [2, 3]), ("s=b=c", [2]),
     ("s=it's", [3]), ("b=true", [1, 3]), ("b=0", [2]), ("d>2026-01-01", [2, 3]),
     ("t<=2026-01-02T12:00:00", [1, 2]), ("t>2026-01-02", [2, 3])],
)  # fmt: skip
def test_rows_that_meet(table: Any, text: str, kept: list[int]) -> None:
    found: Any = filtered(table, [text]).order_by("n")
    assert found.n.to_pyarrow().to_pylist() == kept


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("m=1", "must name a column of the log"), ("n=one", "a value of its type"),
     ("d=yesterday", "a value of its type"), ("b=maybe", "a value of its type"),
     ("l=1", "cannot compare `l`")],
)  # fmt: skip
def test_bad_conditions(table: Any, text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        filtered(table, [text])


def test_no_code_is_run(table: Any) -> None:
    """A value is a value, whatever it looks like."""
    found = filtered(table, ["s='; DROP TABLE x; --"])
    assert found.count().to_pyarrow().as_py() == 0
