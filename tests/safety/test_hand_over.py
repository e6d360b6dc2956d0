"""What one command hands to the next: assessments and their rankers, verdicts and serving."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import saferank as sr
from saferank.clicks import ClickModel, position_bias, simulate
from saferank.data import RankingData
from saferank.errors import InputError
from saferank.learning import Settings
from saferank.safety import Rule, assess
from saferank.safety.assessment import Assessment
from saferank.serving.production_lists import scores_of_lists
from saferank.serving.rankings import Serving, rankings


@pytest.fixture(scope="module")
def world():
    data = sr.data.synthetic("small", queries=60, seed=0).train
    rng = np.random.default_rng(0)
    return RankingData(
        data.features, data.offsets, labels=data.labels, production=rng.normal(size=data.documents)
    )


@pytest.fixture(scope="module")
def runs(world, tmp_path_factory):
    """Two rankers with their assessments: one better than production, one worse."""
    folder = tmp_path_factory.mktemp("runs")
    users = position_bias()
    counts = simulate(world, world.production, users, sessions=60_000, seed=0, judge=0.5)
    for name, seed, steps in (("good", 0, 200), ("other", 1, 200)):
        ranker = sr.learn(
            world, counts, users, method="dr", scorer="linear", seed=seed,
            settings=Settings(steps=steps), production=world.production,
        )  # fmt: skip
        ranker.save(folder / name)
        assess(ranker, world, counts=counts).save(folder / name)
    return folder


def test_an_assessment_belongs_to_its_ranker(runs, tmp_path):
    assert Assessment.load(runs / "good").decision.ship
    shutil.copytree(runs / "good", tmp_path / "run")
    assert Assessment.load(tmp_path / "run").decision.ship, "a copy is the same ranker"
    shutil.copy(runs / "other" / "assessment.json", tmp_path / "run")
    with pytest.raises(InputError, match="the assessment of another ranker"):
        Assessment.load(tmp_path / "run")
    with pytest.raises(InputError, match="the assessment of another ranker"):
        Serving.of_run(tmp_path / "run", guard=True)


def test_an_assessment_that_was_edited_is_refused(runs, tmp_path):
    for key, value in (("ranker", None), ("guarded", True)):
        shutil.copytree(runs / "good", tmp_path / key)
        file = tmp_path / key / "assessment.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {key: value}))
        with pytest.raises(InputError, match="run `saferank certify` again"):
            Assessment.load(tmp_path / key)


def changed(run, target, **decision):
    shutil.copytree(run, target)
    told = Assessment.load(target)
    replace(told, decision=replace(told.decision, **decision)).save(target)
    return target


def test_ranking_says_what_the_verdict_was(runs, world, tmp_path):
    _, told = rankings(Serving.of_run(runs / "good"), world)
    assert not any("Warning" in sentence for sentence in told)
    bad = changed(runs / "good", tmp_path / "bad", ship=False, sentence="Do not ship: it is worse.")
    _, told = rankings(Serving.of_run(bad), world)
    assert told[0] == "Warning: the last verdict on this run is: Do not ship: it is worse."
    only = changed(runs / "good", tmp_path / "only", guard=0.9)
    _, told = rankings(Serving.of_run(only), world)
    assert "with the guard: give --guard" in told[0]


@pytest.mark.parametrize("k", [0, -1])
def test_a_senseless_length_is_refused(runs, world, k):
    with pytest.raises(InputError, match="`k` must be at least 1"):
        rankings(Serving.of_run(runs / "good"), world, k=k)


def test_a_large_length_is_all_documents(runs, world):
    table, _ = rankings(Serving.of_run(runs / "good"), world, k=10**12)
    assert table.num_rows == world.documents


@pytest.mark.parametrize("rank", [None, "first", float("nan")])
def test_lists_without_a_rank_are_refused(world, rank):
    query, doc = (ids[:1].tolist() for ids in world.ids())
    lists = pa.table({"query_id": query, "doc_id": doc, "rank": pa.array([rank])})
    with pytest.raises(InputError, match="rank of production's lists"):
        scores_of_lists(lists, world)


def test_one_query_is_judged_by_itself_or_not_at_all(world):
    one = world.subset([0])
    counts = simulate(one, one.production, position_bias(), sessions=4000, seed=0)
    scores = one.labels.astype(float)
    with pytest.raises(InputError, match="of at least two queries"):
        assess(scores, one, counts=counts, click_model=position_bias())
    found = assess(
        scores, one, counts=counts, click_model=position_bias(), rule=Rule(method="normal")
    )
    assert np.isfinite(found.clicks.bound.lower)


def test_a_click_model_of_other_users_is_not_shipped_on(world):
    """Users look most at the last rank; the model says the opposite."""
    upside_down = ClickModel(np.arange(1, 6) / 5, np.zeros(5))
    counts = simulate(world, world.production, upside_down, sessions=60_000, seed=0)
    scores = world.labels.astype(float)
    right = assess(scores, world, counts=counts, click_model=upside_down)
    assert "not that of these users" not in right.decision.sentence
    wrong = assess(scores, world, counts=counts, click_model=position_bias())
    assert not wrong.decision.ship
    assert "not that of these users" in wrong.decision.sentence
    assert "saferank bias" in wrong.decision.next_step


def test_a_gap_that_training_did_not_have_is_filled(world, tmp_path):
    """Networks take the mean of training for it, whatever the scaling."""
    counts = simulate(world, world.production, position_bias(), sessions=3000, seed=0)
    features = world.features.copy()
    features[3, 0] = np.nan
    gap = RankingData(features, world.offsets)
    for scaling in ("log1p", "none", "query_minmax"):
        ranker = sr.learn(
            world, counts, position_bias(), method="ips", scorer="linear", scaling=scaling,
            settings=Settings(steps=10),
        )  # fmt: skip
        ranker.save(tmp_path / scaling)
        for one in (ranker, sr.load(tmp_path / scaling)):
            scores = one.scores(gap)
            assert np.isfinite(scores).all()
            others = np.arange(gap.documents) != 3
            if scaling != "query_minmax":  # there the others of its query may move
                np.testing.assert_array_equal(scores[others], one.scores(world)[others])
