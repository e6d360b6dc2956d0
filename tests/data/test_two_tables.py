"""Items as pairs and documents are the items of the one wide table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from saferank.cli.app import app
from saferank.data import ItemTables, RankingData, read_items
from saferank.data.items import read_groups
from saferank.errors import InputError


def shop(rows: int = 40_000, text: bool = False) -> tuple[pd.DataFrame, pd.DataFrame]:
    """More rows than are read at a time; documents in no order, some that no query finds."""
    rng = np.random.default_rng(0)
    sku = rng.permutation(5000)
    documents = pd.DataFrame({
        "sku": sku.astype(str) if text else sku,
        "price": np.where(rng.random(5000) < 0.1, np.nan, rng.lognormal(3, 1, 5000)),
        "brand": rng.choice(["x", "y", "z"], 5000),
        "added": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 90, 5000), "D"),
    })  # fmt: skip
    query = np.sort(rng.integers(0, rows // 20, rows))
    pairs = pd.DataFrame({
        "term": query, "sku": rng.integers(0, 4500, rows), "bm25": rng.random(rows),
        "production_score": rng.random(rows),
    }).drop_duplicates(["term", "sku"])  # fmt: skip
    return pairs, documents


NAMES = {"query_id": "term", "doc_id": "sku"}


def same(one: RankingData, other: RankingData) -> None:
    assert one.feature_names == other.feature_names
    np.testing.assert_array_equal(one.features, other.features)
    np.testing.assert_array_equal(one.offsets, other.offsets)
    for got, expected in zip(one.ids(), other.ids(), strict=True):
        np.testing.assert_array_equal(got, expected)
    assert one.production is not None
    np.testing.assert_array_equal(one.production, other.production)


def test_two_tables_are_the_wide_one_in_memory_and_in_files(tmp_path: Path) -> None:
    pairs, documents = shop()
    wide = read_items(pairs.merge(documents, on="sku", how="left"), columns=NAMES)
    same(read_items(ItemTables(pairs, documents), columns=NAMES), wide)
    for name, frame in (("pairs", pairs), ("documents", documents)):
        frame.to_parquet(tmp_path / f"{name}.parquet", index=False)
    files = ItemTables(tmp_path / "pairs.parquet", tmp_path / "documents.parquet")
    same(read_items(files, columns=NAMES), wide)
    again = read_items(files, columns=NAMES, schema=wide.schema)
    np.testing.assert_array_equal(again.features, wide.features)


def test_ids_are_compared_as_text_where_one_side_is_text() -> None:
    pairs, documents = shop(200)
    _, as_text = shop(200, text=True)
    same(read_items(ItemTables(pairs, as_text), columns=NAMES),
         read_items(ItemTables(pairs, documents), columns=NAMES))  # fmt: skip


def test_groups_may_be_of_either_table() -> None:
    pairs, documents = shop(2000)
    joined, both = pairs.merge(documents, on="sku", how="left"), ItemTables(pairs, documents)
    items = read_items(both, columns=NAMES)
    got, wide = (read_groups(each, "brand", items, columns=NAMES) for each in (both, joined))
    np.testing.assert_array_equal(got.codes, wide.codes)
    assert got.names == wide.names


@pytest.mark.parametrize(("change", "message"), [
    (lambda d: d[d.sku != 7], "must have every document of the items; 7 is not there"),
    (lambda d: pd.concat([d, d[d.sku == 7]]), "each document once; 7 is there 2 times"),
    (lambda d: d.assign(bm25=1.0), "`bm25` must be a column of the items or of the documents"),
    (lambda d: d.rename(columns={"sku": "id"}), "`documents` must be with a column `sku`"),
])  # fmt: skip
def test_refusals(change: object, message: str) -> None:
    pairs, documents = shop(2000)
    pairs.loc[pairs.index[:1], "sku"] = 7
    pairs = pairs.drop_duplicates(["term", "sku"])
    with pytest.raises(InputError, match=message) as refused:
        read_items(ItemTables(pairs, change(documents)), columns=NAMES)  # type: ignore[operator]
    assert len(str(refused.value)) <= 300


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("query_id,doc_id\n1,1\n")
    pq.write_table(pa.table({"doc_id": [1]}), tmp_path / "documents.parquet")
    with pytest.raises(InputError, match="a Parquet file that exists, where items are two tables"):
        read_items(ItemTables(tmp_path / "items.csv", tmp_path / "documents.parquet"))
    (tmp_path / "broken.parquet").write_text("no")
    with pytest.raises(InputError, match=r"broken\.parquet"):
        read_items(ItemTables(tmp_path / "broken.parquet", tmp_path / "documents.parquet"))


def test_commands_take_both(tmp_path: Path) -> None:
    pairs, documents = shop(400)
    pairs.to_parquet(tmp_path / "pairs.parquet", index=False)
    documents.to_parquet(tmp_path / "documents.parquet", index=False)
    command = ["data", "inspect", str(tmp_path / "pairs.parquet"), "--documents",
               str(tmp_path / "documents.parquet"), "--column", "query_id=term", "--column",
               "doc_id=sku", "--json"]  # fmt: skip
    said = CliRunner().invoke(app, command)
    assert said.exit_code == 0, said.output
    assert '"brand"' in said.output
