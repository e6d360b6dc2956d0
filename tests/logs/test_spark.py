"""The same log counted by DuckDB and by a real local Spark session gives identical counts."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from logs.shop_shards import write_tables

import saferank as sr
from saferank.errors import InputError
from saferank.logs.engines import running as engines
from saferank.logs.shard_folder import ShardFolder, counts_name

pytestmark = [
    pytest.mark.xdist_group("spark"),
    # PySpark leaves the sockets that results come through to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        if os.environ.get("CI"):
            pytest.fail("Spark needs Java 17 or newer, which CI must have")
        pytest.skip("Spark needs Java 17 or newer, which is not on this machine")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
    session = engines._local_spark(builder, "1GB", tmp_path_factory.mktemp("spill"))
    yield session
    session.stop()


def messy_log(rows: int = 3000, seed: int = 0) -> pa.Table:
    """Ids of both kinds, repeated rows, two documents at a rank, and every kind of bad row."""
    rng = np.random.default_rng(seed)
    rank = rng.integers(-1, 8, rows).astype(object)
    rank[rng.random(rows) < 0.05] = None
    session = rng.integers(0, rows // 8, rows).astype(object)
    session[rng.random(rows) < 0.02] = None
    query = np.array([f"q{i}" for i in rng.integers(0, 9, rows)], dtype=object)
    query[rng.random(rows) < 0.02] = None
    document = np.array(rng.integers(0, 3, rows) + 10 * np.array([r or 0 for r in rank]))
    click = rng.choice([0, 0, 0, 1, 1, 2, None], rows)
    day = rng.choice(["2026-01-01", "2026-01-02", "2026-01-03"], rows)
    return pa.table({
        "session_id": pa.array(session, pa.int64()),
        "query_id": pa.array(query, pa.string()),
        "doc_id": pa.array(document, pa.int64()),
        "rank": pa.array(rank, pa.int64()),
        "click": pa.array(click, pa.int64()),
        "day": pa.array(pd.to_datetime(day)).cast(pa.timestamp("us")),
    })  # fmt: skip


def same(log: Any, **options: Any) -> None:
    """Counts and what is told are identical (examples may be other rows)."""
    one = sr.logs.count(log, engine="duckdb", **options)
    other = sr.logs.count(log, engine="spark", **options)
    assert one.to_arrow().equals(other.to_arrow())
    assert one.sketches == other.sketches
    assert one.report is not None
    assert other.report is not None
    told = [
        {**report.to_dict(), "bad": [(broken.rule, broken.rows) for broken in report.bad]}
        for report in (one.report, other.report)
    ]
    assert told[0] == told[1]


def test_messy_rows(spark: Any, tmp_path: Path) -> None:
    pq.write_table(messy_log(), tmp_path / "log.parquet")
    same(tmp_path / "log.parquet", skip_bad=True)
    same(
        tmp_path / "log.parquet", skip_bad=True, use_sessions=False, top=4,
        where=["day>=2026-01-02"],
    )  # fmt: skip


def test_floating_ranks(spark: Any, tmp_path: Path) -> None:
    values = [1.0, 2.0, 2.5, float("nan"), float("inf"), -1.0, None, 1e300]
    table = pa.table({
        "query_id": [1] * 8, "doc_id": list("abcdefgh"), "rank": pa.array(values, pa.float64()),
        "click": pa.array([1.0, 0.0] * 4),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "log.parquet")
    same(tmp_path / "log.parquet", skip_bad=True)


def test_recorded_propensities(spark: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    table = messy_log()
    values = rng.choice([0.1, 0.3, 0.7, 1.0, 0.0, -1.0, np.nan], table.num_rows)
    pq.write_table(table.append_column("p", pa.array(values)), tmp_path / "log.parquet")
    for sessions in (True, False):
        same(
            tmp_path / "log.parquet", skip_bad=True, columns={"propensity": "p"},
            use_sessions=sessions,
        )  # fmt: skip


def test_summed_csv_and_json(spark: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({
        "query_id": rng.integers(0, 5, 200), "doc_id": rng.integers(0, 9, 200),
        "rank": rng.integers(1, 4, 200), "impressions": rng.integers(0, 50, 200),
    })  # fmt: skip
    frame["clicks"] = frame.impressions // 2
    frame.to_csv(tmp_path / "log.csv.gz", index=False)
    rows = [json.dumps({k: int(v) for k, v in row.items()}) for row in frame.to_dict("records")]
    (tmp_path / "log.jsonl").write_text("\n".join(rows))
    same(tmp_path / "log.csv.gz")
    same(tmp_path / "log.jsonl")


def test_hive_partitions(spark: Any, tmp_path: Path) -> None:
    table = messy_log(500)
    for day in (1, 2):
        folder = tmp_path / "log" / f"date=2026-02-0{day}"
        folder.mkdir(parents=True)
        pq.write_table(table.slice(250 * (day - 1), 250), folder / "part.parquet")
    same(tmp_path / "log", skip_bad=True)
    same(tmp_path / "log", skip_bad=True, where=["date=2026-02-02"])


def test_literal_names_and_folders_that_name_a_column(spark: Any, tmp_path: Path) -> None:
    table = pa.table({"query_id": [1], "doc_id": [1], "rank": [1], "click": [1]})
    twice = pa.concat_tables([table, table])
    for name, rows in (("star[1]", twice), ("star1", table), ("a{b,c}*?", twice), ("ab", table)):
        pq.write_table(rows, tmp_path / f"{name}.parquet")
        counted = sr.logs.count(tmp_path / f"{name}.parquet", engine="spark").to_arrow()
        assert counted["impressions"].to_pylist() == [rows.num_rows]
    (tmp_path / "rank=7").mkdir()
    pq.write_table(table, tmp_path / "rank=7" / "x.parquet")
    with pytest.raises(InputError, match="`rank` is a column of the files and of their folders"):
        sr.logs.count(tmp_path / "rank=7", engine="spark")
    for hive, rank in (("folders", 7), ("columns", 1)):
        choice = sr.logs.EngineChoice("spark", hive=hive)
        counted = sr.logs.count(tmp_path / "rank=7", engine=choice).to_arrow()
        assert counted["rank"].to_pylist() == [rank]


def test_tables_of_the_engine_and_bad_rows(spark: Any) -> None:
    frame = spark.createDataFrame([(1, 1, 1, True), (1, 2, -1, False)], "query_id int, doc_id int, "
                                  "rank int, click boolean")  # fmt: skip
    frame.createOrReplaceTempView("clicks")
    with pytest.raises(InputError, match=r"1 of 2 rows .* query_id 1, doc_id 2, rank -1"):
        sr.logs.count("clicks", engine="spark")
    table = sr.logs.count("clicks", engine="spark", skip_bad=True)
    assert table.to_arrow().to_pylist() == [
        {"query_id": 1, "doc_id": 1, "rank": 1, "part": "learn", "impressions": 1, "clicks": 1}
    ]
    with pytest.raises(InputError, match="the log cannot be read"):
        sr.logs.count("no_such_table", engine="spark")


def test_a_real_log(spark: Any, shared_data: Path) -> None:
    same(shared_data / "tiangong-st" / "log.parquet")


def test_through_the_driver(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a cluster the counts come back as Arrow batches, not through a shared disk."""
    monkeypatch.setattr(engines.Spark, "writes_here", property(lambda _: False))
    pq.write_table(messy_log(500), tmp_path / "log.parquet")
    same(tmp_path / "log.parquet", skip_bad=True)


def test_tables_in_memory_and_exclusions(spark: Any) -> None:
    log = pa.table({
        "session_id": [1, 1, 2, 2, 3, 3], "query_id": ["a"] * 6, "doc_id": [1, 2, 2, 1, 1, 2],
        "rank": [0, 1, 0, 1, 0, 1], "click": [True, False, False, True, True, True],
    })  # fmt: skip
    options = {"rank_from": 0, "exclude": pa.table({"session_id": [3]})}
    local, there = (
        sr.count(log, engine=engine, **options).to_arrow() for engine in ("duckdb", "spark")
    )
    assert there.to_pylist() == local.to_pylist()
    with pytest.raises(InputError, match="ranks count from 0"):
        sr.count(log, engine="spark")


def test_values_are_drawn_alike(spark: Any, tmp_path: Path) -> None:
    del spark
    rng = np.random.default_rng(1)
    log = pa.table({
        "session_id": np.repeat(np.arange(60), 2), "query_id": ["q"] * 120,
        "doc_id": np.tile(["a", "b"], 60), "rank": np.tile([1, 2], 60),
        "revenue": rng.exponential(20.0, 120),
    })  # fmt: skip
    pq.write_table(log, tmp_path / "log.parquet")
    counted = [
        sr.count(tmp_path / "log.parquet", feedback="revenue<=40", engine=engine, judge=0)
        .to_arrow(["doc_id", "rank", "impressions", "clicks"]).sort_by("doc_id")
        for engine in ("duckdb", "spark")
    ]  # fmt: skip
    assert counted[0].to_pylist() == counted[1].to_pylist()
    assert 0 < sum(counted[0]["clicks"].to_pylist()) < 120


def test_shards_have_the_same_rows(spark: Any, tmp_path: Path) -> None:
    for text in (True, False):
        tables = write_tables(tmp_path, text=text)
        for engine in ("duckdb", "spark"):
            sr.logs.shard(tables.items, tables.counts, tmp_path / engine, shards=4,
                          engine=engine, columns={"doc_id": "sku"})  # fmt: skip
        folders = [ShardFolder.open(tmp_path / engine) for engine in ("duckdb", "spark")]
        assert folders[0].manifest.features == folders[1].manifest.features
        for number in range(4):
            one, other = (folder.read(number) for folder in folders)
            assert one.data.fingerprint() == other.data.fingerprint()
            assert one.data.query_ids.tolist() == other.data.query_ids.tolist()
            assert one.data.doc_ids.tolist() == other.data.doc_ids.tolist()
            counts = [pq.read_table(folder.path / counts_name(number)) for folder in folders]
            assert counts[0].equals(counts[1], check_metadata=True)
