"""Checkpoints are used whole and unchanged, or not at all: a damaged one never stops a run."""

import json
import shutil

import numpy as np
import pytest

import saferank as sr
from saferank.learning import Settings, checkpoints
from saferank.learning.boosting import Boosting
from saferank.learning.descent import Training

WORLD = sr.data.synthetic("small", queries=30, seed=0)
USERS = sr.clicks.trust_bias()
SHOWN = np.zeros(WORLD.train.documents)
COUNTS = sr.clicks.simulate(WORLD.train, SHOWN, USERS, sessions=2000, seed=0)


class StoppedError(Exception):
    """Instead of a kill."""


def run(folder, scorer):
    """Learn something small with checkpoints below a folder."""
    settings = Settings(steps=60, min_validation_interval=10, patience=100, hidden=(4,), rounds=20)
    return sr.learn(
        WORLD.train, COUNTS, USERS, method="naive", production=SHOWN, scorer=scorer,
        settings=settings, checkpoint=folder,
    )  # fmt: skip


@pytest.fixture(scope="module", params=["mlp", "trees"])
def stopped(request, tmp_path_factory):
    """The checkpoints of a run that was stopped, what is learned without a stop, and the scorer."""
    whole = run(None, request.param).scores(WORLD.test)
    folder = tmp_path_factory.mktemp("stopped")
    home = Training if request.param == "mlp" else Boosting
    save, calls = home._save, []

    def then_stop(self, *arguments):
        save(self, *arguments)
        calls.append(1)
        if len(calls) == 2:
            raise StoppedError

    with pytest.MonkeyPatch.context() as patch, pytest.raises(StoppedError):
        patch.setattr(home, "_save", then_stop)
        run(folder, request.param)
    return folder, whole, request.param


def cut(path):
    path.write_bytes(path.read_bytes()[:-9])


def flip(path):
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)


def empty(path):
    path.write_bytes(b"")


def other_json(path):
    if path.suffix == ".json":
        path.write_text(json.dumps({"step": "1", "steps": None, "values": [1e300]}))
    else:
        path.write_bytes(b"[" * 10_000)


@pytest.mark.parametrize("damage", [cut, flip, empty, other_json, lambda path: path.unlink()])
def test_damaged_checkpoints_are_rebuilt(damage, stopped, tmp_path):
    folder, whole, scorer = stopped
    for name in ("state.json", "state.safetensors" if scorer == "mlp" else "scorer.txt"):
        copy = tmp_path / name
        shutil.copytree(folder, copy)
        files = list(copy.rglob(name))
        assert files
        for path in files:
            damage(path)
        assert np.array_equal(run(copy, scorer).scores(WORLD.test), whole)
        assert not copy.exists(), "nothing is left of it"


def test_a_whole_checkpoint_is_gone_on_from(stopped, tmp_path):
    folder, whole, scorer = stopped
    shutil.copytree(folder, tmp_path / "copy")
    assert np.array_equal(run(tmp_path / "copy", scorer).scores(WORLD.test), whole)


def test_a_checkpoint_whose_progress_was_changed_is_not_used(tmp_path):
    """A value of validation that was changed would keep the parameters of another step."""
    progress = checkpoints.Progress(2, [1, 2], [0.5, 0.25])

    def write(folder):
        (folder / "x.bin").write_bytes(b"parameters")

    checkpoints.save_checkpoint(tmp_path / "here", "x.bin", write, progress)
    assert checkpoints.load_checkpoint(tmp_path / "here", "x.bin") == progress
    state = tmp_path / "here" / checkpoints.RECORD
    state.write_text(state.read_text().replace("0.25", "0.75"))
    assert checkpoints.load_checkpoint(tmp_path / "here", "x.bin") is None
