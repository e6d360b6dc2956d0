"""Guarded traffic watched: sequences that hold however often one looks, and what they decide."""

import html
import json
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import norm
from typer.testing import CliRunner

from saferank.cli.app import app
from saferank.errors import InputError
from saferank.serving.watching import confidence_sequence, read_experiment, watch

DAYS, PER_DAY, RATE, SHARE = 30, 3500, 0.3, 0.5


def daily_sums(rng, loss, runs):
    """Sums and squares of (y - m)(new/share - old/(1 - share)) of each day, y one or no click."""
    sums = np.zeros((runs, DAYS))
    squares = np.zeros((runs, DAYS))
    for new, rate in ((True, RATE * (1 - loss)), (False, RATE)):
        sessions = rng.binomial(PER_DAY, SHARE, size=(runs, DAYS))
        clicks = rng.binomial(sessions, rate)
        weight = 1 / SHARE if new else -1 / (1 - SHARE)
        sums += weight * (clicks - RATE * sessions)
        squares += weight**2 * (clicks * (1 - 2 * RATE) + RATE**2 * sessions)
    return sums, squares


def sequences(loss, runs, seed=0):
    sums, squares = daily_sums(np.random.default_rng(seed), loss, runs)
    looks = np.full(DAYS, PER_DAY)
    return [
        confidence_sequence(looks, sums[run], squares[run], planned=10 * PER_DAY)
        for run in range(runs)
    ]


def test_null_runs_with_daily_looks_are_rarely_rolled_back():
    runs = sequences(loss=0.0, runs=10_000)
    ever = np.array([[each.lower.max() > 0, each.upper.min() < 0] for each in runs])
    assert ever.any(axis=1).mean() <= 0.05
    assert ever[:, 1].mean() <= 0.03


def test_a_loss_is_found_earlier_than_by_bonferroni_over_the_days():
    sums, squares = daily_sums(np.random.default_rng(1), 0.05, 1000)
    looks = np.arange(1, DAYS + 1) * PER_DAY
    mean, square = np.cumsum(sums, axis=1) / looks, np.cumsum(squares, axis=1) / looks
    z = norm.isf(0.025 / DAYS)
    by_days = mean + z * np.sqrt((square - mean**2) / looks) < 0
    by_sequence = np.array([each.upper < 0 for each in sequences(0.05, 1000, seed=1)])

    def first(found):
        return np.where(found.any(axis=1), found.argmax(axis=1) + 1, DAYS + 1)

    assert first(by_sequence).mean() < first(by_days).mean()


def rows(sessions, *, rate_new=0.3, rate_old=0.3, seed=0, days=4):
    """Two lists per session, of queries with other shares; lists of a session click alike."""
    rng = np.random.default_rng(seed)
    table: dict[str, list[Any]] = {
        name: [] for name in ("sid", "query_id", "click", "arm", "share", "day", "revenue")
    }
    for session in range(sessions):
        keen = rng.normal(0, 0.1)
        for query in (0, 1):
            share = (0.2, 0.6)[query]
            new = rng.random() < share
            click = rng.random() < (rate_new if new else rate_old) + keen
            for rank in range(2):
                table["sid"].append(f"s{session}")
                table["query_id"].append(query)
                table["click"].append(int(click) if rank == 0 else 0)
                table["arm"].append("new" if new else "production")
                table["share"].append(share)
                table["day"].append(f"2026-11-0{1 + session * days // sessions}")
                table["revenue"].append(2.0 * click if rank == 0 else 0.0)
    return pa.table(table)


def test_an_experiment_is_that_of_plain_loops():
    table = rows(60)
    experiment = read_experiment(table, columns={"session_id": "sid"}, values=["revenue"])
    lists: dict[Any, Any] = {}
    for row in table.to_pylist():
        key = (row["day"], row["sid"], row["query_id"])
        y, arm, share = lists.get(key, (0, row["arm"], row["share"]))
        lists[key] = (y + row["click"], arm, share)
    before: list[Any] = []
    expected: list[Any] = []
    for day in sorted({key[0] for key in lists}):
        today = [lists[key][0] for key in lists if key[0] == day]
        centre = np.mean(before or today)
        sessions: dict[Any, Any] = {}
        for (when, session, _), (y, arm, share) in lists.items():
            if when == day:
                weight = 1 / share if arm == "new" else -1 / (1 - share)
                sessions[session] = sessions.get(session, 0) + (y - centre) * weight
        x = np.array(list(sessions.values()))
        expected.append((x.size, x.sum(), (x**2).sum()))
        before += today
    clicks, revenue = experiment.metrics
    found = np.stack([clicks.sessions, clicks.sums, clicks.squares], axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(revenue.sums, 2 * clicks.sums, rtol=1e-12)
    assert (experiment.lists, experiment.alone, experiment.unusable) == (120, 0, 0)


def test_missing_data_triggers_nothing():
    table = rows(40).to_pylist()
    for index, row in enumerate(table):
        row["arm"] = [row["arm"], "canary", None][index // 4 % 3]
        row["revenue"] = None
    experiment = read_experiment(
        pa.Table.from_pylist(table), columns={"session_id": "sid"}, values=["revenue"]
    )
    judged = watch(experiment, least=2)
    assert experiment.unusable > 0
    assert judged.watched[1].sequence.observations[-1] == 0
    assert judged.verdict == "continue"
    assert "no value of revenue" in " ".join(judged.notes())


def test_lists_that_compare_nothing_are_told_or_refused():
    table = rows(40).to_pylist()
    for row in table[:80]:
        row["share"], row["arm"] = 1.0, "new"
    experiment = read_experiment(pa.Table.from_pylist(table), columns={"session_id": "sid"})
    assert experiment.alone == 40
    assert "compare nothing" in watch(experiment).notes()[0]
    with pytest.raises(InputError, match="none compares"):
        read_experiment(pa.Table.from_pylist(table[:80]), columns={"session_id": "sid"})


@pytest.mark.parametrize(
    ("new", "verdict", "code"), [(0.6, "ship wider", 0), (0.1, "roll back", 3)]
)
def test_the_command_line_decides(tmp_path, new, verdict, code):
    log = tmp_path / "served.parquet"
    pq.write_table(rows(3000, rate_new=new), log)
    chart = tmp_path / "watch.svg"
    command = ["watch", str(log), "--column", "session_id=sid", "--chart", str(chart), "--json"]
    result = CliRunner().invoke(app, command)
    told = json.loads(result.stdout)
    assert (told["verdict"], result.exit_code) == (verdict, code)
    truth = 2 * (new - 0.3)
    assert told["metrics"][0]["lower"] < truth < told["metrics"][0]["upper"]
    assert chart.exists()


def test_too_little_decides_nothing(tmp_path):
    log = tmp_path / "served.parquet"
    pq.write_table(rows(100, rate_new=0.0), log)
    result = CliRunner().invoke(app, ["watch", str(log), "--column", "session_id=sid"])
    assert result.exit_code == 4
    assert "100 of the 1,000 sessions" in result.stdout
    result = CliRunner().invoke(app, ["watch", str(log)])
    assert result.exit_code != 0


def test_the_page_says_what_the_command_says(tmp_path):
    log, page = tmp_path / "served.parquet", tmp_path / "watch.html"
    table = rows(3000, rate_new=0.1).rename_columns(
        ["sid", "query_id", "click", "arm", "share", "day", "<b>revenue</b>"]
    )
    pq.write_table(table, log)
    command = ["watch", str(log), "--column", "session_id=sid", "--chart", str(page)]
    told = CliRunner().invoke(app, [*command, "--guardrail", "<b>revenue</b>", "--json"])
    record, text = json.loads(told.stdout), page.read_text()
    plain = html.unescape(re.sub("<[^>]*>", " ", text))
    _, _, why = record["sentence"].partition(": ")
    assert "Roll back" in plain
    assert why[1:] in plain
    for note in record["notes"]:
        assert note in plain
    for metric in record["metrics"]:
        for name in ("estimate", "lower", "upper"):
            assert f"{metric[name]:+.4g}" in plain
    assert "<b>revenue" not in text
    assert "<svg" in text
    assert "<script" not in text
    assert "Not looked at" in plain


def test_production_is_that_of_all_sessions_and_said_to_be():
    """Shares differ by query, so production's arm alone has another mean."""
    table = rows(4000, rate_old=0.4)
    judged = watch(read_experiment(table, columns={"session_id": "sid"}))
    assert judged.primary.metric.production == pytest.approx(2 * 0.4, abs=0.05)
    assert any("not the plain mean" in note for note in judged.notes())


def test_messages_name_the_option_that_is_meant(tmp_path):
    log, items = tmp_path / "served.parquet", tmp_path / "items.csv"
    pq.write_table(rows(20), log)
    items.write_text("term,doc_id,x\n1,2,3\n")
    command = ["watch", str(log), "--column", "session_id=sid", "--items", str(items)]
    for options in ([], ["--item-column", "query_id"]):
        said = str(CliRunner().invoke(app, [*command, *options]).exception)
        assert "--item-column" in said
        assert "--column" not in said.replace("--item-column", "")
