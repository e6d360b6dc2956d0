"""Each finding on a log made to have it, and the figures against plain loops."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import saferank as sr
from saferank._core.charts import save_chart
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.errors import InputError
from saferank.logs import LogHealth, check_log
from saferank.logs.health import Finding, click_rate_chart
from saferank.policies.production_findings import production_finding


def frame(seed: int = 0, sessions: int = 2500, queries: int = 25, ranks: int = 4) -> pd.DataFrame:
    """A healthy log: six documents per query in random order, attention falls with the rank."""
    rng = np.random.default_rng(seed)
    order = rng.permuted(np.tile(np.arange(6), (sessions, 1)), axis=1)[:, :ranks]
    query = rng.integers(0, queries, sessions)
    attention = 0.6 / np.arange(1, ranks + 1)
    return pd.DataFrame({
        "session_id": np.repeat(np.arange(sessions), ranks),
        "query_id": np.repeat(query, ranks),
        "doc_id": (np.repeat(query, ranks) * 6 + order.ravel()),
        "rank": np.tile(np.arange(1, ranks + 1), sessions),
        "click": (rng.random((sessions, ranks)) < attention).ravel(),
        "date": pd.to_datetime("2026-03-01") + pd.to_timedelta(
            np.repeat(np.arange(sessions) * 10 // sessions, ranks), unit="D"),
    })  # fmt: skip


def checked(log: pd.DataFrame, folder: Path, **options: Any) -> LogHealth:
    pq.write_table(pa.Table.from_pandas(log, preserve_index=False), folder / "log.parquet")
    return check_log(folder / "log.parquet", **options)


def finding(health: LogHealth, name: str) -> Finding:
    return next(found for found in health.findings if found.name == name)


def test_a_healthy_log(tmp_path: Path) -> None:
    log = frame()
    health = checked(log, tmp_path)
    assert {found.severity for found in health.findings} == {"good"}
    assert health.verdict == "good"
    for rate in health.by_rank:
        there = log[log["rank"] == rate.at]
        assert (rate.impressions, rate.clicks) == (len(there), there.click.sum())
    days = log.groupby(log.date.dt.strftime("%Y-%m-%d")).click.agg(["size", "sum"])
    assert [(d.at, d.impressions, d.clicks) for d in health.by_day] == list(
        days.itertuples(name=None)
    )
    assert finding(health, "sessions").value == 2500
    assert "150 query-document pairs" in finding(health, "sessions").meaning


def test_overlap_equals_that_of_the_counts(tmp_path: Path) -> None:
    log = frame(sessions=60)
    health = checked(log, tmp_path)
    pairs = log.groupby(["query_id", "doc_id"]).size().index
    place = {pair: index for index, pair in enumerate(pairs)}
    impressions = np.zeros((len(pairs), 4), dtype=np.int64)
    for row in log.itertuples():
        impressions[place[row.query_id, row.doc_id], row.rank - 1] += 1
    expected = sr.counts.overlap(Counts([0, len(pairs)], impressions, 0 * impressions))
    assert np.array_equal(health.overlap.documents, expected.documents)
    np.testing.assert_allclose(health.overlap.weight, expected.weight, rtol=1e-12)
    several = np.mean(np.count_nonzero(impressions, axis=1) > 1)
    assert finding(health, "overlap between ranks").value == pytest.approx(several)


def test_few_sessions_and_queries_seen_once(tmp_path: Path) -> None:
    log = frame(sessions=40, queries=10**6)
    health = checked(log, tmp_path)
    assert finding(health, "sessions").severity == "warning"
    assert finding(health, "clicks").severity == "warning"
    assert finding(health, "queries seen once").value == 1
    assert finding(health, "queries seen once").severity == "warning"
    assert health.verdict == "not good enough", "nothing links the ranks"


def test_no_clicks(tmp_path: Path) -> None:
    health = checked(frame().assign(click=False), tmp_path)
    assert finding(health, "clicks").severity == "problem"


def test_ranks_that_say_nothing(tmp_path: Path) -> None:
    log = frame()
    health = checked(log[log["rank"] == 1], tmp_path)
    assert finding(health, "click rate by rank").severity == "problem"
    from_two = checked(log.assign(rank=log["rank"] + 1), tmp_path)
    assert "Nothing is logged above rank 2" in finding(from_two, "click rate by rank").meaning
    upside_down = checked(log.assign(rank=5 - log["rank"]), tmp_path)
    assert "They rise at rank 2, 3, 4" in finding(upside_down, "click rate by rank").meaning


def test_always_the_same_list(tmp_path: Path) -> None:
    log = frame()
    log["doc_id"] = log["rank"]
    health = checked(log, tmp_path)
    same = finding(health, "always the same order")
    assert (same.value, same.severity) == (1, "problem")
    links = finding(health, "overlap between ranks")
    assert (links.value, links.severity) == (0, "problem")


def test_ranks_apart(tmp_path: Path) -> None:
    """Ranks 1 and 2 swap, 3 and 4 swap, nothing links the pairs."""
    log = frame()
    swap = np.repeat(np.random.default_rng(1).integers(0, 2, 2500), 4)
    log["doc_id"] = np.where(log["rank"] <= 2, 0, 2) + (log["rank"] + swap) % 2
    links = finding(checked(log, tmp_path), "overlap between ranks")
    assert links.severity == "warning"
    assert "into 2 groups. Position bias at rank 3, 4 cannot" in links.meaning


def test_bad_rows_are_told(tmp_path: Path) -> None:
    log = frame()
    few = log.assign(rank=log["rank"].where(log.index >= 20, -1))
    rows = finding(checked(few, tmp_path), "bad rows")
    assert (rows.value, rows.severity) == (20, "warning")
    assert "rank -1" in rows.meaning
    many = log.assign(rank=log["rank"].where(log.index >= 2000, 0))
    assert finding(checked(many, tmp_path), "bad rows").severity == "problem"
    with pytest.raises(InputError, match="must have rows to check"):
        checked(log.assign(rank=-1), tmp_path)


def test_duplicates(tmp_path: Path) -> None:
    log = frame()
    twice = pd.concat([log, log.head(1000)])
    found = finding(checked(twice, tmp_path), "duplicates")
    assert (found.value, found.severity) == (1000, "warning")
    unknown = finding(checked(log.drop(columns="session_id"), tmp_path), "duplicates")
    assert (unknown.value, unknown.severity) == ("unknown", "note")


def test_robots_are_named_and_can_be_excluded(tmp_path: Path) -> None:
    """Visitors 0 and 1 are robots that click nearly everything, in sessions of their own."""
    rng = np.random.default_rng(3)
    log = frame(ranks=6)
    log["visitor"] = log.session_id % 500 + 2
    robot = log.session_id < 100
    log.loc[robot, "visitor"] = log.session_id[robot] % 2
    log.loc[robot, "click"] = rng.random(robot.sum()) < 0.97
    log.loc[log.query_id == 3, "click"] = True
    health = checked(log, tmp_path, columns={"user_id": "visitor"})
    found = finding(health, "robots")
    assert found.severity == "warning"
    assert "--exclude FILE" in found.advice
    named = {name: set(ids.to_pylist()) for name, ids in health.robots.named.items()}
    assert named["user_id"] == {0, 1}
    lists = log.groupby("session_id").click.agg(["size", "sum"])
    wild = lists[(lists["size"] >= 5) & (lists["sum"] == lists["size"])]
    assert named["session_id"] == set(wild.index)
    assert named["query_id"] == {3}
    by_kind = {
        "user_id": log[robot].click.sum(),
        "session_id": log[log.session_id.isin(wild.index)].click.sum(),
        "query_id": log[log.query_id == 3].click.sum(),
    }
    assert health.robots.clicks == by_kind
    assert found.value == pytest.approx(max(by_kind.values()) / log.click.sum())
    rest = checked(log, tmp_path, columns={"user_id": "visitor"}, exclude=health.robots.table())
    assert finding(rest, "robots").severity == "good"
    left = ~log.visitor.isin([0, 1]) & ~log.session_id.isin(wild.index) & (log.query_id != 3)
    assert rest.report.rows == left.sum()
    assert rest.report.excluded == (~left).sum()


def test_robots_without_sessions_are_queries(tmp_path: Path) -> None:
    wild = frame().drop(columns="session_id")
    wild.loc[wild.query_id == 3, "click"] = True
    found = finding(checked(wild, tmp_path), "robots")
    expected = wild[wild.query_id == 3].click.sum() / wild.click.sum()
    assert found.value == pytest.approx(expected)
    assert "1 queries with 90% of 100 or more" in found.meaning
    assert "(query_id 3)" in found.meaning


def test_a_fixed_ranking_with_delisted_products_is_a_fixed_ranking(tmp_path: Path) -> None:
    """Twelve products in one order; each is out of stock now and then, so lists differ."""
    rng = np.random.default_rng(5)
    lists = []
    for session in range(2000):
        there = [product for product in range(12) if rng.random() > 0.1][:6]
        lists += [
            {"session_id": session, "query_id": session % 20, "doc_id": product, "rank": rank,
             "click": rng.random() < 0.5 / rank}
            for rank, product in enumerate(there, start=1)
        ]  # fmt: skip
    health = checked(pd.DataFrame(lists), tmp_path)
    same = finding(health, "always the same order")
    assert (same.value, same.severity) == (1, "problem")
    assert "(0.0% the same list; in the others some documents come or go)" in same.meaning
    links = finding(health, "overlap between ranks")
    assert links.severity == "warning"
    assert "the order itself never varied" in links.meaning
    assert health.verdict == "not good enough"


def test_swaps_are_no_fixed_ranking(tmp_path: Path) -> None:
    log = frame()
    log["doc_id"] = log["rank"]
    swapped = (log.session_id % 50 == 0) & (log["rank"] <= 2)
    log.loc[swapped, "doc_id"] = 3 - log["rank"][swapped]
    same = finding(checked(log, tmp_path), "always the same order")
    queries = log[swapped].query_id.nunique() / log.query_id.nunique()
    assert same.value == pytest.approx(1 - queries)


def test_ranks_from_zero_are_found_out_and_said(tmp_path: Path) -> None:
    log = frame()
    from_one, from_zero = (
        checked(log, tmp_path), checked(log.assign(rank=log["rank"] - 1), tmp_path)
    )  # fmt: skip
    first, *others = from_zero.findings
    assert (first.name, first.severity) == ("ranks from 0", "warning")
    assert "--rank-from 0" in first.advice
    assert tuple(others) == from_one.findings
    assert from_zero.by_rank == from_one.by_rank
    assert all("skip-bad" not in found.advice for found in from_zero.findings)
    said = checked(log.assign(rank=log["rank"] - 1), tmp_path, rank_from=0)
    assert said.findings == from_one.findings


def test_drift(tmp_path: Path) -> None:
    log = frame()
    broken = log.date == "2026-03-04"
    found = finding(checked(log.assign(click=log.click & ~broken), tmp_path), "clicks by day")
    assert found.severity == "warning"
    assert "(2026-03-04)" in found.meaning
    assert found.value == pytest.approx(1)
    thin = log[~broken | (log.index % 20 == 0)]
    assert (
        "1 hardly any rows (2026-03-04)"
        in finding(checked(thin, tmp_path), "clicks by day").meaning
    )
    text = log.assign(date=None, timestamp=log.date.dt.strftime("%Y-%m-%d 12:00")).drop(
        columns="date"
    )
    assert [day.at for day in checked(text, tmp_path).by_day][:2] == ["2026-03-01", "2026-03-02"]
    undated = checked(log.drop(columns="date"), tmp_path)
    assert undated.by_day == ()


def test_items(tmp_path: Path) -> None:
    log = frame(queries=3)
    shown = sorted(set(log.doc_id[log.query_id == 0]))
    documents = [*shown, *range(1000, 1094)]
    items = RankingData(
        np.zeros((100, 1)), [0, 100], query_ids=np.array([0]), doc_ids=np.array(documents)
    )
    health = checked(log, tmp_path, items=items)
    support = finding(health, "support")
    assert (support.value, support.severity) == (0.06, "warning")
    unknown = finding(health, "unknown documents")
    assert (unknown.value, unknown.severity) == (12, "problem")


def test_production(tmp_path: Path) -> None:
    """The healthy log shows six documents in random order: equal scores fit; others do not, and
    then nothing is asked of the user."""
    log = frame(queries=3)
    documents = np.arange(18)
    items = RankingData(
        np.zeros((18, 1)), [0, 6, 12, 18], query_ids=np.arange(3), doc_ids=documents,
        production=np.zeros(18),
    )  # fmt: skip
    options = {"production": production_finding}
    found = finding(checked(log, tmp_path, items=items, **options), "production")
    assert (found.value, found.severity) == ("sampled", "good")
    tilted = replace(
        items, production=np.float64(30.0) * (documents % 6)
    )  # at no temperature that is tried
    found = finding(checked(log, tmp_path, items=tilted, **options), "production")
    assert (found.value, found.severity) == ("observed", "note")
    assert found.meaning.startswith("Production is taken as the log shows it")


def test_a_production_that_sorts_is_no_misfit(tmp_path: Path) -> None:
    log = frame(queries=3)
    log["doc_id"] = log.query_id * 6 + log["rank"] - 1
    items = RankingData(
        np.zeros((18, 1)), [0, 6, 12, 18], query_ids=np.arange(3), doc_ids=np.arange(18),
        production=-1.0 * np.arange(18),
    )  # fmt: skip
    health = checked(log, tmp_path, items=items, production=production_finding)
    found = finding(health, "production")
    assert (found.value, found.severity) == ("sorted", "good")


def test_summed_logs_and_spread_of_options(tmp_path: Path) -> None:
    log = frame().rename(columns={"rank": "position"})
    sums = log.groupby(["query_id", "doc_id", "position"], as_index=False).click.agg(
        impressions="size", clicks="sum"
    )
    health = checked(sums, tmp_path, columns={"rank": "position"}, top=3, where=["query_id<20"])
    assert health.report.ranks == 3
    assert health.report.beyond == (sums.query_id < 20).sum() - health.report.groups
    assert health.report.queries == 20


def test_the_chart(tmp_path: Path) -> None:
    health = checked(frame(sessions=200), tmp_path)
    text = save_chart(click_rate_chart(health), tmp_path / "chart.svg").read_text()
    assert "click rate by rank" in text
    assert "click rate by day" in text
    spec = click_rate_chart(health).to_dict()
    drawn = spec["vconcat"][0]["data"]["values"]
    assert [row["rate"] for row in drawn] == [rate.rate for rate in health.by_rank]


@pytest.mark.parametrize(
    ("name", "verdict", "queries", "clicks"),
    [("yandex-wscd/log.parquet", "good", 20, 73946),
     ("tiangong-st/log.parquet", "usable with care", 2544, 1610),
     ("obd-small/*.parquet", "usable with care", 3, 287)],
)  # fmt: skip
def test_real_logs(shared_data: Path, name: str, verdict: str, queries: int, clicks: int) -> None:
    mapping = {"query_id": "campaign", "doc_id": "item_id", "rank": "position"}
    columns = mapping if name.startswith("obd") else None
    health = check_log(str(shared_data / name), columns=columns)
    assert health.verdict == verdict
    assert (health.report.queries, health.report.clicks) == (queries, clicks)
    assert bool(health.by_day) == name.startswith("obd")


@pytest.mark.parametrize(
    ("lost", "severity"), [(0.0, "good"), (0.2, "note"), (0.7, "warning"), ("rank 2", "warning")]
)
def test_lists_that_are_not_full_are_told(lost, severity):
    rng = np.random.default_rng(0)
    sessions = np.repeat(np.arange(3000), 3)
    rank = np.tile([1, 2, 3], 3000)
    log = pa.table(
        {"session_id": sessions, "query_id": sessions % 7, "doc_id": rng.permuted(rank),
         "rank": rank, "click": rng.integers(0, 2, rank.size)}
    )  # fmt: skip
    kept = rank != 2 if lost == "rank 2" else rng.random(rank.size) >= lost
    health = sr.logs.check_log(log.filter(pa.array(kept)))
    found = next(one for one in health.findings if one.name == "full lists")
    assert found.severity == severity
