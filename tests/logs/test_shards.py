"""Shards: every row is in one, queries are whole, and a folder that is changed is refused."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs.shop_shards import Tables, write_tables
from typer.testing import CliRunner

import saferank as sr
from saferank.cli.app import app
from saferank.counts.shard_numbers import shard_numbers, shard_of
from saferank.errors import InputError
from saferank.logs.alignment import align
from saferank.logs.shard_folder import MANIFEST, ShardFolder, counts_name, digest_of, items_name

SKU = {"doc_id": "sku"}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return write_tables(tmp_path_factory.mktemp("shop"), queries=300)


@pytest.fixture
def folder(tables: Tables, tmp_path: Path) -> Path:
    sr.logs.shard(tables.items, tables.counts, tmp_path / "shards", shards=4, columns=SKU)
    return tmp_path / "shards"


def rows_of(folder: Path, name: str) -> list[tuple[object, ...]]:
    tables = [pq.read_table(path) for path in sorted(folder.glob(f"{name}-*.parquet"))]
    return [tuple(row.values()) for table in tables for row in table.to_pylist()]


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=30)
    | st.lists(st.text(max_size=9), min_size=1, max_size=30),
    st.integers(1, 70),
)
def test_engine_and_memory_agree_on_shards(ids: list[int] | list[str], shards: int) -> None:
    import ibis

    table = ibis.memtable(pa.table({"id": pa.array([*ids, None], pa.array(ids).type)}))
    said = table.select(shard=shard_of(table.id, shards)).to_pyarrow()["shard"].to_pylist()
    assert said == [*shard_numbers(ids, shards).tolist(), None]
    assert set(said[:-1]) <= set(range(shards))


def test_texts_are_cut_by_the_value_of_their_digest() -> None:
    for text in ("a", "query 17", "éclair"):
        digest = hashlib.md5(f"34:{text}".encode(), usedforsecurity=False).hexdigest()
        assert shard_numbers([text], 7)[0] == int(digest[:16], 16) * 7 // 16**16


def test_shards_are_about_even_whatever_was_set_aside_to_judge_by() -> None:
    from saferank.counts.hashed_ids import choose_ids
    from saferank.counts.split import Split

    for ids in (list(range(4000)), [f"q{number}" for number in range(4000)]):
        numbers = shard_numbers(ids, 4)
        assert np.bincount(numbers).min() > 900
        judged = np.array(choose_ids(Split("query", 0.25, 0).hash(), ids))
        assert np.bincount(numbers[judged]).min() > 200


def test_every_row_is_in_one_shard_and_sorted(tables: Tables, folder: Path) -> None:
    items = pq.read_table(tables.items).rename_columns({"sku": "doc_id"}).drop_columns(["url"])
    names = pq.read_schema(folder / items_name(0)).names
    assert sorted(names) == sorted(items.column_names)
    order = [("query_id", "ascending"), ("doc_id", "ascending")]
    whole = pa.concat_tables(pq.read_table(folder / items_name(n), columns=names) for n in range(4))
    frames = [table.select(names).sort_by(order).to_pandas() for table in (whole, items)]
    pd.testing.assert_frame_equal(*frames)
    for number in range(4):
        part = pq.read_table(folder / items_name(number), columns=["query_id", "doc_id"])
        assert part.equals(part.sort_by(order))
    assert sorted(map(str, rows_of(folder, "counts"))) == sorted(
        str(tuple(row.values())) for row in pq.read_table(tables.counts).to_pylist()
    )


def test_a_shard_has_the_features_and_the_counts_of_the_whole(tables: Tables, folder: Path) -> None:
    whole = sr.data.read_items(tables.items, columns=SKU)
    counts, _ = align(sr.counts.CountTable.open(tables.counts), whole, ranks=3)
    place = {query: at for at, query in enumerate(whole.query_ids.tolist())}
    shards = ShardFolder.open(folder)
    seen = 0
    for number in range(4):
        shard = shards.read(number, ranks=3)
        assert shard.data.schema == whole.schema
        for at, query in enumerate(shard.data.query_ids.tolist()):
            own, other = shard.data.subset([at]), whole.subset([place[query]])
            order = np.argsort(other.doc_ids)
            np.testing.assert_array_equal(own.doc_ids, other.doc_ids[order])
            np.testing.assert_array_equal(own.features, other.features[order])
            np.testing.assert_array_equal(own.production, other.production[order])
            for part in ("learn", "judge"):
                mine = shard.counts.part(part).subset([at])
                theirs = counts.part(part).subset([place[query]])
                np.testing.assert_array_equal(mine.clicks, theirs.clicks[order])
                np.testing.assert_array_equal(mine.impressions, theirs.impressions[order])
                assert mine.sessions == theirs.sessions
            seen += 1
    assert seen == whole.queries
    assert pq.read_schema(folder / counts_name(0)).metadata.keys() >= {
        b"saferank", b"saferank.split", b"saferank.sessions", b"saferank.ranks",
    }  # fmt: skip


def test_numbers_and_texts_of_the_same_id_meet(tmp_path: Path) -> None:
    tables = write_tables(tmp_path, text=False)
    texts = pq.read_table(tables.counts)
    said = texts.schema.metadata
    place = texts.schema.get_field_index("query_id")
    texts = texts.set_column(place, "query_id", texts["query_id"].cast(pa.string()))
    counts = sr.counts.CountTable.of_arrow(texts.replace_schema_metadata(said))
    sr.logs.shard(tables.items, counts, tmp_path / "shards", shards=3, columns=SKU)
    folder = ShardFolder.open(tmp_path / "shards")
    assert folder.manifest.text
    whole = sum(folder.read(number, ranks=3).counts.total for number in range(3))
    data = sr.data.read_items(tables.items, columns=SKU)
    assert whole == align(sr.counts.CountTable.open(tables.counts), data, ranks=3)[0].total


def refreshed(folder: Path) -> None:
    """Say of the files that they are as they are now."""
    record = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    for number, said in enumerate(record["shards"]):
        said["items_digest"] = digest_of(folder / items_name(number))
        said["counts_digest"] = digest_of(folder / counts_name(number))
        said["documents"] = pq.read_metadata(folder / items_name(number)).num_rows
        said["counts"] = pq.read_metadata(folder / counts_name(number)).num_rows
    (folder / MANIFEST).write_text(json.dumps(record), encoding="utf-8")


def test_a_query_that_is_split_between_shards_is_refused(folder: Path) -> None:
    one, other = (pq.read_table(folder / items_name(number)) for number in (0, 1))
    large = pc.value_counts(one["query_id"]).to_pylist()
    query = next(each["values"] for each in large if each["counts"] > 1)
    place = one["query_id"].to_pylist().index(query)
    moved = pa.concat_tables([other, one.slice(place, 1)])
    pq.write_table(moved, folder / items_name(1))
    pq.write_table(one.filter(pc.not_equal(pa.array(range(len(one))), place)),
                   folder / items_name(0))  # fmt: skip
    refreshed(folder)
    with pytest.raises(InputError, match=rf"each query must be in one shard.*{query}"):
        ShardFolder.open(folder).read(1)


def test_a_column_without_any_value_is_a_feature_that_is_missing(
    tables: Tables, tmp_path: Path
) -> None:
    items = pq.read_table(tables.items)
    path = tmp_path / "items.parquet"
    pq.write_table(items.append_column("empty", pa.nulls(len(items))), path)
    sr.logs.shard(path, tables.counts, tmp_path / "shards", shards=2, columns=SKU)
    shard = ShardFolder.open(tmp_path / "shards").read(0, ranks=1).data
    assert shard.schema.names == sr.data.read_items(path, columns=SKU).schema.names


@pytest.mark.parametrize("name", ["shard", "Shard"])
def test_a_feature_may_have_any_name(tables: Tables, tmp_path: Path, name: str) -> None:
    items = pq.read_table(tables.items)
    numbers = pa.array(np.arange(len(items)) % 5 * 1.5)
    sr.logs.shard(items.append_column(name, numbers), tables.counts, tmp_path / "named",
                  shards=3, columns=SKU)  # fmt: skip
    read = [pq.read_table(tmp_path / "named" / items_name(number))[name] for number in range(3)]
    values = pa.concat_tables([pa.table({"x": column}) for column in read])["x"]
    assert sorted(values.to_pylist()) == sorted(numbers.to_pylist())


def test_a_missing_or_changed_shard_is_refused(folder: Path) -> None:
    shards = ShardFolder.open(folder)
    data = (folder / items_name(2)).read_bytes()
    (folder / items_name(2)).write_bytes(data[:-9] + b"x" + data[-8:])
    with pytest.raises(InputError, match=r"items-0002\.parquet.*changed"):
        shards.read(2)
    (folder / counts_name(3)).unlink()
    with pytest.raises(InputError, match=r"all 4 shards.*without counts-0003.parquet"):
        ShardFolder.open(folder)
    whole = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    short = {**whole, "shards": whole["shards"][:-2]}
    (folder / MANIFEST).write_text(json.dumps(short), encoding="utf-8")
    with pytest.raises(InputError, match=r"2 shards of its shards\.json"):
        ShardFolder.open(folder)
    (folder / MANIFEST).write_text("[]", encoding="utf-8")
    with pytest.raises(InputError, match="must be an object"):
        ShardFolder.open(folder)


def test_bad_tables_are_refused_in_a_sentence(tables: Tables, tmp_path: Path) -> None:
    items = pq.read_table(tables.items)

    def refuse(table: pa.Table, sentence: str, *, shards: int = 2) -> None:
        with pytest.raises(InputError, match=sentence):
            sr.logs.shard(table, tables.counts, tmp_path / "no", shards=shards, columns=SKU)
        assert not (tmp_path / "no").exists()

    shown = pq.read_table(tables.counts)["doc_id"][0]
    refuse(items.filter(pc.not_equal(items["sku"], shown)), "lack .* documents|lack")
    refuse(pa.concat_tables([items, items.slice(3, 1)]), "each document of a query once")
    gap = pa.array([None, *items["query_id"].to_pylist()[1:]])
    refuse(pa.concat_tables([items, items.slice(0, 1).set_column(0, "query_id", gap[:1])]),
           "`query_id` of the items must not be missing; it is in 1 rows")  # fmt: skip
    refuse(items, "few enough that each has a query", shards=500)
    refuse(items, "`shards` must be in 1..4096", shards=0)
    (tmp_path / "items.csv").write_text("query_id,doc_id\n1,1\n", encoding="utf-8")
    for name, sentence in (("items.csv", "`items` must be Parquet to be cut"),
                           ("none.parquet", "`items` must name files that exist")):  # fmt: skip
        with pytest.raises(InputError, match=sentence):
            sr.logs.shard(tmp_path / name, tables.counts, tmp_path / "no")


def test_counts_without_items_are_let_through_when_asked(tables: Tables, tmp_path: Path) -> None:
    items = pq.read_table(tables.items)
    some = items.slice(0, items.num_rows // 2)
    report = sr.logs.shard(
        some, tables.counts, tmp_path / "shards", shards=2, columns=SKU, skip_bad=True
    )
    data = sr.data.read_items(some, columns=SKU)
    _, whole = align(sr.counts.CountTable.open(tables.counts), data, skip_bad=True)
    assert report.unknown_documents == whole.unknown_documents > 0
    folder = ShardFolder.open(tmp_path / "shards")
    shards = [folder.read(number, skip_bad=True) for number in range(2)]
    outside = sum(int(shard.counts.outside.sum()) for shard in shards)
    assert outside == align(sr.counts.CountTable.open(tables.counts), data,
                            skip_bad=True)[0].outside.sum()  # fmt: skip
    with pytest.raises(InputError, match="--skip-bad"):
        folder.read(0)


def test_the_command(tables: Tables, tmp_path: Path) -> None:
    words = ["shard", "--items", tables.items, "--counts", tables.counts, "--shards", 3,
             "--column", "doc_id=sku", "-o", tmp_path / "shards"]  # fmt: skip
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output
    assert "are in 3 shards" in result.output
    assert "Left out: `url` (text of" in result.output
    result = CliRunner().invoke(app, [*map(str, words), "--json"])
    record = json.loads(result.output)
    assert record["documents"] == pq.read_metadata(tables.items).num_rows
    (tmp_path / "shards" / "mine.txt").write_text("kept", encoding="utf-8")
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code != 0
    assert (tmp_path / "shards" / "mine.txt").exists()


def test_features_without_names_and_one_shard(tmp_path: Path) -> None:
    world = sr.data.synthetic("small", queries=20, seed=0).train
    sr.data.write_items(replace(world, production=np.zeros(world.documents)),
                        tmp_path / "items.parquet")  # fmt: skip
    from saferank.counts.counts_file import save_counts

    counts = sr.clicks.simulate(world, np.zeros(world.documents), sr.clicks.trust_bias(),
                                sessions=200, seed=0)  # fmt: skip
    save_counts(counts, world, tmp_path / "counts.parquet")
    sr.logs.shard(tmp_path / "items.parquet", tmp_path / "counts.parquet", tmp_path / "shards",
                  shards=1)  # fmt: skip
    shard = ShardFolder.open(tmp_path / "shards").read(0)
    np.testing.assert_array_equal(shard.data.query_ids, np.arange(20))
    np.testing.assert_array_equal(shard.data.features, world.features)
    assert shard.counts.total == counts.total
