"""From items with names, gaps and kinds of their own to rankings, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import saferank as sr
from saferank.cli.app import app
from saferank.counts.counts_file import save_counts
from saferank.errors import InputError

COLUMNS = ("--column", "query_id=search term", "--column", "doc_id=SKU",
           "--column", "production_score=prod score")  # fmt: skip


def shop() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = 30 * 8
    price = np.exp(rng.normal(3, 1, rows))
    price[rng.random(rows) < 0.2] = np.nan
    return pd.DataFrame({
        "search term": np.repeat([f"term {n}" for n in range(30)], 8),
        "SKU": [f"A-{n}" for n in range(rows)],
        "Preis (EUR)": price,
        "BM25": rng.normal(size=rows),
        "Marke": rng.choice(["acme", "bolt", "core"], rows),
        "prod score": rng.normal(size=rows),
    })  # fmt: skip


def write(items: pd.DataFrame, path: Path) -> Path:
    pq.write_table(pa.Table.from_pandas(items, preserve_index=False), path)
    return path


def call(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code in (0, 3), result.output
    return result.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("shop")
    write(shop(), place / "items.parquet")
    names = {"query_id": "search term", "doc_id": "SKU", "production_score": "prod score"}
    items = sr.data.read_items(place / "items.parquet", columns=names)
    users = sr.clicks.position_bias()
    relevance = sr.data.RankingData(
        items.features, items.offsets, labels=(items.features[:, 1] > 0).astype(float),
        query_ids=items.query_ids, doc_ids=items.doc_ids,
    )  # fmt: skip
    counts = sr.clicks.simulate(relevance, items.production, users, sessions=4000, seed=0)
    save_counts(counts, items, place / "counts.parquet")
    return place


@pytest.mark.parametrize("scorer", ["linear", "trees"])
def test_the_whole_way(folder: Path, tmp_path: Path, scorer: str) -> None:
    items, counts = folder / "items.parquet", folder / "counts.parquet"
    run = tmp_path / "run"
    told = call(
        "learn", "--items", items, *COLUMNS, "--counts", counts, "--bias", "position-bias",
        "--method", "dr", "--scorer", scorer, "--steps", 30, "--rounds", 10, "-o", run,
    )  # fmt: skip
    assert "3 features: 2 numbers, 1 category; 1 of them with missing values." in told
    expected = json.loads(call("rank", run, "--items", items, *COLUMNS, "--sorted"))
    assert {row["query_id"] for row in expected} == set(shop()["search term"])
    call("certify", run, "--items", items, *COLUMNS, "--sorted")
    backwards = shop()[sorted(shop().columns, reverse=True)].assign(colour="red", weight=1.0)
    write(backwards, tmp_path / "backwards.parquet")
    result = CliRunner().invoke(
        app, [str(a) for a in ("rank", run, "--items", tmp_path / "backwards.parquet", *COLUMNS)]
    )
    assert json.loads(result.stdout) == expected
    assert "does not know these columns, which are left out: `colour`, `weight`" in result.stderr
    write(shop().drop(columns="BM25"), tmp_path / "less.parquet")
    with pytest.raises(InputError, match="every feature of the ranker; missing: `BM25`"):
        call("rank", run, "--items", tmp_path / "less.parquet", *COLUMNS)
    renamed = ("--column", "BM25=bm25")
    write(shop().rename(columns={"BM25": "bm25"}), tmp_path / "renamed.parquet")
    again = call("rank", run, "--items", tmp_path / "renamed.parquet", *COLUMNS, *renamed)
    assert json.loads(again) == expected


def test_the_bias_by_features_and_the_check_of_the_log(folder: Path, tmp_path: Path) -> None:
    items, counts = folder / "items.parquet", folder / "counts.parquet"
    call("bias", counts, "--items", items, *COLUMNS, "--kind", "position",
         "-o", tmp_path / "bias.json")  # fmt: skip
    assert len(json.loads((tmp_path / "bias.json").read_text())["alpha"]) == 5
    own = [word.replace("--column", "--item-column") for word in COLUMNS]
    told = json.loads(call("logs", "check", counts, "--items", items, *own, "--json"))
    assert told["alignment"]["documents"] == 240


def test_a_group_that_is_a_feature_is_told_and_can_be_left_out(
    folder: Path, tmp_path: Path
) -> None:
    items, counts = folder / "items.parquet", folder / "counts.parquet"
    shared = ("--items", items, *COLUMNS, "--counts", counts)
    learn = ("learn", *shared, "--group", "Marke", "--bias", "position-bias", "--scorer", "linear",
             "--steps", 5)  # fmt: skip
    note = "`Marke` names the groups and is a feature, too: the ranker sees it. --leave-out Marke"
    seen = call(*learn, "-o", tmp_path / "seen")
    assert seen.count(note) == 1
    assert "--column 'query_id=search term' --column doc_id=SKU" in seen
    notes = json.loads(call(*learn, "--json", "-o", tmp_path / "json"))["notes"]
    assert sum(note in one for one in notes) == 1
    run = tmp_path / "unseen"
    unseen = call(*learn, "--leave-out", "Marke", "-o", run)
    assert "names the groups" not in unseen
    assert "Left out: `Marke` (as you asked)." in unseen
    assert sr.load(run).features.names == ("Preis (EUR)", "BM25")
    renamed = write(shop().assign(Marke="acme"), tmp_path / "renamed.parquet")
    plain = [call("rank", run, "--items", path, *COLUMNS, "--sorted") for path in (items, renamed)]
    assert plain[0] == plain[1]
    call("certify", run, *shared, "--group", "Marke", "--floor", 0.5, "--guard")
    ranked = call("rank", run, "--items", items, *COLUMNS, "--group", "Marke", "--guard")
    assert {row["query_id"] for row in json.loads(ranked)} == set(shop()["search term"])


def test_groups_beside_a_list_of_features(folder: Path, tmp_path: Path) -> None:
    rows = shop()
    lists = rows[["search term", "SKU", "Marke", "prod score"]].assign(
        features=rows[["Preis (EUR)", "BM25"]].to_numpy().tolist()
    )
    items, counts = write(lists, tmp_path / "lists.parquet"), folder / "counts.parquet"
    shared = ("--items", items, *COLUMNS, "--group", "Marke")
    run = tmp_path / "run"
    told = call("learn", *shared, "--counts", counts, "--bias", "position-bias", "--scorer",
                "linear", "--steps", 5, "--fairness", "parity", "-o", run)  # fmt: skip
    assert "names the groups" not in told
    call("certify", run, *shared, "--counts", counts, "--floor", 0.9, "--guard")
    call("rank", run, *shared, "--guard")
