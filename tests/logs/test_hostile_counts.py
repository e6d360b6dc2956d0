"""Counts and logs that are damaged, too large or contradict themselves: refused, in a sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import saferank as sr
from saferank.counts import Counts, CountTable
from saferank.counts.arrays import MOST_RANKS
from saferank.errors import InputError

HUGE = 2**62


def counts_file(path: Path, **columns: list[object]) -> Path:
    rows = len(next(iter(columns.values())))
    base: dict[str, list[object]] = {
        "query_id": ["a"] * rows,
        "doc_id": [str(i) for i in range(rows)],
        "rank": [1] * rows,
        "impressions": [5] * rows,
        "clicks": [0] * rows,
    }
    pq.write_table(pa.table({**base, **columns}), path)
    return path


def refused(path: Path, match: str) -> None:
    """By everything that reads counts."""
    for read in (sr.logs.read_counts, sr.logs.count):
        with pytest.raises(InputError, match=match) as error:
            read(path)
        assert len(str(error.value)) <= 300


@pytest.mark.parametrize(
    "columns",
    [
        {"impressions": [HUGE, HUGE]},
        {"impressions": [HUGE, HUGE], "doc_id": ["x", "x"]},
        {"impressions": [HUGE] * 4, "rank": [1, 2, 3, 4]},
        {"query_id": ["a", "b"], "sessions": [2**63 - 1] * 2},
    ],
)
def test_sums_that_are_no_64_bit_integers(columns: dict[str, list[object]], tmp_path: Path) -> None:
    refused(counts_file(tmp_path / "c.parquet", **columns), "must be (in all )?below")


@pytest.mark.parametrize("sessions", [0, -1, 9])
def test_fewer_sessions_than_impressions(sessions: int, tmp_path: Path) -> None:
    path = counts_file(tmp_path / "c.parquet", sessions=[sessions] * 2)
    refused(path, "sessions")
    good = counts_file(tmp_path / "good.parquet", sessions=[10, 10])
    assert sr.logs.read_counts(good).total == 10
    assert sr.logs.count(good).report.sessions == 10


def test_sessions_of_several_files_add_before_they_are_compared(tmp_path: Path) -> None:
    paths = [counts_file(tmp_path / f"{i}.parquet", sessions=[10, 10]) for i in range(2)]
    assert sr.logs.count(paths).report.sessions == 20


@pytest.mark.parametrize("name", ["impressions", "rank", "query_id"])
def test_a_column_twice(name: str, tmp_path: Path) -> None:
    table = pq.read_table(counts_file(tmp_path / "c.parquet", rank=[1, 2]))
    pq.write_table(table.append_column(name, table.column(name)), tmp_path / "c.parquet")
    refused(tmp_path / "c.parquet", "must be one column; got '2 columns'")


def test_ids_that_differ_in_a_character_that_numpy_drops(tmp_path: Path) -> None:
    path = counts_file(tmp_path / "c.parquet", doc_id=["x", "x\x00"])
    with pytest.raises(InputError, match="without the character NUL"):
        sr.logs.read_counts(path)


def test_too_many_ranks(tmp_path: Path) -> None:
    refused(counts_file(tmp_path / "c.parquet", rank=[100_000, 1]), "--top K")
    assert sr.logs.count(tmp_path / "c.parquet", top=10).report.ranks == 1
    with pytest.raises(InputError, match="at most 10,000"):
        Counts.zeros([0, 1], MOST_RANKS + 1)
    one = pq.read_table(counts_file(tmp_path / "said.parquet", rank=[1]))
    said = one.replace_schema_metadata({"saferank.ranks": "100000"})
    pq.write_table(said, tmp_path / "said.parquet")
    with pytest.raises(InputError, match="at most 10,000"):
        sr.logs.read_counts(tmp_path / "said.parquet")


def test_arrays_do_not_wrap_either() -> None:
    with pytest.raises(InputError, match="in all below"):
        Counts([0, 2], [[HUGE], [HUGE]], [[0], [0]])
    near = Counts([0, 1], [[HUGE - 2**12]], [[0]])
    with pytest.raises(InputError, match="in all below"):
        near + near
    with pytest.raises(InputError, match="`clicks` must be below"):
        Counts([0, 1], [[1]], np.array([[2**63]], dtype=np.uint64))


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "none"])
def test_damaged_pages_are_bad_input(compression: str, tmp_path: Path) -> None:
    """Never a fault of the machine (exit code 1), never an error of another kind."""
    rng = np.random.default_rng(0)
    rows = 3000
    table = pa.table(
        {
            "query_id": [f"q{i // 10}" for i in range(rows)],
            "doc_id": [f"d{i}" for i in range(rows)],
            "rank": np.arange(rows) % 10 + 1,
            "impressions": rng.integers(5, 99, rows),
            "clicks": rng.integers(0, 5, rows),
        }
    )
    path = tmp_path / "c.parquet"
    pq.write_table(table, path, compression=compression)
    whole = path.read_bytes()
    messages = []
    for _ in range(4):
        data = bytearray(whole)
        at, size = int(rng.integers(4, len(data) - 4)), int(rng.integers(1, 30))
        data[at : at + size] = rng.bytes(size)
        path.write_bytes(data)
        for read in (sr.logs.read_counts, sr.logs.count, lambda p: CountTable.open(p).to_arrow()):
            try:
                read(path)
            except InputError as error:
                messages.append(str(error))
    assert messages
    assert max(map(len, messages)) <= 300


def test_names_and_texts_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "c.parquet"
    columns: list[dict[str, list[object]]] = [{"xxxx": [1]}, {"query_id": ["xxxx"]}]
    for column in columns:
        rows = counts_file(path, **column, impressions=[5])
        table = pq.read_table(rows)
        pq.write_table(table, path, store_schema=False, compression="none",
                       use_dictionary=False, write_statistics=False)  # fmt: skip
        path.write_bytes(path.read_bytes().replace(b"xxxx", b"\xff\xfe\xfd\xfc"))
        refused(path, r"UTF|utf")
        with pytest.raises(InputError, match=r"UTF|utf"):
            sr.data.read_items(path)
    log = tmp_path / "log.csv"
    log.write_bytes(b"query_id,doc_id,rank,click\n\xe9,1,1,1\n")
    with pytest.raises(InputError, match="not utf-8"):
        sr.logs.count(log)


@pytest.mark.parametrize(
    "where", ["rank=9999999999999999999999", "rank>=" + "9" * 5000, "rank=-9223372036854775809"]
)
def test_conditions_with_numbers_that_are_too_large(where: str, tmp_path: Path) -> None:
    log = counts_file(tmp_path / "c.parquet", rank=[1])
    with pytest.raises(InputError, match="`where` must compare `rank`") as error:
        sr.logs.count(log, where=[where])
    assert len(str(error.value)) <= 300


def test_passwords_of_engines_are_not_told() -> None:
    with pytest.raises(InputError, match="nosuch") as error:
        sr.logs.count("t", engine="nosuch://me:secret@host/db")
    assert "secret" not in str(error.value)


def test_rows_that_statistics_leave_out_are_missed() -> None:
    """Joins pass over the one row of this damaged file, whose statistics say other ids."""
    corpus = Path(__file__).parents[2] / "fuzz" / "corpus" / "counts"
    with pytest.raises(InputError, match="its statistics leave rows out"):
        sr.logs.read_counts(corpus / "statistics-leave-the-query-out")
