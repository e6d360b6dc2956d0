"""A saved ranker that is not to be trusted: nothing is allocated or opened on its word alone."""

import json
import os
import resource

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from saferank.data import synthetic
from saferank.errors import InputError
from saferank.learning import Ranker, Settings, learn
from saferank.scorers.networks import NetworkScorer

WORLD = synthetic("small", queries=10, seed=0)


@pytest.fixture
def run(tmp_path):
    settings = Settings(steps=2, hidden=(4,))
    folder = tmp_path / "run"
    learn(WORLD.train, method="skyline", settings=settings).save(folder)
    return folder


def change(run, **scorer):
    record = json.loads((run / "ranker.json").read_text())
    record["scorer"] |= scorer
    (run / "ranker.json").write_text(json.dumps(record))


def refused(run, sentence):
    with pytest.raises(InputError, match=sentence) as refusal:
        Ranker.load(run)
    assert len(str(refusal.value)) <= 300


@pytest.mark.parametrize(
    ("scorer", "sentence"),
    [
        ({"width": 1_000_000, "hidden": [65536]}, "`0.weight` must be of shape"),
        ({"hidden": [65536] * 64}, "must be of this scorer's parameters"),
        ({"hidden": [65536] * 65}, "at most 64 layers"),
        ({"hidden": 5}, "at most 64 layers"),
        ({"hidden": ["4"]}, "at most 64 layers"),
        ({"hidden": [True]}, "at most 64 layers"),
        ({"width": "24"}, "`width` must be in"),
        ({"width": 10**18}, "`width` must be in"),
        ({"width": -1}, "`width` must be in"),
        ({"kind": ["mlp"]}, "`scorer` must be one of"),
    ],
)
def test_sizes_are_those_of_the_parameter_file_before_memory_is_taken(run, scorer, sentence):
    change(run, **scorer)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(run, sentence)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**18  # kilobytes


@pytest.mark.parametrize("name", ["ranker.json", "scorer.safetensors"])
def test_a_pipe_is_refused_unopened(run, name):
    (run / name).unlink()
    os.mkfifo(run / name)
    refused(run, "a saved ranker|a file of safetensors")


@pytest.mark.parametrize("name", ["ranker.json", "scorer.safetensors"])
def test_a_device_and_a_folder_are_refused(run, name):
    (run / name).unlink()
    (run / name).symlink_to("/dev/zero")
    refused(run, "a saved ranker|a file of safetensors")
    (run / name).unlink()
    (run / name).mkdir()
    refused(run, "a saved ranker|a file of safetensors")


def rewrite(run, alter):
    path = run / "scorer.safetensors"
    state = load_file(path)
    save_file({name: alter(value.clone()).contiguous() for name, value in state.items()}, path)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_parameters_that_are_not_finite_are_refused(run, value):
    def alter(tensor):
        tensor.view(-1)[-1] = value
        return tensor

    rewrite(run, alter)
    refused(run, r"finite in .*; got (nan|inf) at position")


@pytest.mark.parametrize("kind", [torch.int8, torch.float64, torch.float16])
def test_parameters_of_another_type_are_refused(run, kind):
    rewrite(run, lambda tensor: tensor.to(kind))
    refused(run, "of type torch.float32")


def test_damaged_parameters_are_refused(run):
    path = run / "scorer.safetensors"
    whole = path.read_bytes()
    for text in (b"", whole[:7], whole[:-1], whole + b"\0", b"\xff" * 8 + whole[8:], b"\0" * 99):
        path.write_bytes(text)
        refused(run, "must be a file of safetensors")


def test_a_scaling_of_another_width_is_refused(run):
    record = json.loads((run / "ranker.json").read_text())
    record["scaling"] = {
        "kind": "none", "width": 3, "centre": None, "spread": None, "low": None, "high": None,
    }  # fmt: skip
    (run / "ranker.json").write_text(json.dumps(record))
    refused(run, "`scaling` must be to the scorer's 24 features; got 3")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("weights", "many"),
        ("seed", 1.5),
        ("click_model", 3),
        ("keep", True),
        ("history", {"steps": 1}),
    ],
)
def test_a_provenance_of_other_types_is_refused(run, field, value):
    record = json.loads((run / "ranker.json").read_text())
    record["provenance"][field] = value
    (run / "ranker.json").write_text(json.dumps(record))
    refused(run, f"`provenance.{field}")


def test_a_loaded_ranker_can_be_trained_further(run):
    again = Ranker.load(run)
    assert isinstance(again.scorer, NetworkScorer)
    assert all(one.requires_grad for one in again.scorer.module.parameters())
    assert np.isfinite(again.scores(WORLD.test)).all()
