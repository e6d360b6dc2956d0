"""Purchases and values in place of clicks: what is counted, by chance, and in which words."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import saferank as sr
from saferank._core.flat import query_sums
from saferank.clicks import ClickModel
from saferank.counts import Counts, CountTable
from saferank.counts.feedback import CLICKS, Feedback
from saferank.errors import InputError
from saferank.estimators.evidence import check_feedback
from saferank.logs import align, check_log, count, merge


def shop(sessions: int = 3000, seed: int = 0) -> pa.Table:
    """Lists of three of five products; a purchase follows a cart, a cart a click."""
    rng = np.random.default_rng(seed)
    rows = sessions * 3
    click = rng.random(rows) < 0.5
    cart = click & (rng.random(rows) < 0.5)
    bought = cart & (rng.random(rows) < 0.5)
    return pa.table({
        "query_id": np.repeat(rng.choice(["a", "b"], sessions), 3),
        "doc_id": np.argsort(rng.random((sessions, 5)))[:, :3].ravel(),
        "rank": np.tile([1, 2, 3], sessions),
        "session_id": np.repeat(np.arange(sessions), 3),
        "click": click,
        "cart": cart.astype(np.int8),
        "purchase": bought,
        "revenue": np.where(bought, rng.lognormal(3, 1, rows), 0.0),
    })  # fmt: skip


def cells(table: CountTable, column: str = "clicks") -> dict[tuple[object, ...], int]:
    rows = table.to_arrow(["query_id", "doc_id", "rank", column]).to_pylist()
    return {(row["query_id"], row["doc_id"], row["rank"]): row[column] for row in rows}


def drawn(row: dict[str, object], share: float, seed: int) -> bool:
    """The draw by another route: the first 32 bits of MD5 as a number."""
    key = f"{seed}:value|{row['session_id']}|{row['query_id']}|{row['doc_id']}|{row['rank']}"
    return int(hashlib.md5(key.encode()).hexdigest()[:8], 16) < share * 2**32


@pytest.mark.parametrize("text", ["purchase", "click=0,purchase=1", "cart=1,purchase=5",
                                  "revenue<=40"])  # fmt: skip
def test_counts_are_those_of_plain_loops(text: str) -> None:
    log = shop()
    expected: dict[tuple[object, ...], int] = {}
    for row in log.to_pylist():
        if text == "revenue<=40":
            share = min(row["revenue"], 40) / 40
        elif text == "cart=1,purchase=5":
            share = max(1 * row["cart"], 5 * row["purchase"]) / 5
        else:
            share = float(row["purchase"])
        key = (row["query_id"], row["doc_id"], row["rank"])
        expected[key] = expected.get(key, 0) + (share >= 1 or (share > 0 and drawn(row, share, 7)))
    table = count(log, feedback=text, judge=0, seed=7)
    assert cells(table) == expected
    assert table.feedback == Feedback(text)


def test_values_are_right_on_average() -> None:
    log = shop()
    truth = np.minimum(log["revenue"].to_numpy(), 40).sum()
    sums = []
    for seed in range(12):
        report = count(log, feedback="revenue<=40", judge=0, seed=seed).report
        assert report is not None
        sums.append(report.feedback.worth(report.clicks))
    share = np.minimum(log["revenue"].to_numpy(), 40) / 40
    error = 40 * np.sqrt((share * (1 - share)).sum())
    assert abs(np.mean(sums) - truth) < 3.5 * error / np.sqrt(12)
    assert 0.4 < np.std(sums, ddof=1) / error < 1.8
    assert report.value == pytest.approx(truth)
    assert report.capped == int((log["revenue"].to_numpy() > 40).sum())
    mean = share.mean()
    assert report.kept_information == pytest.approx(share.var() / (mean * (1 - mean)))


def test_repeated_rows_count_the_largest_value_once() -> None:
    rows = {"query_id": ["q"] * 3, "doc_id": [1, 1, 2], "rank": [1, 1, 2], "session_id": [9] * 3}
    flags = {"cart": [1, 0, 0], "purchase": [0, 1, 0]}
    table = count(pa.table({**rows, **flags}), feedback="cart=1,purchase=5", judge=0)
    assert cells(table) == {("q", 1, 1): 1, ("q", 2, 2): 0}
    assert table.report is not None
    assert table.report.value == 5.0


@pytest.mark.parametrize(("text", "message"), [
    ("purchase=", "feedback"), ("", "feedback"), ("a=1,a=2", "feedback"), ("cart=-1", "at least 0"),
    ("cart=0", "one above"), ("revenue<=x", "feedback"), ("revenue<=0", "one above"),
    ("cart=nan", "at least 0"), ("orders", "of the log's columns"),
    ("revenue", "must be 0 or 1 .amounts: --feedback 'revenue<=MOST'"),
])  # fmt: skip
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        count(shop(50), feedback=text)
    assert len(str(refused.value)) <= 300


@pytest.mark.parametrize("bad", [None, float("nan"), float("inf"), -1.0])
def test_bad_amounts_are_rows_that_break_a_rule(bad: float | None) -> None:
    log = shop(50)
    revenue = pa.array([bad, *log["revenue"].to_pylist()[1:]], pa.float64())
    log = log.set_column(log.column_names.index("revenue"), "revenue", revenue)
    with pytest.raises(InputError, match="`revenue` must be a number of at least 0"):
        count(log, feedback="revenue<=40")
    table = count(log, feedback="revenue<=40", skip_bad=True)
    assert table.report is not None
    assert table.report.bad_rows == 1


def test_values_need_sessions_and_purchases_do_not() -> None:
    log = shop(50).drop_columns(["session_id"])
    assert count(log, feedback="purchase").feedback == Feedback("purchase")
    with pytest.raises(InputError, match="session_id"):
        count(log, feedback="revenue<=40")


def test_counts_of_different_feedback_are_never_added(tmp_path: Path) -> None:
    half, other = shop(100), shop(100, seed=1)
    moved = pa.array(np.asarray(other["session_id"]) + 1000)
    other = other.set_column(other.column_names.index("session_id"), "session_id", moved)
    for name, table, text in (("a", half, "purchase"), ("b", other, "purchase"),
                              ("c", other, "click")):  # fmt: skip
        count(table, feedback=text, output=tmp_path / f"{name}.parquet")
    assert merge([tmp_path / "a.parquet", tmp_path / "b.parquet"]).feedback == Feedback("purchase")
    with pytest.raises(InputError, match="must count the same"):
        merge([tmp_path / "a.parquet", tmp_path / "c.parquet"])
    purchases, clicks = (sr.logs.read_counts(tmp_path / f"{n}.parquet") for n in "ac")
    assert purchases.part("learn").feedback == Feedback("purchase")
    assert purchases.subset([0]).feedback == purchases.part("judge").feedback
    one = Counts([0, 1], [[2]], [[1]], feedback=Feedback("purchase"))
    with pytest.raises(InputError, match="purchase"):
        _ = one + Counts([0, 1], [[2]], [[1]])
    assert clicks.feedback == CLICKS


def test_a_click_model_of_clicks_serves_purchases_only_without_trust_bias() -> None:
    examination = ClickModel(np.array([1.0, 0.5]), np.zeros(2), feedback="click")
    trust = ClickModel(np.array([0.5, 0.4]), np.array([0.3, 0.1]), feedback="click")
    check_feedback("purchase", examination)
    check_feedback("click", trust)
    check_feedback("purchase", ClickModel.from_dict({"alpha": [0.5], "beta": [0.1]}))
    with pytest.raises(InputError, match="fitted to purchase, as the counts are") as refused:
        check_feedback("purchase", ClickModel.from_dict(trust.to_dict()))
    assert len(str(refused.value)) <= 300


def test_words() -> None:
    say = Feedback("purchase").say
    assert say("Clicks at rank 1: a click, click rates, the click model, clicks/*.parquet") == (
        "Purchases at rank 1: a purchase, purchase rates, the click model, clicks/*.parquet"
    )
    assert CLICKS.say("clicks") == "clicks"
    health = check_log(shop(400), feedback="purchase")
    assert health.report.feedback.noun == "purchases"


def test_the_whole_way_in_revenue_holds_the_truth() -> None:
    """A world whose revenue is known: what `assess` says of it, in its own unit."""
    rng = np.random.default_rng(3)
    queries, documents, ranks, sessions = 60, 6, 4, 30_000
    appeal = rng.uniform(0.1, 0.9, (queries, documents))
    price = rng.uniform(5, 40, (queries, documents))
    look = np.array([1.0, 0.6, 0.4, 0.3])
    query = rng.integers(0, queries, sessions)
    shown = np.argsort(rng.random((sessions, documents)))[:, :ranks]
    bought = rng.random(shown.shape) < 0.5 * look * appeal[query[:, None], shown]
    log = pa.table({
        "query_id": np.repeat(query, ranks),
        "doc_id": shown.ravel(),
        "rank": np.tile(np.arange(1, ranks + 1), sessions),
        "session_id": np.repeat(np.arange(sessions), ranks),
        "revenue": (bought * price[query[:, None], shown]).ravel(),
    })  # fmt: skip
    value = (0.5 * appeal * price).ravel()
    items = sr.data.RankingData(
        np.stack([appeal.ravel(), price.ravel()], axis=1), np.arange(queries + 1) * documents,
        query_ids=np.arange(queries), doc_ids=np.tile(np.arange(documents), queries),
        production=np.zeros(value.size),
    )  # fmt: skip
    counts, _ = align(count(log, feedback="revenue<=40"), items)
    model = ClickModel(look, np.zeros(ranks), feedback="click")
    new = np.log(value)
    assessment = sr.assess(new, items, counts=counts, click_model=model)
    worth = [
        float(np.bincount(query, minlength=queries) @ query_sums(
            sr.plackett_luce.exposure(scores, look, items.offsets) * value, items.offsets
        )) / sessions
        for scores in (np.zeros(value.size), new)
    ]  # fmt: skip
    assert assessment.feedback.noun == "revenue"
    assert assessment.decision.sentence.startswith("Ship: revenue per session changes by")
    assert assessment.clicks is not None
    gap = assessment.clicks.difference
    low, high = (assessment.feedback.worth(end) for end in (gap.lower, gap.upper))
    assert low < worth[1] - worth[0] < high
    assert assessment.feedback.worth(assessment.clicks.bound.lower) < worth[1] - worth[0]
    assert assessment.feedback.worth(assessment.clicks.production) == pytest.approx(
        worth[0], rel=0.05
    )
    record = json.loads(json.dumps(assessment.to_dict()))
    again = sr.safety.Assessment.from_dict(record)
    assert again.feedback == counts.feedback
