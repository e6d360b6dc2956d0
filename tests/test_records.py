from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from saferank._core.records import from_dict
from saferank.errors import InputError


@dataclass
class Inner:
    low: float
    high: float | None = None


@dataclass
class Outer:
    name: str
    count: int
    inner: Inner
    many: tuple[Inner, ...] = ()
    mode: Literal["sampled", "sorted"] = "sampled"
    tables: dict[str, list[float]] = field(default_factory=dict)
    anything: Any = None
    sure: bool = False


GOOD = {"name": "a", "count": 1, "inner": {"low": 1}}


def test_every_kind_of_field_is_built():
    more = {
        "many": [{"low": 0.5, "high": None}], "mode": "sorted", "tables": {"x": [1, 2.5]},
        "anything": [{}], "sure": True,
    }  # fmt: skip
    assert from_dict(Outer, GOOD | more, "outer") == Outer(
        "a", 1, Inner(1.0), (Inner(0.5),), "sorted", {"x": [1.0, 2.5]}, [{}], True
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"name": 3}, "`outer.name` must be a text; got 3"),
        ({"count": 1.0}, "`outer.count` must be a whole number; got 1.0"),
        ({"count": True}, "`outer.count` must be a whole number; got True"),
        ({"inner": {"low": True}}, "`outer.inner.low` must be a number; got True"),
        ({"inner": {"low": float("nan")}}, "`outer.inner.low` must be a number; got nan"),
        ({"inner": {"low": 10**400}}, "`outer.inner.low` must be a number; got 1000"),
        ({"inner": {"low": 1, "high": "2"}}, "`outer.inner.high` must be a number"),
        ({"inner": {}}, "`outer.inner` must have a value for `low`"),
        ({"inner": []}, r"`outer.inner` must be an object; got \[\]"),
        ({"many": {"low": 1}}, "`outer.many` must be a list"),
        ({"many": [None]}, r"`outer.many\[0\]` must be an object; got None"),
        ({"mode": []}, "`outer.mode` must be one of 'sampled', 'sorted'"),
        ({"tables": []}, "`outer.tables` must be an object"),
        ({"tables": {"y": ["1"]}}, r"`outer.tables.y\[0\]` must be a number"),
        ({"sure": 1}, "`outer.sure` must be true or false"),
        ({"other": 1}, "`outer` must be an object of name, count, .*; got 'other'"),
        ({"name": ["x" * 10**5]}, "`outer.name` must be a text"),
    ],
)
def test_a_value_of_another_type_is_refused(change, sentence):
    with pytest.raises(InputError, match=sentence) as refusal:
        from_dict(Outer, GOOD | change, "outer")
    assert len(str(refusal.value)) < 300
