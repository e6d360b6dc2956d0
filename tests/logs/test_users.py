"""A log with users: they are learned from or judged by as a whole, and are the units of errors."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import saferank as sr
from saferank.counts import CountTable
from saferank.evaluation import LogRows
from saferank.evaluation.intervals import QueryScores, interval
from saferank.logs.alignment import arrays_of


def log_of(users: int = 60, lists: int = 3, **columns: object) -> pa.Table:
    """Every user has lists of their own, each seen once, of four documents."""
    query = np.repeat(np.arange(users * lists), 4)
    rng = np.random.default_rng(0)
    table = {
        "query_id": query,
        "session_id": query + 10_000,
        "doc_id": np.tile(np.arange(4), users * lists),
        "rank": np.tile(np.arange(4), users * lists) + 1,
        "click": rng.random(query.size) < 0.3,
        "user_id": np.array([f"u{number}" for number in query // lists]),
        **columns,
    }
    return pa.table(table)


def users_of_part(table: CountTable, part: str) -> set[int]:
    rows = table.to_arrow().to_pylist()
    return {row["query_id"] // 3 for row in rows if row["part"] == part and row["impressions"]}


def test_users_are_set_aside_as_a_whole() -> None:
    table = sr.count(log_of())
    learn, judge = users_of_part(table, "learn"), users_of_part(table, "judge")
    assert learn | judge == set(range(60))
    assert not learn & judge
    assert 3 <= len(judge) <= 25
    assert table.report is not None
    assert table.report.split is not None
    assert table.report.split.by == "user"
    assert "hash of the user id" in " ".join(table.report.sentences())
    assert table.report.judge_sessions == 3 * len(judge)
    sketches = table.sketches
    assert sketches is not None
    assert sketches.judge is not None
    assert len(sketches.judge.ids) == 3 * len(judge)


def test_the_same_without_the_search_for_repeated_rows() -> None:
    with_sessions, without = sr.count(log_of()), sr.count(log_of(), use_sessions=False)
    assert users_of_part(with_sessions, "judge") == users_of_part(without, "judge")


def test_a_row_without_a_user_goes_by_its_session() -> None:
    names = log_of()["user_id"].to_pylist()
    table = sr.count(log_of(user_id=pa.array([None, *names[1:4], *names[4:]])))
    assert table.report is not None
    assert table.report.impressions == 720


def test_clusters_are_the_users_also_after_a_file_and_in_two_days(tmp_path: Path) -> None:
    log = log_of()
    first, second = tmp_path / "first.parquet", tmp_path / "second.parquet"
    sr.count(log.slice(0, 240), output=first)
    sr.count(log.slice(240), output=second)
    for counts in (arrays_of(sr.count(log)), arrays_of(sr.count([str(first), str(second)]))):
        assert counts.cluster is not None
        np.testing.assert_array_equal(
            np.unique(counts.cluster, return_inverse=True)[1].reshape(60, 3).std(axis=1), 0
        )
        assert np.unique(counts.cluster).size == 60
        for part in (counts.part("learn"), counts.part("judge"), counts.subset([0, 1, 5])):
            assert part.cluster is not None


def test_queries_that_users_share_are_on_their_own() -> None:
    shared = log_of(query_id=np.repeat(np.tile(np.arange(6), 30), 4))
    assert arrays_of(sr.count(shared)).cluster is None


def test_ids_of_users_are_not_in_the_counts() -> None:
    column = sr.count(log_of()).to_arrow()["cluster"].to_pylist()
    assert not any("u" in name for name in column)


def test_errors_by_user_are_those_of_sums_over_users() -> None:
    rng = np.random.default_rng(1)
    cluster = np.repeat(np.arange(50), 4)
    mean = rng.normal(size=50)[cluster] + 0.1 * rng.normal(size=200)
    ones, nothing = np.ones(200, dtype=np.int64), np.zeros(200)
    plain = QueryScores(ones, mean, nothing, nothing, nothing, nothing, "ranks")
    by_user = QueryScores(ones, mean, nothing, nothing, nothing, nothing, "ranks", cluster=cluster)
    each = mean.reshape(50, 4).mean(axis=1)
    from scipy.stats import t

    width = t.isf(0.025, 49) * each.std(ddof=1) / np.sqrt(50)
    found = interval(by_user)
    assert found.upper - found.estimate == pytest.approx(width)
    assert found.estimate == pytest.approx(interval(plain).estimate)
    drawn = interval(by_user, "bootstrap")
    assert drawn.upper - drawn.lower == pytest.approx(2 * width, rel=0.15)


def test_the_variance_of_sessions_is_that_of_the_users_to_judge_by(tmp_path: Path) -> None:
    log = log_of(query_id=np.repeat(np.tile(np.arange(6), 30), 4))
    table = sr.count(log)
    items = sr.data.RankingData(
        np.eye(24), np.arange(7) * 4, query_ids=np.arange(6), doc_ids=np.tile(np.arange(4), 6)
    )
    counts, _ = sr.logs.align(table, items)
    scores = np.zeros(24)
    model = sr.clicks.position_bias(4)
    judged = sr.evaluation.evaluate(
        np.arange(24.0), items, counts.part("judge"), model, production=scores,
        log=LogRows(log, table.split),
    )  # fmt: skip
    assert judged.difference.variance_from == "sessions"
