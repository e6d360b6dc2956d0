"""Counts onto items: against a loop over the rows, and what is told of what does not match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import saferank as sr
from saferank.counts import CountTable
from saferank.counts.counts_file import save_counts
from saferank.data import RankingData
from saferank.errors import InputError
from saferank.logs import alignment
from saferank.logs.engines.running import DuckDB


def items(query_ids: object, doc_ids: object, offsets: list[int]) -> RankingData:
    documents = offsets[-1]
    return RankingData(
        np.zeros((documents, 1)), offsets, query_ids=np.array(query_ids), doc_ids=np.array(doc_ids)
    )


def table(rows: Sequence[tuple[object, ...]], sessions: list[int] | None = None) -> CountTable:
    names = ["query_id", "doc_id", "rank", "impressions", "clicks"]
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    if sessions is not None:
        columns["sessions"] = sessions
    return CountTable.of_arrow(pa.table(columns))


ITEMS = items(["a", "b", "c"], [1, 2, 1, 3, 9], [0, 2, 4, 5])
ROWS = [("a", 1, 1, 5, 2), ("a", 2, 2, 4, 1), ("b", 3, 1, 7, 0), ("b", 1, 3, 6, 6)]


def test_every_count_finds_its_place() -> None:
    counts, told = sr.logs.align(table(ROWS), ITEMS)
    assert counts.impressions.tolist() == [[5, 0, 0], [0, 4, 0], [0, 0, 6], [7, 0, 0], [0, 0, 0]]
    assert counts.clicks.tolist() == [[2, 0, 0], [0, 1, 0], [0, 0, 6], [0, 0, 0], [0, 0, 0]]
    assert counts.sessions.tolist() == [5, 7, 0]
    assert (told.shown, told.documents, told.shown_queries, told.queries) == (4, 5, 2, 3)
    assert told.support == 0.8
    assert told.unknown_documents == told.beyond == 0


def test_sessions_that_the_counts_say() -> None:
    counts, _ = sr.logs.align(table(ROWS, sessions=[50, 50, 60, 60]), ITEMS)
    assert counts.sessions.tolist() == [50, 60, 0]


def test_unknown_documents_are_refused_or_told() -> None:
    rows = [*ROWS, ("a", 9, 1, 10, 1), ("z", 1, 1, 3, 0), ("z", 1, 2, 1, 1)]
    with pytest.raises(InputError, match="they lack 2, for example query 'a', document 9"):
        sr.logs.align(table(rows), ITEMS)
    counts, told = sr.logs.align(table(rows), ITEMS, skip_bad=True)
    assert (told.unknown_documents, told.unknown_impressions, told.unknown_clicks) == (2, 14, 2)
    assert counts.sessions.tolist() == [15, 7, 0], "sessions of what is left out still count"
    assert counts.impressions.sum() == sum(row[3] for row in ROWS)


def test_items_of_another_log_are_refused_whatever_is_skipped() -> None:
    elsewhere = items([1, 2], [7, 8, 9], [0, 1, 3])
    rows = [(f"other {row[0]}", *row[1:]) for row in ROWS]
    with pytest.raises(InputError, match=r"none of the .* documents that it shows is among them"):
        sr.logs.align(table(rows), elsewhere, skip_bad=True)


def test_the_cut() -> None:
    counts, told = sr.logs.align(table(ROWS), ITEMS, ranks=1)
    assert counts.impressions.tolist() == [[5], [0], [0], [7], [0]]
    assert told.beyond == 10
    assert sr.logs.align(table(ROWS), ITEMS, ranks=9)[0].ranks == 9
    with pytest.raises(InputError, match="`ranks` must be at most 10,000"):
        sr.logs.align(table([("a", 1, 2**31 - 1, 1, 1)]), ITEMS)


def test_ids_of_different_kinds_are_compared_as_text() -> None:
    data = items([1, 2], ["10", "20", "x"], [0, 2, 3])
    counts, _ = sr.logs.align(table([("1", 20, 1, 3, 1), ("2", 10, 1, 1, 0)]), data, skip_bad=True)
    assert counts.impressions[:, 0].tolist() == [0, 3, 0]


def test_items_without_ids_are_numbered() -> None:
    data = RankingData(np.zeros((3, 1)), [0, 1, 3])
    counts, _ = sr.logs.align(table([(1, 1, 1, 8, 0), (0, 0, 1, 2, 0)]), data)
    assert counts.impressions[:, 0].tolist() == [2, 0, 8]


def test_items_with_a_document_twice() -> None:
    with pytest.raises(InputError, match="`doc_ids` must differ within a query; got 7 twice"):
        sr.logs.align(table(ROWS), items(["a"], [7, 7], [0, 2]))


def test_equals_the_reader_of_count_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    data = items(np.arange(20), np.tile(np.arange(6), 20), list(range(0, 121, 6)))
    impressions = rng.integers(0, 9, (120, 4))
    there = sr.counts.Counts(data.offsets, impressions, rng.binomial(impressions, 0.3))
    save_counts(there, data, tmp_path / "counts.parquet")
    counts, _ = sr.logs.align(CountTable.open(tmp_path / "counts.parquet"), data)
    for name in ("impressions", "clicks", "sessions"):
        assert np.array_equal(getattr(counts, name), getattr(there, name)), name


def test_a_log_all_the_way(tmp_path: Path, shared_data: Path) -> None:
    """The real log, aligned to items made of its own ids: nothing is lost."""
    log = shared_data / "yandex-wscd" / "log.parquet"
    table = sr.logs.count(log, output=tmp_path / "counts.parquet")
    pairs = table.to_arrow(["query_id", "doc_id"]).to_pandas().drop_duplicates()
    sizes = pairs.groupby("query_id", sort=False).size()
    data = RankingData(
        np.zeros((len(pairs), 1)), np.concatenate([[0], np.cumsum(sizes)]),
        query_ids=sizes.index.to_numpy(dtype=str), doc_ids=pairs.doc_id.to_numpy(dtype=str),
    )  # fmt: skip
    counts, told = sr.logs.align(table, data)
    assert (counts.total, counts.impressions.sum(), counts.clicks.sum()) == (56477, 564770, 73946)
    assert told.support == 1
    by_rank = (counts.clicks.sum(axis=0) / counts.impressions.sum(axis=0)).round(3)
    expected = [.307, .251, .177, .150, .108, .081, .073, .054, .057, .052]  # fmt: skip
    assert by_rank.tolist() == expected


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [({"query_id": [1]}, "it lacks doc_id, rank, impressions, clicks"),
     ({"query_id": [1], "doc_id": [1], "rank": ["1"], "impressions": [1], "clicks": [0]},
      "`rank of counts` must be whole numbers")],
)  # fmt: skip
def test_what_is_no_table_of_counts(columns: dict[str, list[object]], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        CountTable.of_arrow(pa.table(columns))


def test_opening_what_is_no_file_of_counts(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a Parquet file that exists"):
        CountTable.open(tmp_path / "none.parquet")
    (tmp_path / "text.parquet").write_text("no")
    with pytest.raises(InputError, match="must be a whole Parquet file"):
        CountTable.open(tmp_path / "text.parquet")


def test_cells_come_in_the_order_of_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays in files are filled page after page, however counts are ordered."""
    rng = np.random.default_rng(0)
    documents = rng.permutation(5000)
    placed = items(["q"], np.arange(5000), [0, 5000])
    rows = [("q", int(d), 1 + int(d) % 3, 1 + int(d), int(d) // 2) for d in documents]
    seen: list[int] = []
    plain = DuckDB.batches

    def batches(self: DuckDB, expression: Any, size: int) -> Iterator[pa.RecordBatch]:
        for batch in plain(self, expression, size):
            if "document" in batch.schema.names:
                seen.extend(batch["document"].to_pylist())
            yield batch

    monkeypatch.setattr(DuckDB, "batches", batches)
    monkeypatch.setattr(alignment, "_CELLS", 700)
    counts, _ = sr.logs.align(table(rows), placed)
    assert seen == list(range(5000))
    expected = np.zeros((5000, 3), dtype=np.int64)
    for _, document, rank, shown, _ in rows:
        expected[document, rank - 1] = shown
    np.testing.assert_array_equal(counts.impressions, expected)
