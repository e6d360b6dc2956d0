"""What can go wrong with a count: one clear sentence, exit code 1 or 2, no half-written file."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import saferank as sr
from saferank._core.scratch import PREFIX
from saferank.errors import EngineError, InputError
from saferank.logs import EngineChoice
from saferank.logs.engines.engine_errors import one_sentence

START = "import sys; from saferank.cli.app import main; sys.argv[0] = 'saferank'; main()"
SOURCES = Path(__file__).parents[2] / "src"


def run(
    *arguments: object, before: Callable[[], None] | None = None, wrap: tuple[str, ...] = ()
) -> subprocess.Popen[str]:
    """`saferank` in a process of its own."""
    return subprocess.Popen(
        [*wrap, sys.executable, "-c", START, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=before,
    )  # fmt: skip


def generated(path: Path, rows: int, query: str = "i // 10") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    duckdb.sql(
        f"""COPY (SELECT {query} AS query_id, hash(i) % 1000 AS doc_id, i % 10 + 1 AS rank,
        hash(i + 1) % 5 = 0 AS click FROM range({rows}) t(i)) TO '{path}'"""
    )
    return path


def table(**columns: list[object]) -> pa.Table:
    base: dict[str, list[object]] = {
        "query_id": [1, 1], "doc_id": [1, 2], "rank": [1, 2], "click": [True, False]
    }  # fmt: skip
    return pa.table({**base, **columns})


def only(folder: Path, *names: str) -> None:
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)


@pytest.mark.parametrize("sign", [f"{PREFIX}*", f"{PREFIX}*/made"])
def test_killed_in_the_middle(tmp_path: Path, sign: str) -> None:
    """While it counts, and while it writes; the next run removes what was left."""
    log, little = tmp_path / "log.parquet", tmp_path / "little.parquet"
    generated(log, 4_000_000)
    out = tmp_path / "out" / "counts.parquet"
    sr.logs.count(generated(little, 100), output=out)
    before = out.read_bytes()
    with run("count", log, "-o", out) as child:
        deadline = time.monotonic() + 60
        while not list(out.parent.glob(sign)) and time.monotonic() < deadline:
            time.sleep(0.005)
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL, "it was killed while it counted"
    assert out.read_bytes() == before
    assert len(list(out.parent.iterdir())) > 1
    with run("count", little, "-o", out) as child:
        assert child.wait() == 0
    assert out.read_bytes() == before
    only(out.parent, "counts.parquet")


def test_a_file_too_large_for_the_disk(tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk where none can be made."""
    log = generated(tmp_path / "log.parquet", 400_000)
    (tmp_path / "out").mkdir()

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    with run("count", log, "-o", tmp_path / "out" / "counts.parquet", before=limit) as child:
        _, said = child.communicate()
    assert child.returncode == 1
    assert said.startswith("saferank: the disk is full: ")
    assert "{" not in said
    assert len(said.splitlines()) == 1
    only(tmp_path / "out")


def test_a_full_disk(tmp_path: Path) -> None:
    """A small tmpfs, in a mount namespace of its own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=256k none {disk} && "
    tried = subprocess.run(["unshare", "-rm", "sh", "-c", mount + "true"], capture_output=True)
    if tried.returncode:
        pytest.skip("a tmpfs cannot be mounted here")
    log = generated(tmp_path / "log.parquet", 400_000)
    last = f'"$@"; code=$?; ls -A {disk}; exit $code'
    wrap = ("unshare", "-rm", "sh", "-c", mount + last, "sh")
    with run("count", log, "-o", disk / "counts.parquet", wrap=wrap) as child:
        listed, said = child.communicate()
    assert child.returncode == 1
    assert said.startswith("saferank: the disk is full: ")
    assert listed == "", "nothing is left on the disk"


@pytest.mark.parametrize(
    ("name", "content"),
    [("h.csv", "query_id,doc_id,rank,click\n"), ("h.csv", "query_id,doc_id,rank,click\r\n\r\n"),
     ("e.csv", ""), ("e.jsonl", "\n")],
)  # fmt: skip
def test_a_file_without_rows(tmp_path: Path, name: str, content: str) -> None:
    """Of a CSV with a header only nobody knows the types; beside one with rows it adds none."""
    path = tmp_path / name
    path.write_text(content)
    for read in (sr.logs.count, sr.logs.check_log):
        with pytest.raises(InputError, match=r"must have rows to count; .* has none"):
            read(path)
    if content and path.suffix == ".csv":
        (tmp_path / "day.csv").write_text("query_id,doc_id,rank,click\nq,a,1,0\n")
        assert sr.logs.count([path, tmp_path / "day.csv"]).rows == 1


def test_a_truncated_file(tmp_path: Path) -> None:
    log = generated(tmp_path / "log.parquet", 10_000)
    log.write_bytes(log.read_bytes()[:-100])
    with run("count", log, "-o", tmp_path / "counts.parquet") as child:
        _, said = child.communicate()
    assert child.returncode == 2
    assert f"`{log}` must be a whole Parquet file" in said
    assert len(said.splitlines()) == 1
    only(tmp_path, "log.parquet")


def test_damaged_pages(tmp_path: Path) -> None:
    """The footer is whole, the data are not: the engine's complaint, one sentence, no file."""
    log = generated(tmp_path / "log.parquet", 50_000)
    data = bytearray(log.read_bytes())
    data[1000:9000] = b"\xff" * 8000
    log.write_bytes(data)
    with pytest.raises((InputError, EngineError)) as refused:
        sr.logs.count(log, output=tmp_path / "counts.parquet")
    assert len(str(refused.value).splitlines()) == 1
    only(tmp_path, "log.parquet")


def test_a_partition_with_another_schema(tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "a.parquet")
    pq.write_table(table(rank=["1", "2"]), tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"`rank` must be the same in every file .* strings in"):
        sr.logs.count(str(tmp_path / "*.parquet"))


def test_a_partition_without_a_column(tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "a.parquet")
    pq.write_table(table().drop_columns(["click"]), tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"`click` .* no such column in '.*b.parquet'"):
        sr.logs.count(str(tmp_path / "*.parquet"))


def test_partitions_may_differ_where_it_does_not_matter(tmp_path: Path) -> None:
    """Another width of a number, and columns that nobody asked for."""
    pq.write_table(table(), tmp_path / "a.parquet")
    narrow = table(other=["x", "y"])
    narrow = narrow.set_column(2, "rank", pa.array([1, 300], pa.int16()))
    pq.write_table(narrow, tmp_path / "b.parquet")
    counts = sr.logs.count(str(tmp_path / "*.parquet"))
    assert counts.to_arrow()["rank"].to_pylist() == [1, 2, 300]


def test_a_csv_that_changes_its_mind(tmp_path: Path) -> None:
    lines = ["query_id,doc_id,rank,click", *["1,1,1,0"] * 50_000, "1,1,first,0"]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    with pytest.raises(InputError) as refused:
        sr.logs.count(tmp_path / "log.csv")
    assert len(str(refused.value).splitlines()) == 1


def test_names_that_lead_nowhere(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing matches"):
        sr.logs.count(tmp_path / "none*.parquet")
    with pytest.raises(InputError, match="must name files when the engine is duckdb"):
        sr.logs.count("clicks")
    with pytest.raises(InputError, match="found none"):
        sr.logs.count(tmp_path)
    with pytest.raises(InputError, match="at least one file"):
        sr.logs.count([])
    with pytest.raises(InputError, match="`engine` must be duckdb, spark or a URL"):
        sr.logs.count(generated(tmp_path / "log.parquet", 10), engine="oracle")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="files of one format"):
        sr.logs.count(tmp_path)


def test_memory_must_be_a_size(tmp_path: Path) -> None:
    log = generated(tmp_path / "log.parquet", 10)
    for asked in ("lots", "4", "1KB"):
        with pytest.raises(InputError, match="`memory` must be"):
            sr.logs.count(log, engine=EngineChoice(memory=asked))


def test_too_little_memory_is_said(tmp_path: Path) -> None:
    """Where even spilling does not help: the session that DuckDB keeps is larger than the limit."""
    log = generated(tmp_path / "log.parquet", 1_000_000, query="repeat('x', 200) || i")
    with pytest.raises(EngineError, match=r"--memory|disk is full"):
        sr.logs.count(log, engine=EngineChoice(memory="50MB"))


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkSession, "getActiveSession", classmethod(lambda _: None))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(EngineError, match="Spark needs Java 17"):
        sr.logs.count(generated(tmp_path / "log.parquet", 10), engine="spark")


def test_no_pyspark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(sr.errors.MissingExtraError, match=r"pip install 'saferank\[spark\]'"):
        sr.logs.count(generated(tmp_path / "log.parquet", 10), engine="spark")


def test_other_errors_are_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), one_sentence():
        _ = 1 / 0
    with contextlib.suppress(InputError), one_sentence():
        raise InputError("as it is")


@pytest.mark.slow
def test_ten_million_queries_in_one_gigabyte(tmp_path: Path) -> None:
    log = generated(tmp_path / "log.parquet", 10_000_000, query="'query ' || i")
    choice = EngineChoice(memory="1GB")
    counts = sr.logs.count(log, output=tmp_path / "counts.parquet", engine=choice)
    assert counts.report is not None
    assert counts.report.queries == counts.rows == 10_000_000


@pytest.mark.parametrize("column", ["rank", "click"])
def test_nan_among_values_that_are_all_good_is_a_bad_row(tmp_path: Path, column: str) -> None:
    """The statistics of the file do not tell of it, and DuckDB believes them."""
    values = {"rank": [1.0, 2.0, 1.0] * 1000, "click": [1.0, 0.0, 1.0] * 1000}
    values[column][1::3] = [float("nan")] * 1000
    ids = {"query_id": list(range(3000)), "doc_id": [1] * 3000}
    pq.write_table(pa.table({**ids, **values}), tmp_path / "log.parquet")
    with pytest.raises(
        InputError, match=f"1,000 of 3,000 rows of the log break a rule: `{column}`"
    ):
        sr.count(tmp_path / "log.parquet")


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_csv_file_with_a_column_twice_is_refused(tmp_path: Path, separator: str) -> None:
    rows = ["query_id,doc_id,rank,rank,click", "1,1,1,3,1", "1,2,2,4,0"]
    log = tmp_path / "log.csv"
    log.write_text("\n".join(rows).replace(",", separator) + "\n")
    with pytest.raises(InputError, match=r"rank of .* must be one column; got '2 columns'"):
        sr.count(log)
    rows = ["query_id,doc_id,rank,price,price,click", "1,1,1,3,4,1", "1,2,2,4,5,0"]
    log.write_text("\n".join(rows).replace(",", separator) + "\n")
    assert sr.count(log).report.rows == 2, "a column that is not needed may come twice"
