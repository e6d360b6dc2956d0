"""Propensities that a log has recorded: harmonic means, the same by every way of counting."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import saferank as sr
from saferank.counts.counts_file import save_counts
from saferank.data import RankingData
from saferank.errors import InputError
from saferank.logs import align, merge, read_counts

NAMED = {"propensity": "p"}


def log_of(rows=400, seed=0, sessions=True):
    rng = np.random.default_rng(seed)
    columns = {
        "session_id": np.repeat(np.arange(rows // 2), 2),
        "query_id": np.repeat(rng.integers(0, 3, rows // 2), 2),
        "doc_id": np.tile([0, 1], rows // 2) + 2 * np.repeat(rng.integers(0, 2, rows // 2), 2),
        "rank": np.tile([1, 2], rows // 2),
        "click": rng.integers(0, 2, rows),
        "p": rng.choice([0.25, 0.3, 0.7, 1.0], rows),
    }
    if not sessions:
        del columns["session_id"]
    return pa.table(columns)


def by_loop(table):
    """Impressions over the sum of inverse propensities of each (query, document, rank)."""
    shown: dict[Any, int] = defaultdict(int)
    inverse: dict[Any, float] = defaultdict(float)
    for row in table.to_pylist():
        key = row["query_id"], row["doc_id"], row["rank"]
        shown[key] += 1
        inverse[key] += 1 / row["p"]
    return {key: shown[key] / inverse[key] for key in shown}


def found(counts):
    rows = counts.to_arrow().to_pylist()
    return {(r["query_id"], r["doc_id"], r["rank"]): r["propensity"] for r in rows}


@pytest.mark.parametrize("options", [{}, {"use_sessions": False}, {"judge": 0}])
def test_the_harmonic_mean_of_each_cell_in_both_parts(options):
    log = log_of()
    counts = sr.count(log, columns=NAMED, **options)
    assert counts.report.recorded
    expected = by_loop(log)
    assert found(counts).keys() == expected.keys()
    for row in counts.to_arrow().to_pylist():
        key = row["query_id"], row["doc_id"], row["rank"]
        assert row["propensity"] == pytest.approx(expected[key], rel=1e-6)


def test_without_sessions_and_already_summed():
    log = log_of(sessions=False)
    expected = by_loop(log)
    counts = sr.count(log, columns=NAMED)
    assert found(counts) == pytest.approx(expected, rel=1e-6)
    again = sr.count(counts.to_arrow().drop_columns(["part"]), judge=0.5)
    assert found(again) == pytest.approx(expected, rel=1e-6)


def test_days_merge_to_the_whole_and_the_order_of_rows_changes_no_bit(tmp_path):
    log = log_of(1000)
    whole = sr.count(log, columns=NAMED)
    days = [sr.count(log.slice(a, 500), columns=NAMED) for a in (0, 500)]
    assert found(merge(days)) == pytest.approx(found(whole), rel=1e-6)
    mixed = log.take(np.random.default_rng(1).permutation(log.num_rows))
    assert found(sr.count(mixed, columns=NAMED)) == found(whole)


def test_a_column_of_that_name_is_taken_only_where_it_is_named():
    log = log_of().rename_columns(
        ["session_id", "query_id", "doc_id", "rank", "click", "propensity"]
    )
    assert "propensity" not in sr.count(log).to_arrow().column_names
    named = sr.count(log, columns={"propensity": "propensity"})
    assert "propensity" in named.to_arrow().column_names


@pytest.mark.parametrize("bad", [0.0, -0.5, 1.5, None, float("nan"), float("inf"), 1e-12])
@pytest.mark.parametrize("sessions", [True, False])
def test_what_is_no_probability_is_a_bad_row(bad, sessions):
    log = log_of(40)
    values = [bad, *log["p"].to_pylist()[1:]]
    log = log.set_column(5, "p", pa.array(values, pa.float64()))
    with pytest.raises(InputError, match="`propensity` must be from 1e-09 to 1"):
        sr.count(log, columns=NAMED, use_sessions=sessions)
    kept = sr.count(log, columns=NAMED, use_sessions=sessions, skip_bad=True)
    assert kept.report.bad_rows == 1
    assert found(kept) == pytest.approx(by_loop(log.slice(1)), rel=1e-6)


def test_text_is_refused():
    log = log_of(40).set_column(5, "p", pa.array(["0.5"] * 40))
    with pytest.raises(InputError, match="`propensity` must be numbers"):
        sr.count(log, columns=NAMED)


def test_onto_items_written_and_read_again(tmp_path):
    counts = sr.count(log_of(), columns=NAMED, output=tmp_path / "counts.parquet")
    items = RankingData(
        np.zeros((15, 1)), [0, 5, 10, 15], query_ids=np.arange(3), doc_ids=np.tile(np.arange(5), 3)
    )
    aligned, _ = align(counts, items)
    assert aligned.propensity[4::5].max() == 0, "what was never shown has none"
    for (query, doc, rank), value in by_loop(log_of()).items():
        assert aligned.propensity[query * 5 + doc, rank - 1] == pytest.approx(value, rel=1e-6)
    for part in (aligned.part("learn"), aligned.part("judge"), aligned.part("all")):
        np.testing.assert_array_equal(part.propensity, aligned.propensity)
    np.testing.assert_array_equal(aligned.subset([2]).propensity, aligned.propensity[10:])
    save_counts(aligned, items, tmp_path / "again.parquet")
    again, _ = align(sr.counts.CountTable.open(tmp_path / "again.parquet"), items)
    np.testing.assert_allclose(again.propensity, aligned.propensity, rtol=1e-12)
    alone = read_counts(tmp_path / "again.parquet")
    assert alone.propensity.max() == pytest.approx(aligned.propensity.max())


def test_counts_add_to_the_harmonic_mean_by_impressions():
    one = sr.counts.Counts([0, 1], [[2]], [[1]], propensity=[[0.5]])
    other = sr.counts.Counts([0, 1], [[6]], [[1]], propensity=[[0.25]])
    assert (one + other).propensity[0, 0] == pytest.approx(8 / (2 / 0.5 + 6 / 0.25))
    assert (one + sr.counts.Counts([0, 1], [[6]], [[1]])).propensity is None


def test_a_counts_file_with_a_senseless_propensity_is_refused(tmp_path):
    table = pa.table(
        {"query_id": [1], "doc_id": [1], "rank": [1], "impressions": [3], "clicks": [1],
         "propensity": [1.5]}
    )  # fmt: skip
    pq.write_table(table, tmp_path / "counts.parquet")
    with pytest.raises(InputError, match="propensity"):
        read_counts(tmp_path / "counts.parquet")
