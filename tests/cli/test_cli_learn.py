import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from saferank.cli.app import app
from saferank.clicks import simulate, trust_bias
from saferank.counts.counts_file import save_counts
from saferank.data import read_items, synthetic, write_items
from saferank.errors import InputError
from saferank.learning import Ranker


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("learn")
    train = synthetic("small", queries=30, seed=0).train
    shown = np.random.default_rng(0).normal(size=train.documents)
    write_items(replace(train, production=shown), place / "items.parquet")
    items = read_items(place / "items.parquet")
    counts = simulate(items, items.production, trust_bias(), sessions=2000, seed=0, judge=0)
    save_counts(counts, items, place / "counts.parquet")
    return place


def run(folder, *options):
    arguments = ["learn", "--items", folder / "items.parquet", *options]
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)


def test_learn_writes_a_ranker_with_its_promise(folder, tmp_path):
    counts = ("--counts", folder / "counts.parquet")
    result = run(folder, *counts, "--keep", 0.9, "--steps", 50, "-o", tmp_path / "run", "--json")
    told = json.loads(result.stdout)
    assert result.exit_code == 0
    assert told["promise"] == "keep 0.9, slack 0.01"
    assert told["sessions learned from"] == 2000
    assert told["method"] == "keep"
    assert 0 < told["way from production that it allows"] <= 1
    assert told["share of queries that keep it by themselves"] == 1
    assert not any("By itself" in note for note in told["notes"])
    assert any("items need that score wherever it is served" in note for note in told["notes"])
    ranker = Ranker.load(tmp_path / "run")
    items = read_items(folder / "items.parquet")
    with pytest.raises(InputError, match="this ranker adds to them"):
        ranker.scores(replace(items, production=None))
    assert ranker.scores(items).shape == (items.documents,)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
    shown = run(
        folder, *counts, "--method", "dr", "--regression", "cross-entropy", "--steps", 50,
        "-o", tmp_path / "dr",
    )  # fmt: skip
    assert "Written to" in shown.stdout
    assert Ranker.load(tmp_path / "dr").provenance.recipe["regression"] == "cross-entropy"
    started = run(
        folder, *counts, "--production", tmp_path / "dr", "--delta", "1", "--steps", 50,
        "--production-policy", "sampled", "-o", tmp_path / "same",
    )  # fmt: skip
    assert started.exit_code == 0
    same, production = (Ranker.load(tmp_path / name).scores(items) for name in ("same", "dr"))
    assert np.array_equal(same, production)


def test_where_production_sorts_learn_says_that_the_promise_needs_the_guard(folder, tmp_path):
    result = run(
        folder, "--counts", folder / "counts.parquet", "--keep", 0.9, "--steps", 50,
        "--production-policy", "sorted", "-o", tmp_path / "run", "--json",
    )  # fmt: skip
    told = json.loads(result.stdout)
    assert told["share of queries that keep it by themselves"] < 1
    assert any("serve it with the guard" in note for note in told["notes"])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "`--counts` must be given"),
        (("--counts", "nothing.parquet"), "a Parquet file that exists"),
        (("--method", "magic", "--counts", "{}/counts.parquet"), "`method` must be one of"),
        (("--bias", "magic", "--counts", "{}/counts.parquet"), "a bias.json that exists or one of"),
        (
            ("--method", "dr", "--keep", "0.9", "--counts", "{}/counts.parquet"),
            "`keep` must be used with keep or prpo-floor",
        ),
        (("--validation-items", "x", "--counts", "{}/counts.parquet"), "items and counts together"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(folder, tmp_path, options, sentence):
    given = [str(option).format(folder) for option in options]
    with pytest.raises(InputError, match=sentence):
        run(folder, *given, "-o", tmp_path / "run")
    assert not list(tmp_path.iterdir())
