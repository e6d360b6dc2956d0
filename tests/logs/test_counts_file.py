"""Counts through Parquet and back, by ids; what does not fit is told."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saferank.clicks import simulate, trust_bias
from saferank.counts import Counts, CountTable, overlap
from saferank.counts.counts_file import save_counts
from saferank.data import RankingData
from saferank.errors import InputError
from saferank.logs import align, read_counts


def load_counts(path: Path, data: RankingData, **options: Any) -> Counts:
    return align(CountTable.open(path), data, **options)[0]


def example(
    ids: str = "strings", sizes: tuple[int, ...] = (3, 0, 7, 1)
) -> tuple[RankingData, Counts]:
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    documents = int(offsets[-1])
    names = {
        "strings": (
            np.array([f"query {index}" for index in range(len(sizes))]),
            np.array([f"d{index % 4}-{index}" for index in range(documents)]),
        ),
        "numbers": (np.arange(len(sizes)) * 7 + 3, np.arange(documents)[::-1].copy()),
        "none": (None, None),
    }[ids]
    data = RankingData(
        np.zeros((documents, 1)),
        offsets,
        labels=np.arange(documents) % 3,
        query_ids=names[0],
        doc_ids=names[1],
    )
    counts = simulate(data, np.zeros(documents), trust_bias(4), 500, seed=0)
    return data, counts


def assert_same(first: Counts, second: Counts) -> None:
    for name in ("offsets", "impressions", "clicks", "sessions"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert (first.judge is None) == (second.judge is None)
    if first.judge is not None and second.judge is not None:
        assert_same(first.judge, second.judge)


@pytest.mark.parametrize("ids", ["strings", "numbers", "none"])
def test_counts_come_back(ids: str, tmp_path: Path) -> None:
    data, counts = example(ids)
    path = tmp_path / "counts.parquet"
    save_counts(counts, data, path)
    assert_same(load_counts(path, data), counts)
    table = pq.read_table(path)
    names = ["query_id", "doc_id", "rank", "part", "impressions", "clicks", "sessions"]
    assert table.column_names == names
    assert pa.compute.min(table["rank"]).as_py() == 1
    assert pa.compute.sum(table["impressions"]).as_py() == counts.impressions.sum()
    assert [entry.name for entry in tmp_path.iterdir()] == ["counts.parquet"]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_counts_follow_their_ids_to_data_in_another_order(seed: int) -> None:
    import tempfile

    data, counts = example("strings")
    order = np.random.default_rng(seed).permutation(data.queries)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "counts.parquet"
        save_counts(counts, data, path)
        assert_same(load_counts(path, data.subset(order)), counts.subset(order))


def test_sessions_in_which_nothing_was_shown_are_kept(tmp_path: Path) -> None:
    data, _ = example("none", sizes=(2, 1))
    nothing = np.zeros((3, 2), dtype=np.int64)
    counts = Counts(data.offsets, nothing, nothing, [5, 0])
    save_counts(counts, data, tmp_path / "c.parquet")
    assert_same(load_counts(tmp_path / "c.parquet", data), counts)


def test_numbers_match_the_same_numbers_as_strings(tmp_path: Path) -> None:
    data, counts = example("numbers")
    save_counts(counts, data, tmp_path / "c.parquet")
    query_ids, doc_ids = data.ids()
    named = RankingData(
        data.features,
        data.offsets,
        query_ids=query_ids.astype(str),
        doc_ids=doc_ids.astype(str),
    )
    assert_same(load_counts(tmp_path / "c.parquet", named), counts)


@pytest.mark.parametrize("ids", ["strings", "numbers", "none"])
def test_counts_can_be_read_without_their_data(ids: str, tmp_path: Path) -> None:
    data, counts = example(ids)
    save_counts(counts, data, tmp_path / "c.parquet")
    alone = read_counts(tmp_path / "c.parquet")
    shown = counts.impressions.any(axis=1)
    assert alone.documents == shown.sum()
    assert sorted(alone.sessions) == sorted(counts.sessions[counts.sessions > 0])
    for name in ("impressions", "clicks"):
        kept = getattr(counts, name)[shown]
        np.testing.assert_array_equal(np.sort(getattr(alone, name), axis=0), np.sort(kept, axis=0))


def write(path: Path, **columns: object) -> Path:
    base: dict[str, object] = {
        "query_id": [3, 3],
        "doc_id": [10, 9],
        "rank": [1, 2],
        "impressions": [5, 5],
        "clicks": [2, 0],
    }
    table = {**base, **columns}
    pq.write_table(
        pa.table({name: value for name, value in table.items() if value is not None}), path
    )
    return path


def test_a_table_without_sessions_and_rows_that_add_up(tmp_path: Path) -> None:
    data, _ = example("numbers")
    path = write(
        tmp_path / "c.parquet",
        query_id=[3, 3, 3],
        doc_id=[10, 10, 9],
        rank=[1, 1, 2],
        impressions=[5, 2, 4],
        clicks=[1, 1, 0],
    )
    counts = load_counts(path, data)
    assert counts.impressions[:2].tolist() == [[7, 0], [0, 4]]
    assert counts.clicks[:2].tolist() == [[2, 0], [0, 0]]
    assert counts.sessions.tolist() == [7, 0, 0, 0]
    assert load_counts(path, data, ranks=4).ranks == 4


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"doc_id": [10, 77]}, "they lack 1, for example query 3, document 77"),
        ({"query_id": [3, 4]}, "query 4"),
        ({"rank": [0, 1]}, "rank"),
        ({"rank": [1.0, 2.0]}, "rank"),
        ({"rank": [1, 2**31 - 1]}, "`ranks` must be at most 10,000"),
        ({"rank": [1, 2**31]}, "rank"),
        ({"rank": [1, None]}, "rank"),
        ({"clicks": [6, 0]}, "clicks"),
        ({"clicks": [-1, 0]}, "clicks"),
        ({"clicks": None}, "clicks"),
        ({"query_id": [0.5, 1.0]}, "query_id"),
        ({"sessions": [5, 6]}, "sessions"),
        ({"sessions": [4, 4]}, "sessions"),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, columns: dict[str, object], words: str) -> None:
    data, _ = example("numbers")
    with pytest.raises(InputError, match=words):
        load_counts(write(tmp_path / "c.parquet", **columns), data)


def test_unknown_documents_can_be_left_out(tmp_path: Path) -> None:
    data, _ = example("numbers")
    path = write(tmp_path / "c.parquet", doc_id=[10, 77])
    assert load_counts(path, data, skip_bad=True).impressions.sum() == 5


def test_what_is_no_parquet_file_is_refused(tmp_path: Path) -> None:
    data, counts = example()
    with pytest.raises(InputError, match="exists"):
        load_counts(tmp_path / "none.parquet", data)
    (tmp_path / "text.parquet").write_text("query_id,doc_id")
    with pytest.raises(InputError, match="Parquet"):
        load_counts(tmp_path / "text.parquet", data)
    with pytest.raises(InputError, match="counts"):
        save_counts(counts.subset([0]), data, tmp_path / "c.parquet")


def test_documents_with_one_id_cannot_be_told_apart(tmp_path: Path) -> None:
    data, counts = example("numbers", sizes=(2,))
    save_counts(counts, data, tmp_path / "c.parquet")
    twice = RankingData(data.features, data.offsets, doc_ids=[1, 1])
    with pytest.raises(InputError, match="doc_ids"):
        load_counts(tmp_path / "c.parquet", twice)


def test_overlap_counts_documents_seen_at_two_ranks() -> None:
    shown = np.array([[4, 12, 0], [1, 0, 2], [0, 0, 3], [2, 2, 2]])
    found = overlap(Counts([0, 4], shown, np.zeros_like(shown)))
    for first in range(3):
        for second in range(3):
            pairs = [
                (n[first], n[second]) for n in shown if first != second and n[first] * n[second]
            ]
            assert found.documents[first, second] == len(pairs)
            worth = sum(n * m / (n + m) for n, m in pairs)
            assert found.weight[first, second] == pytest.approx(worth)
    assert found.components() == [[1, 2, 3]]
    assert found.components(least=2.0) == [[1, 2], [3]]
