"""Sessions drawn from counts that were summed before: conserved, in law, and the same again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import saferank as sr
from saferank._core.flat import query_sums
from saferank.counts import Counts, CountTable, Split
from saferank.counts.split import OFF
from saferank.data import RankingData
from saferank.errors import InputError
from saferank.logs import drawn_parts

NAMES = ["query_id", "doc_id", "rank", "impressions", "clicks"]
Row = tuple[object, object, int, int, int]


def table(rows: Sequence[Row], sessions: Mapping[Any, int] | None = None) -> pa.Table:
    columns = dict(zip(NAMES, map(list, zip(*rows, strict=True)), strict=True))
    if sessions is not None:
        columns["sessions"] = [sessions[row[0]] for row in rows]
    return pa.table(columns)


def read(source: pa.Table, tmp_path: Path, **options: int) -> Counts:
    path = tmp_path / "counts.parquet"
    pq.write_table(source, path)
    return sr.logs.read_counts(path, **options)


rows_of = st.lists(
    st.tuples(st.sampled_from(["a", "b", "Ü"]), st.integers(0, 4), st.integers(1, 3),
              st.integers(0, 30), st.floats(0, 1)),
    min_size=1, unique_by=lambda row: row[:3],
).map(lambda rows: [(q, d, k, n, int(n * p)) for q, d, k, n, p in rows])  # fmt: skip


@settings(max_examples=6, deadline=None)
@given(rows=rows_of, more=st.none() | st.integers(0, 20), share=st.floats(0.01, 0.99),
       seed=st.integers(0, 999), order=st.randoms(use_true_random=False))  # fmt: skip
def test_parts_add_up_and_do_not_depend_on_the_order_of_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row], more: int | None, share: float,
    seed: int, order: object,
) -> None:  # fmt: skip
    folder = tmp_path_factory.mktemp("counts")
    most = {q: max(sum(r[3] for r in rows if r[0] == q and r[2] == k) for k in (1, 2, 3))
            for q in {row[0] for row in rows}}  # fmt: skip
    sessions = None if more is None else {query: n + more for query, n in most.items()}
    counted = sr.logs.count(
        table(rows, sessions), judge=share, seed=seed, output=folder / "parts.parquet"
    )
    assert counted.split == Split("drawn", share, seed)
    parts = sr.logs.read_counts(folder / "parts.parquet", ranks=3)
    summed = sr.logs.count(table(rows, sessions), judge=0, output=folder / "all.parquet")
    assert summed.split == OFF
    together = sr.logs.read_counts(folder / "all.parquet", ranks=3)
    for name in ("impressions", "clicks", "sessions"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(together, name))
    for part in (parts.part("learn"), parts.part("judge")):
        assert np.all(query_sums(part.impressions, part.offsets) <= part.sessions[:, None])
    moved = list(rows)
    order.shuffle(moved)  # type: ignore[attr-defined]
    again = sr.logs.count(table(moved, sessions), judge=share, seed=seed)
    assert again.to_arrow().to_pylist() == counted.to_arrow().to_pylist()


def test_the_law_of_a_draw() -> None:
    """Sessions binomial; impressions and clicks hypergeometric given them; nothing else moves."""
    rows = [(q, d, k, n, c) for q in range(4000)
            for d, k, n, c in [(1, 1, 6, 2), (2, 1, 3, 3), (1, 2, 4, 0), (3, 2, 2, 1)]]  # fmt: skip
    counts = sr.logs.count(table(rows), judge=0.3, seed=5)
    items = RankingData(np.zeros((12_000, 1)), np.arange(0, 12_001, 3),
                        doc_ids=np.tile([1, 2, 3], 4000))  # fmt: skip
    aligned, _ = sr.logs.align(counts, items)
    judge = aligned.part("judge")
    chosen = judge.sessions
    assert aligned.sessions.tolist() == [9] * 4000
    expected = stats.binom(9, 0.3).pmf(np.arange(10)) * 4000
    seen = np.bincount(chosen, minlength=10)
    keep = expected > 5
    chi2 = ((seen - expected)[keep] ** 2 / expected[keep]).sum()
    assert stats.chi2.sf(chi2, keep.sum() - 1) > 1e-4
    shown = judge.impressions.reshape(4000, 3, 2)
    clicked = judge.clicks.reshape(4000, 3, 2)
    np.testing.assert_array_equal(shown[:, :, 0].sum(axis=1), chosen)
    for document, rank, number, clicks in [(0, 0, 6, 2), (1, 0, 3, 3), (0, 1, 4, 0), (2, 1, 2, 1)]:
        found = shown[:, document, rank]
        for m in range(1, 6):
            law = stats.hypergeom(9, number, m)
            at = found[chosen == m]
            assert abs(at.mean() - law.mean()) < 4.5 * np.sqrt(law.var() / at.size)
        hits = clicked[:, document, rank]
        away = hits - found * clicks / number
        rate = clicks / number
        variance = found * rate * (1 - rate) * (number - found) / (number - 1)
        assert abs(away.mean()) <= 4.5 * np.sqrt(variance.mean() / away.size)


def test_counts_beyond_a_thousand_million(tmp_path: Path) -> None:
    rows = [(1, d, k, 10**12 + d, 10**11 * d) for d in range(5) for k in (1, 2)]
    counts = read(table(rows), tmp_path)
    judge = counts.part("judge")
    sessions = 5 * 10**12 + 10
    assert counts.total == sessions
    assert abs(judge.total - 0.2 * sessions) < 5 * np.sqrt(0.16 * sessions)
    share = judge.total / sessions
    spread = np.sqrt(counts.impressions * share * (1 - share))
    assert np.all(np.abs(judge.impressions - share * counts.impressions) < 5 * spread)
    assert np.all(judge.impressions.sum(axis=0) == judge.total)
    rate = counts.clicks / counts.impressions
    away = judge.clicks - rate * judge.impressions
    assert np.all(np.abs(away) <= 5 * np.sqrt(judge.impressions * rate * (1 - rate)))


def test_clicks_of_the_parts_are_independent(tmp_path: Path) -> None:
    """The point of it all: what one part's clicks say of chance, the other's do not repeat."""
    rng = np.random.default_rng(0)
    shown = 60
    clicks = rng.binomial(shown, 0.3, 3000)
    rows = [(q, 1, 1, shown, int(c)) for q, c in enumerate(clicks)]
    counts = read(table(rows), tmp_path)
    learn, judge = counts.part("learn"), counts.part("judge")
    rates = [p.clicks[:, 0] / np.maximum(1, p.impressions[:, 0]) for p in (learn, judge)]
    assert abs(np.corrcoef(rates[0], rates[1]).item(1)) < 4 / np.sqrt(clicks.size)


def older(tmp_path: Path, sessions: bool = True) -> Path:
    rng = np.random.default_rng(1)
    rows = [(q, d, k, int(n), int(n * 0.4)) for q in range(30) for d in range(6)
            for k in (1, 2, 3) for n in [rng.integers(0, 50)]]  # fmt: skip
    said = dict.fromkeys(range(30), 400) if sessions else None
    path = tmp_path / "older.parquet"
    pq.write_table(table(rows, said), path)
    return path


@pytest.mark.parametrize("sessions", [True, False])
def test_counts_of_the_older_form_have_the_same_parts_whoever_reads_them(
    tmp_path: Path, sessions: bool
) -> None:
    path = older(tmp_path, sessions)
    alone = sr.logs.read_counts(path)
    assert alone.judge is not None
    few = sr.logs.read_counts(path, ranks=2)
    np.testing.assert_array_equal(few.judge.impressions, alone.judge.impressions[:, :2])
    np.testing.assert_array_equal(few.judge.clicks, alone.judge.clicks[:, :2])
    items = RankingData(np.zeros((180, 1)), np.arange(0, 181, 6), query_ids=np.arange(30)[::-1],
                        doc_ids=np.tile(np.arange(6), 30))  # fmt: skip
    aligned, told = sr.logs.align(CountTable.open(path), items)
    assert aligned.judge.fingerprint() == alone.judge.fingerprint()
    assert told.split == Split("drawn", 0.2, 0)
    assert told.sentences()[-1].endswith(
        f"(judge 0.2, seed 0): {aligned.total - aligned.judge.total:,} sessions to learn from, "
        f"{aligned.judge.total:,} to judge by."
    )
    assert "exact if clicks are independent given impressions" in told.sentences()[-1]
    some = items.subset(np.arange(10))
    kept, _ = sr.logs.align(CountTable.open(path), some, skip_bad=True)
    expected = aligned.subset(np.arange(10))
    assert kept.judge.fingerprint() == expected.judge.fingerprint()
    sr.logs.count(path, output=tmp_path / "new.parquet")
    new = sr.logs.read_counts(tmp_path / "new.parquet")
    assert new.part("judge").fingerprint() == alone.judge.fingerprint()
    assert new.part("learn").fingerprint() == alone.part("learn").fingerprint()


def test_queries_that_span_batches_are_drawn_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = sr.logs.read_counts(older(tmp_path))
    for size in (1, 7, 64):
        monkeypatch.setattr(drawn_parts, "BATCH", size)
        found = sr.logs.read_counts(older(tmp_path))
        assert found.judge.fingerprint() == expected.judge.fingerprint()


def test_repeated_rows_are_added_before_the_draw(tmp_path: Path) -> None:
    once = read(table([(1, 1, 1, 30, 9), (1, 2, 1, 20, 4)]), tmp_path)
    twice = read(table([(1, 1, 1, 10, 9), (1, 2, 1, 20, 4), (1, 1, 1, 20, 0)]), tmp_path)
    assert twice.judge.fingerprint() == once.judge.fingerprint()


def test_sessions_without_impressions_are_drawn_too(tmp_path: Path) -> None:
    rows = [(q, 1, 1, 0, 0) for q in range(200)]
    counts = sr.logs.count(table(rows, dict.fromkeys(range(200), 50)))
    counts_, _ = sr.logs.align(counts, RankingData(np.zeros((200, 1)), np.arange(201),
                                                   doc_ids=np.ones(200, dtype=int)))  # fmt: skip
    assert counts_.sessions.tolist() == [50] * 200
    assert abs(counts_.part("judge").total - 2000) < 5 * np.sqrt(0.16 * 10_000)


def test_fewer_sessions_than_impressions_are_still_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at most the query's sessions"):
        read(table([(1, 1, 1, 5, 0)], {1: 4}), tmp_path)
