"""The row log: its form, and that its counts have the law of the simulated counts."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

from saferank._core.flat import Array
from saferank._core.threads import use_threads
from saferank.clicks import Users, cascade, simulate, simulate_rows, trust_bias
from saferank.clicks.simulation import rows as rows_module
from saferank.data import RankingData
from saferank.errors import InputError


def collection() -> tuple[RankingData, Array]:
    rng = np.random.default_rng(0)
    sizes = np.array([4, 1, 6, 0, 3])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    data = RankingData(
        np.zeros((14, 1)),
        offsets,
        labels=rng.integers(0, 3, 14),
        query_ids=np.array(["a", "b", "c", "d", "e"]),
        doc_ids=np.arange(14) + 100,
    )
    return data, rng.normal(size=14)


def counted(path: Path, data: RankingData, ranks: int) -> tuple[Array, Array, Array]:
    table = pq.read_table(path).to_pydict()
    shown, clicked = np.zeros((2, data.documents, ranks), dtype=np.int64)
    for doc, rank, click in zip(table["doc_id"], table["rank"], table["click"], strict=True):
        shown[doc - 100, rank - 1] += 1
        clicked[doc - 100, rank - 1] += click
    first = np.unique(table["session_id"], return_index=True)[1]
    names, numbers = np.unique(np.array(table["query_id"])[first], return_counts=True)
    sessions = np.array([dict(zip(names, numbers, strict=True)).get(q, 0) for q in "abcde"])
    return shown, clicked, sessions


@pytest.mark.parametrize("users", [trust_bias(3), cascade(3, stop=0.5)], ids=["trust", "cascade"])
def test_rows_have_the_law_of_the_counts(users: Users, tmp_path: Path) -> None:
    data, scores = collection()
    sessions, weights = 20_000, [1, 1, 2, 1, 0.5]
    path = tmp_path / "log.parquet"
    written = simulate_rows(data, scores, users, sessions, 0, path, weights=weights)
    shown, clicked, numbers = counted(path, data, 3)
    assert written == shown.sum() == pq.read_metadata(path).num_rows
    assert numbers.sum() == sessions
    many = simulate(data, scores, users, 10**7, seed=1, weights=weights)
    for found, expected in (
        (shown, many.impressions), (clicked, many.clicks), (numbers, many.sessions)
    ):  # fmt: skip
        p = expected / 10**7
        z = (found - sessions * p)[p > 0] / np.sqrt(sessions * p * (1 - p))[p > 0]
        assert np.abs(z).max() < 5
        assert np.all(found[p == 0] == 0)


def test_rows_are_a_log(tmp_path: Path) -> None:
    data, scores = collection()
    path = tmp_path / "log.parquet"
    simulate_rows(data, scores, trust_bias(3), 500, 0, path)
    table = pq.read_table(path)
    assert table.column_names == ["session_id", "query_id", "doc_id", "rank", "click"]
    rows = table.to_pandas()
    assert set(rows.click) <= {0, 1}
    assert not rows.duplicated(["session_id", "rank"]).any()
    assert not rows.duplicated(["session_id", "doc_id"]).any()
    longest = rows.groupby("session_id")["rank"].agg(["max", "size"])
    assert (longest["max"] == longest["size"]).all()


def test_rows_depend_on_no_thread_and_no_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, scores = collection()
    with use_threads(4):
        simulate_rows(data, scores, trust_bias(), 3000, 4, tmp_path / "a.parquet")
    monkeypatch.setattr(rows_module, "BATCH", 700)
    with use_threads(1):
        simulate_rows(data, scores, trust_bias(), 3000, 4, tmp_path / "b.parquet")
    assert pq.read_table(tmp_path / "a.parquet").equals(pq.read_table(tmp_path / "b.parquet"))


def test_deterministic_rows(tmp_path: Path) -> None:
    data, scores = collection()
    simulate_rows(data, scores, trust_bias(2), 300, 0, tmp_path / "a.parquet", deterministic=True)
    shown, _, sessions = counted(tmp_path / "a.parquet", data, 2)
    expected = simulate(data, scores, trust_bias(2), 300, seed=0, deterministic=True)
    np.testing.assert_array_equal(shown > 0, expected.impressions > 0)
    assert shown.max(axis=0).sum() > 0
    assert sessions.sum() == 300


def test_equal_scores_share_the_first_rank(tmp_path: Path) -> None:
    data = RankingData(np.zeros((5, 1)), [0, 5], labels=np.ones(5), doc_ids=np.arange(5))
    simulate_rows(data, np.zeros(5), trust_bias(1), 5000, 0, tmp_path / "a.parquet")
    first = np.bincount(pq.read_table(tmp_path / "a.parquet")["doc_id"].to_numpy())
    assert stats.chisquare(first).pvalue > 1e-3


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    data, scores = collection()
    with pytest.raises(InputError, match="sessions"):
        simulate_rows(data, scores, trust_bias(), -1, 0, tmp_path / "a.parquet")
    assert list(tmp_path.iterdir()) == []
