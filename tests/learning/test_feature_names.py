"""Columns permuted, renamed, dropped, added: right or refused, for networks and trees.

Every ranker is asked as it was learned and as it is loaded again, with ranking data, with files
and with tables in memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import saferank as sr
from saferank.counts import Counts
from saferank.data import RankingData, read_items
from saferank.data.features import FeatureSchema
from saferank.data.matching import match_features
from saferank.errors import InputError, InputWarning
from saferank.learning import Ranker, Settings
from saferank.scorers.tree_scorer import TreeScorer

QUERIES, LENGTH = 30, 8
QUICK = Settings(steps=30, rounds=15, min_validation_interval=10)
BRANDS = np.array(["acme", "bolt", "core, ltd", "d:e", None], dtype=object)


def frame(seed: int = 0) -> pd.DataFrame:
    """Items of a shop: odd names, gaps, a category, a boolean, a date; rows in no order."""
    rng = np.random.default_rng(seed)
    rows = QUERIES * LENGTH
    price = np.round(np.exp(rng.normal(3, 1, rows)), 2)
    price[rng.random(rows) < 0.2] = np.nan
    items = pd.DataFrame({
        "query_id": np.repeat([f"q{n}" for n in range(QUERIES)], LENGTH),
        "doc_id": np.arange(rows),
        "Preis (EUR)": price,
        "sim(q,title)": rng.normal(size=rows),
        "# reviews": rng.integers(0, 500, rows),
        "in stock": rng.random(rows) < 0.8,
        "listed-on": pd.to_datetime("2026-01-01") - pd.to_timedelta(rng.integers(0, 90, rows), "D"),
        "Marke": BRANDS[rng.choice(5, rows, p=[0.4, 0.3, 0.15, 0.1, 0.05])],
    })  # fmt: skip
    return items.sample(frac=1, random_state=seed)


def learned(scorer: str) -> Ranker:
    items = read_items(frame())
    users = sr.clicks.position_bias()
    good = np.nan_to_num(items.features[:, 1]) + 2 * (items.features[:, 5] == 1)
    good = good - np.nan_to_num(items.features[:, 0]) / 50
    items = replace(items, labels=np.clip(np.round(good + 2), 0, 4))
    shown = np.zeros(items.documents)
    counts = sr.clicks.simulate(items, shown, users, sessions=3000, seed=0)
    return sr.learn(
        items, counts, users, method="dr", production=shown, scorer=scorer, settings=QUICK
    )


@pytest.fixture(scope="module", params=["linear", "mlp", "trees"])
def rankers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Ranker]:
    """A ranker as it was learned, and as it is loaded again."""
    ranker = learned(request.param)
    folder = tmp_path_factory.mktemp("run") / "run"
    ranker.save(folder)
    return {"learned": ranker, "loaded": Ranker.load(folder)}


def in_memory(table: pd.DataFrame, folder: Path, ranker: Ranker) -> np.ndarray:
    del folder
    return by_document(table, ranker.scores(table))


def as_data(table: pd.DataFrame, folder: Path, ranker: Ranker) -> np.ndarray:
    del folder
    data = read_items(table)
    return ranker.scores(data)[np.argsort(data.doc_ids)]


def from_parquet(table: pd.DataFrame, folder: Path, ranker: Ranker) -> np.ndarray:
    pq.write_table(pa.Table.from_pandas(table, preserve_index=False), folder / "items.parquet")
    data = read_items(folder / "items.parquet", schema=ranker.features)
    return ranker.scores(data)[np.argsort(data.doc_ids)]


def from_csv(table: pd.DataFrame, folder: Path, ranker: Ranker) -> np.ndarray:
    pa_csv.write_csv(pa.Table.from_pandas(table, preserve_index=False), folder / "items.csv")
    data = read_items(folder / "items.csv", schema=ranker.features)
    return ranker.scores(data)[np.argsort(data.doc_ids)]


def by_document(table: pd.DataFrame, scores: np.ndarray) -> np.ndarray:
    return scores[np.argsort(table["doc_id"].to_numpy())]


WAYS: dict[str, Callable[[pd.DataFrame, Path, Ranker], np.ndarray]] = {
    "table": in_memory, "data": as_data, "parquet": from_parquet, "csv": from_csv,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::saferank.errors.InputWarning")
@pytest.mark.parametrize("way", WAYS)
def test_permuted_and_added_columns_change_no_bit(
    rankers: dict[str, Ranker], way: str, tmp_path: Path
) -> None:
    items = frame()
    expected = by_document(items, rankers["learned"].scores(read_items(items))[inverse(items)])
    assert len(set(expected.tolist())) > 20, "the ranker has learned something"
    permuted = items[sorted(items.columns, reverse=True)]
    added = permuted.assign(a_title="x", z_weight=1.5, b_day=pd.Timestamp("2026-01-01"))
    for table in (items, permuted, added):
        for ranker in rankers.values():
            assert WAYS[way](table, tmp_path, ranker).tobytes() == expected.tobytes()


def inverse(items: pd.DataFrame) -> np.ndarray:
    """The place of each row of the table among the documents of its ranking data."""
    documents = read_items(items).doc_ids.tolist()
    return np.array([documents.index(name) for name in items["doc_id"]])


@pytest.mark.parametrize("way", WAYS)
def test_renamed_and_dropped_columns_are_refused(
    rankers: dict[str, Ranker], way: str, tmp_path: Path
) -> None:
    items = frame()
    for name in ("Preis (EUR)", "Marke"):
        for table in (items.drop(columns=name), items.rename(columns={name: "other"})):
            for ranker in rankers.values():
                with pytest.raises(InputError, match="missing: `") as raised:
                    WAYS[way](table, tmp_path, ranker)
                assert f"`{name}`" in str(raised.value)


def test_a_renamed_column_is_named_with_columns(rankers: dict[str, Ranker]) -> None:
    items = frame()
    renamed = items.rename(columns={"Preis (EUR)": "price", "query_id": "term"})
    for ranker in rankers.values():
        data = read_items(
            renamed, columns={"Preis (EUR)": "price", "query_id": "term"}, schema=ranker.features
        )
        assert ranker.scores(data).tobytes() == ranker.scores(read_items(items)).tobytes()


def test_unknown_columns_of_a_table_are_told(rankers: dict[str, Ranker]) -> None:
    more = frame().assign(colour="red", weight=2.0)
    for ranker in rankers.values():
        with pytest.warns(InputWarning, match="which are left out: `colour`, `weight`"):
            ranker.scores(more)
        assert ranker.differences(read_items(frame())) == []


def test_categories_are_known_by_their_text(rankers: dict[str, Ranker]) -> None:
    """With other frequencies a category has another code; with other rows, none that is known."""
    items = frame()
    few = items[items["Marke"].isin(["d:e", "core, ltd"])]
    new = items.assign(Marke="unheard of")
    rare = items.assign(Marke="d:e")
    for ranker in rankers.values():
        whole = pd.Series(ranker.scores(items), index=items["doc_id"])
        part = pd.Series(ranker.scores(few), index=few["doc_id"])
        np.testing.assert_allclose(part, whole[part.index], rtol=1e-5, atol=1e-6)
        assert np.isfinite(ranker.scores(new)).all()
        assert (
            ranker.scores(read_items(new)).tobytes()
            == ranker.scores(read_items(new, schema=ranker.features)).tobytes()
        )
        assert not np.array_equal(ranker.scores(rare), ranker.scores(items))


def test_missing_values_are_scored_even_where_training_had_none(
    rankers: dict[str, Ranker],
) -> None:
    items = frame()
    gaps = items.assign(**{"sim(q,title)": np.nan, "Marke": None, "Preis (EUR)": None})
    for ranker in rankers.values():
        told = r"did not have are taken for (0|the mean of training): `sim\(q,title\)`\."
        with pytest.warns(InputWarning, match=told):
            scores = ranker.scores(gaps)
        assert ranker.differences(read_items(items)) == []
        assert np.isfinite(scores).all()
        assert scores.tobytes() == ranker.scores(read_items(gaps))[inverse(gaps)].tobytes()


def test_a_feature_of_another_kind_is_refused(rankers: dict[str, Ranker]) -> None:
    items = frame()
    for ranker in rankers.values():
        with pytest.raises(InputError, match=r"title\)` must be a number.*got a category"):
            ranker.scores(read_items(items.assign(**{"sim(q,title)": "high"})))
        with pytest.raises(InputError, match=r"`listed-on` must be a date.*got a number"):
            ranker.scores(read_items(items.assign(**{"listed-on": 3})))


def test_rankings_come_as_a_table_with_scores(rankers: dict[str, Ranker]) -> None:
    items = frame()
    for ranker in rankers.values():
        scored = items.assign(score=ranker.scores(items))
        table = ranker.ranking(items).to_pandas()
        assert table.columns.tolist() == ["query_id", "doc_id", "rank", "score"]
        best = scored.sort_values("score", ascending=False, kind="stable").groupby("query_id")
        for query, rows in table.groupby("query_id"):
            own = best.get_group(query).head(ranker.k)
            assert rows["score"].tolist() == own["score"].tolist()
            assert rows["rank"].tolist() == list(range(1, ranker.k + 1))


def test_the_names_are_in_the_text_of_trees(tmp_path: Path) -> None:
    import lightgbm

    ranker, items = learned("trees"), frame()
    ranker.save(tmp_path / "run")
    text = tmp_path / "run" / "scorer.txt"
    theirs = lightgbm.Booster(model_file=text)
    assert theirs.feature_name() == [
        "Preis_(EUR)", "sim(q_title)", "#_reviews", "in_stock", "listed-on", "Marke"
    ]  # fmt: skip
    data = read_items(items)
    scores = theirs.predict(data.features.astype(np.float64), raw_score=True)
    assert np.array_equal(scores, ranker.scores(data))
    # the file alone knows names, but neither dates nor categories: it takes numbers
    alone = Ranker.load(text)
    with pytest.raises(InputError, match="`listed-on` must be a number"):
        alone.scores(data)
    numbers = pd.DataFrame(data.features, columns=data.feature_names)
    numbers = numbers[sorted(numbers.columns, reverse=True)]
    ids = {"query_id": np.repeat(data.query_ids, LENGTH), "doc_id": data.doc_ids}
    assert np.array_equal(alone.scores(read_items(numbers.assign(**ids))), scores)
    with pytest.raises(InputError, match="missing: `Preis_"):
        alone.scores(read_items(items.drop(columns="Preis (EUR)")))


def test_trees_see_gaps_themselves(tmp_path: Path) -> None:
    """A tree may split missing values from all others: no filling in between."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=400)
    values[rng.random(400) < 0.5] = np.nan
    items = RankingData(
        values[:, None], np.arange(0, 401, 10), labels=np.isnan(values), feature_names=("x",)
    )
    ranker = sr.learn(items, method="skyline", scorer="trees", settings=QUICK)
    ranker.save(tmp_path / "run")
    scores = Ranker.load(tmp_path / "run").scores(items)
    assert scores[np.isnan(values)].min() > scores[~np.isnan(values)].max()


def test_rankers_of_format_one_know_numbers_only(
    rankers: dict[str, Ranker], tmp_path: Path
) -> None:
    """Without names they work by position, and only with items that have none either."""
    data = RankingData(np.random.default_rng(0).normal(size=(60, 4)), np.arange(0, 61, 6),
                       labels=np.arange(60) % 3)  # fmt: skip
    ranker = sr.learn(data, method="skyline", scorer="linear", settings=QUICK)
    ranker.save(tmp_path / "run")
    path = tmp_path / "run" / "ranker.json"
    record = json.loads(path.read_text())
    del record["features"], record["scaling"]["encoding"]
    path.write_text(json.dumps({**record, "format": 1}))
    old = Ranker.load(tmp_path / "run")
    assert old.features == FeatureSchema.numbered(4)
    assert old.scores(data).tobytes() == ranker.scores(data).tobytes()
    with pytest.raises(InputError, match="knows its 4 features by their numbers only"):
        old.scores(replace(data, feature_names=tuple("abcd"), schema=None))
    with pytest.raises(InputError, match="must have 4 features; got 3"):
        old.scores(RankingData(data.features[:, :3], data.offsets))
    with pytest.raises(InputError, match="must have the names of the ranker's features"):
        rankers["loaded"].scores(data)


@pytest.mark.parametrize("scorer", ["linear", "trees"])
def test_learning_goes_on_from_production_by_names(scorer: str) -> None:
    """Production's model knows the columns in another order, and one column less."""
    first = learned(scorer)
    items = frame(1)
    later = read_items(items[sorted(items.columns)].assign(extra=1.0))
    users = sr.clicks.position_bias()
    counts = sr.clicks.simulate(
        replace(later, labels=np.arange(later.documents, dtype=np.float32) % 3),
        first.scores(later), users, sessions=2000, seed=1,
    )  # fmt: skip
    changed = sr.learn(
        later, counts, users, method="prpo", production=first, production_kind="sampled",
        scorer=scorer, settings=QUICK,
    )  # fmt: skip
    assert changed.features == first.features
    assert np.isfinite(changed.scores(later)).all()


def test_validation_is_matched_by_names() -> None:
    items = read_items(frame())
    items = replace(items, labels=np.arange(items.documents, dtype=np.float32) % 3)
    other = read_items(frame(1)[sorted(frame(1).columns)])
    other = replace(other, labels=np.arange(other.documents, dtype=np.float32) % 3)
    ranker = sr.learn(
        items, method="skyline", scorer="linear", settings=QUICK, validation=(other, None)
    )
    again = sr.learn(
        items, method="skyline", scorer="linear", settings=QUICK,
        validation=(match_features(other, items.schema), None),
    )  # fmt: skip
    assert ranker.scores(items).tobytes() == again.scores(items).tobytes()
    with pytest.raises(InputError, match="missing: `Marke`"):
        sr.learn(
            items, method="skyline", scorer="linear", settings=QUICK,
            validation=(replace(read_items(frame(1).drop(columns="Marke")),
                                labels=other.labels), None),
        )  # fmt: skip


def test_senseless_input_is_refused() -> None:
    items = read_items(frame())
    users = sr.clicks.position_bias()
    counts = sr.clicks.simulate(
        replace(items, labels=np.ones(items.documents, dtype=np.float32)),
        np.zeros(items.documents), users, sessions=500, seed=0,
    )  # fmt: skip
    silent = Counts(counts.offsets, counts.impressions, np.zeros_like(counts.clicks))
    with pytest.raises(InputError, match="`counts` must be of at least one click"):
        sr.learn(items, silent, users, method="dr", settings=QUICK)
    bare = RankingData(np.zeros((items.documents, 0)), items.offsets)
    with pytest.raises(InputError, match="`items` must be documents with at least one feature"):
        sr.learn(bare, counts, users, method="dr", settings=QUICK)


def test_trees_of_no_name_keep_lightgbms_own() -> None:
    assert TreeScorer.empty(2).forest.names == ("Column_0", "Column_1")
    assert TreeScorer.empty(2).features.is_numbered


def test_scores_of_a_table_are_in_its_order(rankers: dict[str, Ranker]) -> None:
    items: Any = frame()
    ranker = rankers["learned"]
    one_by_one = [ranker.scores(items.iloc[[row]])[0] for row in range(0, len(items), 40)]
    np.testing.assert_allclose(ranker.scores(items)[::40], one_by_one, rtol=1e-5)
