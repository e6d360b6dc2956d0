"""Names of files are names: never SQL, never a glob twice, never a column that the files have."""

from __future__ import annotations

from pathlib import Path

import duckdb
import ibis
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import saferank as sr
from saferank.counts import CountTable
from saferank.errors import InputError
from saferank.logs import EngineChoice
from saferank.logs.sources import find

ODD = [
    'it\'s "both"',
    "x' (FORMAT csv); COPY (SELECT 1) TO 'hacked.csv'; --",
    "‮right to left",
    "star[1]",
    "a*b?",
    "[!x]",
    "{a,b}",
    "new\nline",
    "tail ",
    "back\\slash",
    "ünï😀",
]


def log(clicks: int, **columns: list[object]) -> pa.Table:
    """Four impressions of one document at rank 1, some of them clicked."""
    rows = {"query_id": [1] * 4, "doc_id": [1] * 4, "rank": [1] * 4}
    return pa.table({**rows, "click": [int(i < clicks) for i in range(4)], **columns})


def clicks_of(table: CountTable) -> list[int]:
    return table.to_arrow()["clicks"].to_pylist()


@pytest.mark.parametrize("name", ODD)
def test_odd_names_are_read_and_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / name
    folder.mkdir()
    pq.write_table(log(3), folder / f"{name}.parquet")
    if "\\" in name:
        (folder / f"{name}.parquet").rename(folder / "log.parquet")
    out = folder / "counts.parquet" if "\\" in name else folder / f"{name}-counts.parquet"
    table = sr.logs.count([*folder.glob("*.parquet")], output=out)
    assert clicks_of(table) == [3]
    assert sr.logs.read_counts(out).clicks.sum() == 3
    assert {path.name for path in tmp_path.iterdir()} == {name}, "nothing else came to be"
    assert len(list(folder.iterdir())) == 2


def test_a_path_that_exists_is_that_file(tmp_path: Path) -> None:
    pq.write_table(log(1), tmp_path / "star1.parquet")
    pq.write_table(log(3), tmp_path / "star[1].parquet")
    assert clicks_of(sr.logs.count(tmp_path / "star[1].parquet")) == [3]
    assert clicks_of(sr.logs.count(str(tmp_path / "star[1-9].parquet"))) == [1]
    both = sr.logs.count([tmp_path / "star1.parquet", tmp_path / "star[1].parquet"])
    assert clicks_of(both) == [4]
    for end, write in ((".csv", pyarrow.csv.write_csv), (".jsonl", write_lines)):
        write(log(1), tmp_path / f"star1{end}")
        write(log(3), tmp_path / f"star[1]{end}")
        assert clicks_of(sr.logs.count(tmp_path / f"star[1]{end}")) == [3]
    sr.logs.count(tmp_path / "star1.parquet", output=tmp_path / "c1.parquet")
    sr.logs.count(tmp_path / "star[1].parquet", output=tmp_path / "c[1].parquet")
    assert sr.logs.read_counts(tmp_path / "c[1].parquet").clicks.sum() == 3


def write_lines(table: pa.Table, path: Path) -> None:
    import json

    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


def test_a_name_that_duckdb_cannot_take_literally_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "back\\slash[1].parquet"
    pq.write_table(log(1), path)
    with pytest.raises(InputError, match="backslash"):
        sr.logs.count(path)


@pytest.mark.parametrize("end", [".parquet", ".csv"])
def test_hive_folders_do_not_overwrite_columns(end: str, tmp_path: Path) -> None:
    folder = tmp_path / "Rank=7"
    folder.mkdir()
    table = log(3, query_id=[1, 1, 2, 2])
    (pq.write_table if end == ".parquet" else pyarrow.csv.write_csv)(table, folder / f"x{end}")
    with pytest.raises(InputError, match=r"`Rank` is a column of the files and of their folders"):
        sr.logs.count(tmp_path)
    with pytest.raises(InputError, match="`Rank`"):
        sr.logs.check_log(tmp_path)
    own = sr.logs.count(tmp_path, engine=EngineChoice(hive="columns"))
    assert own.to_arrow()["rank"].to_pylist() == [1, 1]
    theirs = sr.logs.count(tmp_path, engine=EngineChoice(hive="folders"))
    assert theirs.to_arrow()["rank"].to_pylist() == [7, 7]
    with pytest.raises(InputError, match="`hive` must be one of folders, columns"):
        sr.logs.count(tmp_path, engine=EngineChoice(hive="yes"))


def test_hive_folders_give_columns_that_the_files_do_not_have(tmp_path: Path) -> None:
    for rank in (1, 2):
        folder = tmp_path / f"rank={rank}"
        folder.mkdir()
        pq.write_table(log(rank).drop_columns("rank"), folder / "x.parquet")
    table = sr.logs.count(tmp_path).to_arrow()
    assert table.select(["rank", "clicks"]).to_pylist() == [
        {"rank": 1, "clicks": 1},
        {"rank": 2, "clicks": 2},
    ]


def test_a_folder_above_the_log_does_not_name_a_column_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB sees the whole path, also what lies above the folder that the user names."""
    folder = tmp_path / "click=0" / "day=2026-01-31"
    folder.mkdir(parents=True)
    pq.write_table(log(3), folder / "x.parquet")
    monkeypatch.chdir(folder.parent)
    with pytest.raises(InputError, match="`click`"):
        sr.logs.count("day=2026-01-31")


@pytest.mark.parametrize(
    "name",
    [
        "http://127.0.0.1:9/log.parquet",
        "https://example.org/log.csv",
        "s3://bucket/log.parquet",
        "S3A://bucket/log.parquet",
        "gs://bucket/*.parquet",
        "hf://datasets/log.parquet",
        "az://x/log.jsonl",
    ],
)
def test_nothing_is_fetched(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fetched(*_: object, **__: object) -> None:
        raise AssertionError("an extension would be fetched")

    monkeypatch.setattr(ibis.backends.duckdb.Backend, "_load_extensions", fetched)
    database = tmp_path / "empty.duckdb"
    duckdb.connect(str(database)).close()
    for engine in ("duckdb", f"duckdb://{database}"):
        with pytest.raises(InputError, match="files of this machine"):
            sr.logs.count(name, engine=engine)


def test_addresses_of_this_machine_are_paths(tmp_path: Path) -> None:
    path = tmp_path / "a log.parquet"
    pq.write_table(log(2), path)
    assert find(path.as_uri()) == find(path)
    assert clicks_of(sr.logs.count(path.as_uri())) == [2]
