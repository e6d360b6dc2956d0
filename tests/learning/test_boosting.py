"""Trees towards every goal: fixed points, files, resuming, and data that is hardly any."""

import builtins
import os
import subprocess
import sys
import textwrap

import lightgbm
import numpy as np
import pytest
from learning.looking import files, quality

from saferank.clicks import simulate, trust_bias
from saferank.counts import Counts
from saferank.data import RankingData, synthetic
from saferank.errors import InputError, MissingExtraError
from saferank.learning import METHODS, Ranker, Settings, learn
from saferank.learning.boosting import Boosting
from saferank.scorers.tree_scorer import TreeScorer

USERS = trust_bias()
WORLD = synthetic("small", queries=80, seed=0)
QUICK = Settings(rounds=15, leaves=7)


def trees_of(ranker: Ranker) -> TreeScorer:
    assert isinstance(ranker.scorer, TreeScorer)
    return ranker.scorer


@pytest.fixture(scope="module")
def production():
    few = WORLD.train.subset(np.arange(20))
    return learn(few, method="skyline", scorer="trees", settings=QUICK, validation=(few, None))


@pytest.fixture(scope="module")
def counts(production):
    return simulate(
        WORLD.train, production.scores(WORLD.train), USERS, sessions=20_000, seed=3, judge=0
    )


@pytest.mark.parametrize("method", METHODS)
def test_every_method_grows_trees_that_plain_lightgbm_loads(method, production, counts, tmp_path):
    ranker = learn(
        WORLD.train, counts, USERS, method=method, production=production, settings=QUICK,
        scorer="trees", seed=1,
    )  # fmt: skip
    scores = ranker.scores(WORLD.test)
    ranker.save(tmp_path / "run")
    own = {"ranker.json", "scorer.txt"}
    behind = set() if ranker.regression is None else {f"regression/{name}" for name in own}
    assert files(tmp_path / "run").keys() == own | behind
    plain = lightgbm.Booster(model_file=tmp_path / "run" / "scorer.txt")
    assert np.array_equal(plain.predict(WORLD.test.features, raw_score=True), scores)
    again = Ranker.load(tmp_path / "run")
    assert np.array_equal(again.scores(WORLD.test), scores)
    assert again.provenance == ranker.provenance
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("method", ["prpo", "prpo-floor"])
def test_delta_one_from_production_adds_nothing(method, production, counts):
    ranker = learn(
        WORLD.train, counts, USERS, method=method, production=production, delta=1.0,
        settings=Settings(rounds=500), scorer="trees",
    )  # fmt: skip
    assert trees_of(ranker).text == trees_of(production).text
    assert ranker.provenance.history["steps"] == [0.0]


def test_delta_one_on_top_of_production_scores_adds_nothing(counts):
    shown = np.random.default_rng(0).normal(size=WORLD.train.documents)
    ranker = learn(
        WORLD.train, counts, USERS, production=shown, start="add", delta=1.0, settings=QUICK,
        scorer="trees", production_kind="sampled",
    )  # fmt: skip
    assert trees_of(ranker).trees == 0
    assert not ranker.scorer.scores(WORLD.test.features).any()


def test_round_zero_is_production_and_later_rounds_go_on_from_it(production, counts):
    shared = {"production": production, "scorer": "trees", "settings": QUICK}
    ranker = learn(WORLD.train, counts, USERS, method="prpo", delta=0.2, **shared)
    assert trees_of(ranker).trees > trees_of(production).trees
    first = trees_of(ranker).booster.predict(
        WORLD.test.features, num_iteration=trees_of(production).trees, raw_score=True
    )
    assert np.array_equal(first, production.scores(WORLD.test))


def test_a_correction_of_production_is_added_to_it(production, counts):
    shown = production.scores(WORLD.train)
    ranker = learn(
        WORLD.train, counts, USERS, method="dr", production=shown, start="add", settings=QUICK,
        scorer="trees",
    )  # fmt: skip
    from dataclasses import replace

    data = replace(WORLD.train, production=shown)
    assert trees_of(ranker).trees > 0
    assert np.array_equal(ranker.scores(data), ranker.scorer.scores(data.features) + shown)


def test_trees_learn_from_labels_and_from_clicks(production):
    settings = Settings(rounds=60, leaves=7)
    skyline = learn(WORLD.train, method="skyline", scorer="trees", settings=settings)
    many = simulate(
        WORLD.train, production.scores(WORLD.train), USERS, sessions=10**7, seed=3, judge=0
    )
    shared = {"production": production, "scorer": "trees", "settings": settings}
    dr, prpo = (learn(WORLD.train, many, USERS, method=m, **shared) for m in ("dr", "prpo"))
    assert quality(skyline, WORLD.test) > quality(production, WORLD.test) + 0.01
    assert min(quality(dr, WORLD.test), quality(prpo, WORLD.test)) > quality(production, WORLD.test)


def test_features_are_taken_as_they_are_unless_told_otherwise(counts):
    plain, scaled = (
        learn(WORLD.train, counts, USERS, method="naive", scorer="trees", settings=QUICK,
              scaling=scaling)
        for scaling in (None, "standard")
    )  # fmt: skip
    assert (plain.scaling.kind, scaled.scaling.kind) == ("none", "standard")


def test_an_interrupted_run_goes_on_where_it_was(production, counts, tmp_path, monkeypatch):
    settings = Settings(rounds=40, leaves=7, patience=100)
    options = {"production": production, "scorer": "trees", "settings": settings, "method": "dr"}
    whole = learn(WORLD.train, counts, USERS, **options)
    look, calls = Boosting._look, []

    def breaking(self, model):
        calls.append(1)
        if len(calls) in (23, 52, 70):
            raise KeyboardInterrupt
        return look(self, model)

    monkeypatch.setattr(Boosting, "_look", breaking)
    for _ in range(4):
        try:
            resumed = learn(
                WORLD.train, counts, USERS, checkpoint=tmp_path / "checkpoints", **options
            )
        except KeyboardInterrupt:
            continue
    whole.save(tmp_path / "whole")
    resumed.save(tmp_path / "resumed")
    assert files(tmp_path / "whole") == files(tmp_path / "resumed")
    assert len(calls) > 70
    assert not (tmp_path / "checkpoints").exists()


def test_same_seed_same_files_whatever_the_threads(tmp_path):
    script = tmp_path / "job.py"
    script.write_text(
        textwrap.dedent("""
        import sys
        import saferank as sr
        import saferank.learning.boosting
        saferank.learning.boosting.SMALL = 0  # so that these few documents are shared too
        world = sr.data.synthetic("small", queries=300, seed=0)
        settings = sr.learning.Settings(rounds=10)
        ranker = sr.learn(world.train, method="skyline", scorer="trees", settings=settings)
        ranker.save(sys.argv[1])
    """)
    )
    found = []
    for threads in ("1", "3"):
        environment = {
            **os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "SAFERANK_THREADS": threads,
            "OMP_WAIT_POLICY": "passive",
        }  # fmt: skip
        subprocess.run([sys.executable, script, tmp_path / threads], check=True, env=environment)
        found.append(files(tmp_path / threads))
    assert found[0] == found[1]


NOISE = np.random.default_rng(0).normal(size=(90, 3))
CUTS = np.arange(0, 91, 9)
ONE = RankingData(NOISE, [0, 90], labels=np.arange(90) % 3)
SINGLES = RankingData(NOISE, np.arange(91), labels=np.ones(90))
FLAT = RankingData(np.ones((90, 3)), CUTS, labels=np.arange(90) % 2)
UNLABELLED = RankingData(NOISE, CUTS)
IRRELEVANT = RankingData(NOISE, CUTS, labels=np.zeros(90))


@pytest.mark.parametrize("data", [ONE, SINGLES, FLAT, UNLABELLED])
@pytest.mark.parametrize("method", ["ips", "dr", "safe-dr", "prpo", "prpo-floor", "crm"])
def test_degenerate_data_gives_a_finite_ranker(data, method):
    shown = np.zeros(data.documents)
    seen = data if data.labels is not None else RankingData(NOISE, CUTS, labels=np.ones(90))
    log = simulate(seen, shown, USERS, sessions=200, seed=0, judge=0)
    options = {"method": method, "production": shown, "settings": QUICK, "scorer": "trees"}
    ranker = learn(data, log, USERS, **options)
    assert np.isfinite(ranker.scores(data)).all()
    silent = Counts(log.offsets, log.impressions, np.zeros_like(log.clicks))
    with pytest.raises(InputError, match="at least one click"):
        learn(data, silent, USERS, **options)


@pytest.mark.parametrize("data", [SINGLES, IRRELEVANT])
def test_nothing_to_learn_grows_no_tree(data):
    ranker = learn(data, method="skyline", scorer="trees", settings=QUICK)
    assert trees_of(ranker).trees == 0
    assert not ranker.scores(data).any()


def test_without_lightgbm_the_message_says_how_to_get_it(monkeypatch):
    real = builtins.__import__

    def absent(name, *rest):
        if name == "lightgbm":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingExtraError, match=r"pip install 'saferank\[boosting\]'"):
        learn(WORLD.train, method="skyline", scorer="trees", settings=QUICK)


def test_rankers_do_not_import_lightgbm():
    code = "import sys, saferank.learning; assert 'lightgbm' not in sys.modules"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("tree\n", "shrub\n", "a LightGBM model's text"),
        ("max_feature_idx=23", "max_feature_idx=22", "`feature_names` must be 23 words"),
        ("max_feature_idx=23", "max_feature_idx=9999999999", "`max_feature_idx` must be in"),
        ("left_child=1", "left_child=0", "a later node or a leaf"),
        ("left_child=1", "left_child=77", "a later node or a leaf"),
        ("num_leaves=7", "num_leaves=8", "must be complete"),
        ("num_leaves=7", "num_leaves=x", "`num_leaves` must be a whole number"),
        ("split_feature=", "split_feature=99", "split_feature` must be in"),
        ("num_cat=0", "num_cat=1", "numeric splits"),
        ("is_linear=0", "is_linear=1", "constant leaves"),
        ("num_tree_per_iteration=1", "num_tree_per_iteration=2", "of one score"),
    ],
)
def test_a_tampered_model_is_refused(production, tmp_path, old, new, sentence):
    production.save(tmp_path / "run")
    path = tmp_path / "run" / "scorer.txt"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=sentence):
        Ranker.load(tmp_path / "run")


def test_production_may_be_a_model_that_lightgbm_trained(tmp_path):
    train, test = WORLD.train, WORLD.test
    theirs = lightgbm.train(
        {"objective": "lambdarank", "num_leaves": 7, "verbosity": -1},
        lightgbm.Dataset(train.features, label=train.labels.astype(int), group=train.sizes),
        num_boost_round=5,
    )
    theirs.save_model(tmp_path / "model.txt")
    production = Ranker.load(tmp_path / "model.txt")
    shown = production.scores(test)
    assert np.array_equal(shown, theirs.predict(test.features, raw_score=True))
    clicks = simulate(train, production.scores(train), USERS, sessions=20_000, seed=3, judge=0)
    kept, changed = (
        learn(train, clicks, USERS, production=production, scorer="trees", settings=QUICK,
              method="prpo", delta=delta)
        for delta in (1.0, 0.01)
    )  # fmt: skip
    assert np.array_equal(kept.scores(test), shown)
    assert quality(changed, WORLD.test) > quality(production, WORLD.test)
    first = trees_of(changed).booster.predict(test.features, raw_score=True, num_iteration=5)
    assert np.array_equal(first, shown)


def test_a_model_that_is_too_large_or_no_text_is_refused(production, tmp_path, monkeypatch):
    path = tmp_path / "model.txt"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="must be a LightGBM model's text"):
        TreeScorer.read(path)
    monkeypatch.setattr("saferank.scorers.tree_scorer._LARGEST", 2)
    with pytest.raises(InputError, match="at most 2 bytes; got 3"):
        TreeScorer.read(path)


def test_bad_settings_are_one_sentence():
    for options, sentence in (
        ({"shrinkage": 0}, r"`shrinkage` must be in \(0, 1\]"),
        ({"curvature": "round"}, "`curvature` must be one of gradient"),
    ):
        with pytest.raises(InputError, match=sentence):
            Settings(**options)
