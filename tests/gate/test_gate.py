"""The gate's own parts: the command line in this process, the worlds, the table."""

import json
from typing import Any

import pytest

from benchmarks.gate import __main__ as gate
from benchmarks.gate import cases, command_line, table
from benchmarks.gate.preparing import names
from benchmarks.gate.worlds import shops


def case(world="a", method="dr", check="clicks", ship=True, percent=10.0, **more):
    change = {"estimate": 0.1, "lower": 0.05, "upper": 0.2}
    return {
        "world": world, "method": method, "check": check, "ship": ship, "guarded": False,
        "shop": {"production": "noisy", "users": "trust"}, "sentence": "Ship.",
        "difference": change, "clicks": change, "clicks_at_least": 0.05,
        "clicks_of_production": 0.5,
        "production": {"estimate": 0.5}, "promise_broken": 0.25,
        "truth": {"percent": percent, "difference": percent / 100},
        "utility": {"difference": 0.3}, **more,
    }  # fmt: skip


def figures(records):
    return dict(zip(table.COLUMNS, table.rows(records)[0], strict=True))


def test_commands_are_run_as_a_shell_would():
    shown = command_line.run("--version")
    assert (shown.code, shown.error) == (0, "")
    assert shown.out.startswith("saferank ")
    refused = command_line.run("count", "missing.parquet", "-o", "counts.parquet")
    assert refused.code == 2
    assert refused.sentence.startswith("saferank: ")
    assert command_line.run("no-such-command").code == 2


def test_options_are_looked_up_in_the_command_line_itself():
    assert command_line.supports("logs check", "--items")
    assert not command_line.supports("logs check", "--no-such-option")
    assert not command_line.supports("no such command", "--items")
    assert "default" in cases.checks()


def test_sixty_worlds_of_every_kind():
    known = shops(60)
    assert len(known) == 60
    kinds: dict[str, set[Any]] = {
        "production": {"sorted", "noisy", "sampled", "drift", "uniform"},
        "users": {"trust", "position", "cascade"},
        "temperature": {0.2, 0.5, 1.0, 2.0},
        "rank_from": {0, 1},
        "odd_names": {False, True},
        "layout": {"parquet", "weekly", "csv"},
    }
    for field, values in kinds.items():
        for value in values:
            assert any(getattr(shop, field) == value for shop in known.values()), (field, value)
    zero_based = [shop for shop in known.values() if shop.rank_from == 0]
    assert {shop.odd_names for shop in zero_based} == {False, True}
    assert len({shop.seed for shop in known.values()}) == 60


def test_the_table_by_hand():
    records = [
        case("a", percent=10.0),
        case("b", percent=-2.0),
        case("c", percent=-3.0, ship=False),
        case("d", percent=7.0, ship=False),
        case("e", percent=0.5),
        case("f", ship=None, refused="no", at="learn"),
    ]
    row = figures(records)
    assert row == {
        "verdict": "clicks: all",
        "cases": "6",
        "refused": "1",
        "shipped": "3",
        "worse": "2",
        "worse shipped": "1 (17% of all)",
        "wrong of shipped": "33%",
        "better": "3",
        "better shipped": "33%",
        "certified gain": "+10.0 %",
        "true gain": "+0.5 %",
        "clicks in interval": "2 of 5",
        "utility in interval": "0 of 5",
        "promise broken": "25%",
    }
    assert table.wrong(records) == ["b dr clicks: truly -2.0 %; Ship."]
    assert table.frictions(records) == {"refused at learn: no": 1}


def test_guarded_intervals_are_of_what_is_served():
    assert figures([case(guarded=True)])["clicks in interval"] == "1 of 1"


def test_a_verdict_without_estimates_has_no_certified_gain():
    record = case()
    assert table.certified_percent(record) == pytest.approx(10.0)
    assert table.certified_percent({**record, "clicks_at_least": None}) is None


def test_a_file_that_was_cut_short_is_gone_on_with(tmp_path):
    path = tmp_path / "cases.jsonl"
    lines = [json.dumps(case("a", check=check)) for check in cases.checks()]
    path.write_text("\n".join(lines) + '\n{"world": "b", "meth')
    assert len(gate.read(path)) == len(lines)
    known = {"a": None, "b": None}
    assert [work[0] for work in gate._missing(known, ("dr",), path)] == ["b"]
    assert [work[2] for work in gate._missing(known, ("dr", "keep"), path)] == [
        ("keep",),
        ("dr", "keep"),
    ]


def test_names_of_columns_as_options():
    assert names({"rank": "Pos."}) == ["--column", "rank=Pos."]
