"""When to stop with few queries: by all of them in turn, not by the few that would be held out."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from saferank._core.seeds import generator
from saferank.clicks import simulate, trust_bias
from saferank.data import RankingData, synthetic
from saferank.learning import Settings, fit_relevance, learn
from saferank.learning.boosting import Boosting
from saferank.learning.descent import History, Training
from saferank.learning.problem import Log, labelled
from saferank.learning.recipe import METHODS
from saferank.learning.stopping import FEW, folds, mean_curve, split
from saferank.metrics import mean
from saferank.plackett_luce import expected_ndcg

USERS = trust_bias()
WORLD = synthetic("small", queries=150, seed=0)
QUICK = Settings(steps=60, min_validation_interval=20, hidden=(8,), learning_rate=0.05)


def some(queries):
    return WORLD.train.subset(np.arange(queries))


def toy(queries, misleading, seed=0):
    """Queries whose first feature is the label, or its opposite in the misleading ones."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 5, (queries, 8)).astype(np.float64)
    sign = np.where(np.isin(np.arange(queries), misleading), -1.0, 1.0)
    features = np.stack([sign[:, None] * labels, *rng.normal(size=(2, queries, 8))], axis=-1)
    return RankingData(
        features.reshape(-1, 3), np.arange(queries + 1) * 8, labels=labels.reshape(-1)
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_few_misleading_queries_do_not_bring_back_a_random_ranker(seed):
    """Three queries of 20 mislead: those that a hold-out of 15 % would stop by."""
    held = np.sort(generator(seed, "held out").permutation(20)[:3])
    data, test = toy(20, held), toy(50, [], seed=1)
    settings = replace(QUICK, learning_rate=0.5)  # of which cross-validation takes a tenth
    options = {"method": "skyline", "scorer": "linear", "seed": seed, "settings": settings}
    stopped = learn(data, validation=(data.subset(held), None), **options)
    ranker = learn(data, **options)
    assert best_step(stopped) == 0  # what was: the random start
    assert best_step(ranker) > 0
    found = mean(expected_ndcg(ranker.scores(test), test.labels, test.offsets, 5))
    assert found > 0.9


def best_step(ranker):
    history = ranker.provenance.history
    return history["steps"][int(np.argmax(history["values"]))]


def test_folds_cut_the_queries():
    log = labelled(some(13))
    parts = folds(log, seed=4)
    assert [held.data.queries for _, held in parts] == [3, 3, 3, 2, 2]
    own = [set(held.data.query_ids.tolist()) for _, held in parts]
    assert set().union(*own) == set(log.data.ids()[0].tolist())
    for one, two in itertools.combinations(own, 2):
        assert not one & two
    for (train, _), held in zip(parts, own, strict=True):
        assert set(train.data.query_ids.tolist()) == set().union(*own) - held
    assert [held.data.queries for _, held in folds(labelled(some(2)), seed=0)] == [1, 1]


def test_only_few_queries_are_cut_into_folds():
    def parts(queries, given=None, promise=False):
        return split(labelled(some(queries)), given, 0, promise=promise)

    assert parts(FEW)[1] is None
    held = round(0.15 * (FEW + 1))
    assert [part.data.queries for part in parts(FEW + 1)] == [FEW + 1 - held, held]
    assert parts(20, promise=True)[1].data.queries == 3
    assert parts(9, labelled(some(2)))[1].data.queries == 2
    alone = parts(1)
    assert alone[0] is alone[1]


def test_the_mean_curve_goes_as_far_as_all_do():
    curves = [History([0, 10, 20, 30], [0.0, 4.0, 2.0, 9.0]), History([0, 20], [1.0, 3.0])]
    found = mean_curve(curves, np.array([0.75, 0.25]))
    assert found.steps == [0, 10, 20]
    assert found.values == pytest.approx([0.25, 0.75 * 4 + 0.25 * 2, 0.75 * 2 + 0.25 * 3])
    assert found.best() == 1


def test_all_queries_are_learned_from_to_the_chosen_step(monkeypatch):
    step, seen = Training._step, []

    def counting(self, queries):
        seen.append((self.train.data.queries, queries.size))
        step(self, queries)

    monkeypatch.setattr(Training, "_step", counting)
    ranker = learn(some(10), method="skyline", settings=QUICK)
    best = best_step(ranker)
    assert best > 0
    assert {number for number, _ in seen} == {8, 10}
    assert sum(number == 10 for number, _ in seen) == best


@pytest.mark.parametrize("scorer", ["linear", "trees"])
def test_every_stage_has_a_number_of_steps_of_its_own(scorer):
    data = some(6)
    shown = np.random.default_rng(0).normal(size=data.documents)
    counts = simulate(data, shown, USERS, sessions=600, seed=0)
    shared = {"production": shown, "scorer": scorer, "settings": replace(QUICK, rounds=10)}
    ranker = learn(data, counts, USERS, method="prpo", **shared)
    alone = fit_relevance(data, counts, USERS, **shared)
    assert ranker.provenance.regression == alone.provenance.history
    assert np.isfinite(ranker.scores(WORLD.test)).all()
    given = learn(data, counts, USERS, method="prpo", predictor=alone, **shared)
    assert not given.provenance.regression


def test_predictions_go_with_their_queries():
    data = some(5)
    counts = simulate(data, np.zeros(data.documents), USERS, sessions=50, seed=0)
    log = Log(data, counts, predicted=np.arange(data.documents, dtype=np.float64))
    chosen = log.subset(np.array([3, 1]))
    first = [np.arange(data.offsets[q], data.offsets[q + 1]) for q in (3, 1)]
    assert chosen.predicted.tolist() == np.concatenate(first).tolist()


def few_clicks(queries=8, sessions=800):
    """A small log, with production's scores."""
    data = some(queries)
    shown = np.random.default_rng(0).normal(size=data.documents)
    return data, shown, simulate(data, shown, USERS, sessions=sessions, seed=0, judge=0)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "skyline"])
def test_every_method_learns_from_few_queries(method):
    data, shown, counts = few_clicks()
    quick = replace(QUICK, steps=20, min_validation_interval=10)
    rankers = [
        learn(data, counts, USERS, method=method, production=shown, scorer="linear",
              settings=quick, seed=3, samples=5)
        for _ in range(2)
    ]  # fmt: skip
    one, two = (ranker.scores(replace(data, production=shown)) for ranker in rankers)
    assert np.array_equal(one, two)
    assert np.isfinite(one).all()


@pytest.mark.parametrize("scorer", ["mlp", "trees"])
def test_a_killed_run_goes_on_in_its_fold_or_after_all_of_them(scorer, tmp_path, monkeypatch):
    data, shown, counts = few_clicks()
    settings = replace(QUICK, patience=100, rounds=20)
    home = Training if scorer == "mlp" else Boosting
    saved = home._save
    folders = []

    def recording(self, folder, *rest):
        saved(self, folder, *rest)
        folders.append(folder.relative_to(tmp_path / "there").parts[1:])

    def run():
        return learn(
            data, counts, USERS, method="dr", production=shown, scorer=scorer, settings=settings,
            checkpoint=tmp_path / "there",
        ).scores(WORLD.test)  # fmt: skip

    monkeypatch.setattr(home, "_save", recording)
    whole = run()
    calm = list(folders)
    assert {"fold-1", "fold-5", "all"} <= {parts[0] for parts in calm}
    for stop in (calm.index(("fold-3", "ranker")), len(calm) - 1):
        folders.clear()

        def stopping(self, folder, *rest, stop=stop):
            recording(self, folder, *rest)
            if len(folders) == stop + 1:
                raise KeyboardInterrupt

        monkeypatch.setattr(home, "_save", stopping)
        with pytest.raises(KeyboardInterrupt):
            run()
        monkeypatch.setattr(home, "_save", recording)
        assert np.array_equal(run(), whole)
        assert folders == calm  # nothing was done twice
        assert not (tmp_path / "there").exists()
