"""A shop's files are as a company's: odd, gappy, and the same for the same seed."""

import doctest
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import benchmarks.shops
import benchmarks.shops.lists
from benchmarks.shops import Shop, build
from benchmarks.shops.cleaning import clean_items, clean_log

SHOP = Shop(seed=2, queries=30, sessions=800, bots=0.05, delisted=0.1, rank_from=0, k=5)


@pytest.fixture(scope="module")
def world():
    return build(SHOP)


def rows_of(log):
    columns = [log[name].to_pylist() for name in ("search term", "SKU", "Pos.", "clicked?")]
    return list(zip(*columns, strict=True))


def test_items_have_features_of_every_kind(world, tmp_path):
    files = world.write(tmp_path)
    items = pq.read_table(files.items)
    features = [n for n in items.column_names if n not in files.item_columns.values()]
    assert len(features) == 25
    kinds = {str(items.schema.field(name).type) for name in features}
    assert {"double", "int32", "bool", "string", "date32[day]"} == kinds
    assert items["Preis (EUR)"].null_count > 0
    assert items["Warengruppe"].null_count > 0
    assert items["prod score"].null_count == 0
    assert items.num_rows == world.catalogue.listed.sum() == world.truth.relevance.size


def test_the_log_has_every_shown_document_in_the_order_of_time(world, tmp_path):
    files = world.write(tmp_path)
    log = pq.read_table(files.log)
    assert log.num_rows == world.sessions.rows
    assert set(log["Pos."].to_pylist()) == {0, 1, 2, 3, 4}
    assert sum(row[3] for row in rows_of(log)) == world.sessions.clicks.sum()
    seconds = log["ts"].to_numpy()
    assert (np.diff(seconds) >= np.timedelta64(0)).all()
    assert len(set(log["request.id"].to_pylist())) == SHOP.sessions


def test_delisted_products_are_in_the_log_and_not_among_the_items(world, tmp_path):
    files = world.write(tmp_path)
    log, items = pq.read_table(files.log), pq.read_table(files.items)
    sold = set(zip(items["search term"].to_pylist(), items["SKU"].to_pylist(), strict=True))
    shown = {row[:2] for row in rows_of(log)}
    gone = shown - sold
    assert 0.02 < len(gone) / len(shown) < 0.2
    assert len(sold) == items.num_rows


def test_robots_click_nearly_everything(world):
    sessions = world.sessions
    assert 0.02 < sessions.bot.mean() < 0.1
    assert sessions.clicks[sessions.bot].mean() > 0.9 > 0.5 > sessions.clicks[~sessions.bot].mean()


def test_ids_lead_back_to_the_truth(world, tmp_path):
    items = pq.read_table(world.write(tmp_path).items)
    ids = items["search term"].to_pylist(), items["SKU"].to_pylist()
    query, place = world.positions(*ids)
    assert sorted(place.tolist()) == list(range(items.num_rows))
    assert (query == np.searchsorted(world.truth.offsets, place, side="right") - 1).all()
    score = world.in_order(*ids, items["prod score"].to_numpy())
    np.testing.assert_array_equal(score, world.catalogue.weekly_scores[-1][world.catalogue.listed])
    with pytest.raises(ValueError, match="have no value"):
        world.in_order(ids[0][1:], ids[1][1:], np.zeros(items.num_rows - 1))


@pytest.mark.parametrize("layout", ["parquet", "weekly", "csv"])
def test_cleaned_files_say_the_same_in_the_usual_form(world, tmp_path, layout):
    shop = Shop(**{**SHOP.to_dict(), "layout": layout})
    files = build(shop).write(tmp_path)
    items = pq.read_table(clean_items(files, tmp_path / "clean.parquet"))
    assert {"query_id", "doc_id", "production_score", "Warengruppe"} <= set(items.column_names)
    assert all(column.null_count == 0 for column in items.columns)
    numbers = [field for field in items.schema if field.name not in ("query_id", "doc_id")]
    assert {field.type for field in numbers} == {pa.float64()}
    score = world.in_order(items["query_id"], items["doc_id"], items["production_score"])
    np.testing.assert_allclose(score, world.catalogue.weekly_scores[-1][world.catalogue.listed])
    log = pq.read_table(clean_log(files, tmp_path / "log-clean.parquet"))
    assert log.num_rows == world.sessions.rows
    assert sorted(set(log["rank"].to_pylist())) == [1, 2, 3, 4, 5]
    assert sum(log["click"].to_pylist()) == world.sessions.clicks.sum()


def test_the_same_seed_gives_the_same_files(tmp_path):
    texts = []
    for name in ("one", "two"):
        files = build(SHOP).write(tmp_path / name)
        texts.append([Path(path).read_bytes() for path in (files.items, files.log)])
    assert texts[0] == texts[1]
    other = build(Shop(**{**SHOP.to_dict(), "seed": 3})).write(tmp_path / "other")
    assert Path(other.log).read_bytes() != texts[0][1]


def test_production_is_as_good_as_asked():
    for quality in (0.1, 0.5, 0.9):
        world = build(Shop(quality=quality, queries=200, sessions=10))
        wanted = np.log(world.catalogue.relevance / (1 - world.catalogue.relevance))
        correlation = np.corrcoef(wanted, world.catalogue.weekly_scores[0])[0, 1]
        assert correlation == pytest.approx(quality, abs=1e-9)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="production must be one of"):
        Shop(production="random")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="products must be two growing sizes"):
        Shop(products=(9, 3))


@pytest.mark.parametrize("module", [benchmarks.shops, benchmarks.shops.lists])
def test_examples(module):
    assert doctest.testmod(module).failed == 0
