"""Checkpoints: everything that goes into a run is part of its key."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch

from saferank.clicks import ClickModel, simulate, trust_bias
from saferank.counts import Counts
from saferank.data import synthetic
from saferank.learning import Settings, fit_relevance, learn
from saferank.learning.descent import Training
from saferank.learning.recipe import Recipe
from saferank.learning.training_run import TrainingRun

USERS = trust_bias()
WORLD = synthetic("small", queries=30, seed=0)
QUICK = Settings(steps=10, min_validation_interval=5, hidden=(4,))
SHOWN = np.random.default_rng(0).normal(size=WORLD.train.documents)
HELD_SHOWN = np.random.default_rng(1).normal(size=WORLD.validation.documents)
COUNTS = simulate(WORLD.train, SHOWN, USERS, sessions=500, seed=0, judge=0)
HELD_COUNTS = simulate(WORLD.validation, HELD_SHOWN, USERS, sessions=200, seed=0, judge=0)
HELD = replace(WORLD.validation, production=HELD_SHOWN)

OTHER_RECIPE = {
    "gain": "dm", "objective": "prpo-floor", "scorer": "linear", "delta": 0.5,
    "weights": "dcg", "start": "add", "scaling": "standard", "regression": "likelihood",
    "propensities": "averaged", "gradient": "reinforce", "samples": 7, "k": 3, "slack": 0.5,
    "fairness": "parity", "fairness_weight": 0.5, "fairness_over": "traffic",
}  # fmt: skip
OTHER_SETTINGS: dict[str, Any] = {
    "learning_rate": 0.1, "batch_size": 3, "steps": 11, "patience": 3,
    "plateau": 2, "rate_falls": 0,
    "min_validation_interval": 4, "max_grad_norm": 2.0, "hidden": (5,), "rounds": 9,
    "leaves": 5, "shrinkage": 0.5, "curvature": "exposure",
}  # fmt: skip


class StoppedError(Exception):
    """Carries the key of a run that was stopped before it began."""


@pytest.fixture
def key(monkeypatch, tmp_path):
    def stop(self, log, held, folder):
        raise StoppedError(folder.name)

    monkeypatch.setattr(TrainingRun, "scorer", stop)

    def name(data=WORLD.train, counts=COUNTS, click_model=USERS, **changes):
        given = {
            "production": SHOWN, "validation": (HELD, HELD_COUNTS), "settings": QUICK, **changes
        }  # fmt: skip
        with pytest.raises(StoppedError) as stopped:
            learn(data, counts, click_model, checkpoint=tmp_path, **given)
        return str(stopped.value)

    return name


def nudged(array):
    """The array with its last value moved by the smallest step."""
    moved = array.copy()
    moved.flat[-1] = np.nextafter(moved.flat[-1], np.inf, dtype=moved.dtype)
    return moved


def more(counts, **cells):
    """Counts with one more of something in one cell, and a session for it."""
    arrays = {n: getattr(counts, n).copy() for n in ("impressions", "clicks", "sessions")}
    for name, cell in cells.items():
        arrays[name][cell] += 1
    return Counts(counts.offsets, **arrays)


def unclicked(counts):
    """A cell with impressions that were not clicked."""
    return tuple(np.argwhere(counts.impressions > counts.clicks)[0])


def test_the_same_input_has_the_same_key(key):
    copy = replace(WORLD.train, features=WORLD.train.features.copy())
    counts = Counts(COUNTS.offsets, COUNTS.impressions.copy(), COUNTS.clicks.copy())
    counts = replace(counts, sessions=COUNTS.sessions.copy())
    users = ClickModel(USERS.alpha.tolist(), USERS.beta.tolist())
    again = key(copy, counts, users, production=SHOWN.tolist(), settings=replace(QUICK))
    assert key() == again
    assert key(replace(WORLD.train, production=SHOWN), production=None) == again
    assert key(delta=lambda n: 100 / n) == key(delta=lambda n: 1e2 / n)
    assert key(scorer=module()) == key(scorer=module())


def test_every_input_changes_the_key(key):
    train, held = WORLD.train, WORLD.validation
    cell, cell_held = unclicked(COUNTS), unclicked(HELD_COUNTS)
    labelled = replace(train, labels=nudged(train.labels))
    others = [
        key(),
        key(seed=1),
        key(method="prpo-ips"),
        key(replace(train, features=nudged(train.features))),
        key(labelled),
        key(production=nudged(SHOWN)),
        key(production=None),
        key(counts=more(COUNTS, clicks=cell)),
        key(counts=more(COUNTS, impressions=cell, sessions=slice(None))),
        key(counts=more(COUNTS, sessions=0)),
        key(click_model=ClickModel(nudged(USERS.alpha), USERS.beta)),
        key(click_model=ClickModel(USERS.alpha, nudged(USERS.beta))),
        key(validation=None),
        key(validation=(replace(HELD, features=nudged(held.features)), HELD_COUNTS)),
        key(validation=(replace(HELD, production=nudged(HELD_SHOWN)), HELD_COUNTS)),
        key(validation=(held, HELD_COUNTS)),
        key(validation=(HELD, more(HELD_COUNTS, clicks=cell_held))),
        key(validation=(HELD, more(HELD_COUNTS, sessions=0))),
    ]
    assert len(set(others)) == len(others)


def test_every_part_of_recipe_and_settings_changes_the_key(key):
    left_out = {"keep", "settings"}  # a promise changes objective and start too; see below
    assert set(OTHER_RECIPE) == {part.name for part in fields(Recipe)} - left_out
    assert set(OTHER_SETTINGS) == {part.name for part in fields(Settings)}
    others = [key(), key(delta=0.9)]
    others += [key(**{name: value}) for name, value in OTHER_RECIPE.items()]
    others += [
        key(settings=replace(QUICK, **{name: value})) for name, value in OTHER_SETTINGS.items()
    ]
    assert len(set(others)) == len(others)


def module(activation=torch.nn.Tanh, scale=1.0):
    """A factory of modules; all of them have the same name."""

    class Scaled(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(width, 1), activation())

        def forward(self, features):
            return scale * self.layers(features)

    return lambda width: Scaled(width)


def test_callables_go_in_by_what_they_compute(key):
    others = [
        key(delta=lambda n: 100 / n),
        key(delta=lambda n: 101 / n),
        key(scorer=module()),
        key(scorer=module(torch.nn.ReLU)),
        key(scorer=module(scale=2.0)),
        key(scorer=module(), seed=1),
    ]
    assert len(set(others)) == len(others)


@pytest.mark.parametrize("scorer", ["linear", "trees"])
def test_rankers_go_in_by_what_they_compute(monkeypatch, tmp_path, scorer):
    few = Settings(steps=20, min_validation_interval=10, rounds=3, hidden=())
    shared: dict[str, Any] = {"scorer": scorer, "settings": few, "production": SHOWN}
    rankers = [fit_relevance(WORLD.train, COUNTS, USERS, seed=s, **shared) for s in (0, 0, 1)]
    if scorer == "trees":  # trees have no random start: another log makes them differ
        counts = simulate(WORLD.train, SHOWN, USERS, sessions=500, seed=1, judge=0)
        rankers[2] = fit_relevance(WORLD.train, counts, USERS, **shared)
    names = []

    def stop(*given):
        names.append(given[-1].name)
        return 1 / 0

    monkeypatch.setattr(TrainingRun, "scorer", stop)
    for option in ("predictor", "production"):
        for ranker in (*rankers, None):
            with pytest.raises(ZeroDivisionError):
                given: dict[str, Any] = {option: ranker}
                learn(WORLD.train, COUNTS, USERS, checkpoint=tmp_path, **given)
    for one, same, two, none in (names[:4], names[4:]):
        assert one == same
        assert len({one, two, none}) == 3


def test_a_killed_run_does_not_resume_with_another_click_model(tmp_path, monkeypatch):
    settings, step, calls = (
        Settings(steps=60, min_validation_interval=10, hidden=(4,)),
        Training._step,
        [],
    )

    def breaking(self, queries):
        calls.append(1)
        if len(calls) == 45:
            raise KeyboardInterrupt
        step(self, queries)

    shared: dict[str, Any] = {"method": "ips", "settings": settings}
    other = ClickModel(USERS.alpha / 2, USERS.beta)
    whole = learn(WORLD.train, COUNTS, other, **shared)
    monkeypatch.setattr(Training, "_step", breaking)
    with pytest.raises(KeyboardInterrupt):
        learn(WORLD.train, COUNTS, USERS, checkpoint=tmp_path / "there", **shared)
    assert any((tmp_path / "there").glob("*/fold-1/ranker/state.json"))
    resumed = learn(WORLD.train, COUNTS, other, checkpoint=tmp_path / "there", **shared)
    assert np.array_equal(whole.scores(WORLD.test), resumed.scores(WORLD.test))
