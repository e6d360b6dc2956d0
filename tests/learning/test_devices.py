"""Networks on a device: torch's exposures learn what the compiled ones do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from saferank.cli.app import app
from saferank.clicks import simulate, trust_bias
from saferank.data import RankingData, synthetic
from saferank.errors import InputError
from saferank.learning import Ranker, Settings, learn
from saferank.learning.devices import Device, find_device
from saferank.objectives import OBJECTIVES, Context, Terms
from saferank.objectives.goals import QueryBlock
from saferank.objectives.in_exposures import Queries
from saferank.plackett_luce.differentiable import TorchKernels
from saferank.plackett_luce.kernels import COMPILED

TORCH = Device("cpu", TorchKernels("cpu"))
"""All that another device does, here."""


@pytest.mark.parametrize("name", ["utility", "prpo", "safe-dr"])
def test_goals_have_the_same_values_and_gradients(name: str) -> None:
    rng = np.random.default_rng(0)
    offsets, model = np.array([0, 3, 4, 24, 60]), trust_bias()
    weights = model.exposure_weights
    gain, scores = rng.normal(size=60), 2 * rng.normal(size=60)
    omega0 = COMPILED.exposure(rng.normal(size=60), weights, offsets)
    terms = Terms(gain, omega0, np.full(60, weights.sum()))
    objective = OBJECTIVES[name].build(Context(1000, 0.5, weights, model))
    queries = Queries(offsets, terms, weights, np.full(4, 0.25))
    everything = QueryBlock(np.arange(4), slice(0, 60), offsets)
    compiled, plain = (
        objective.on(replace(queries, kernels=kernels)).value_and_gradient(scores, everything, None)
        for kernels in (COMPILED, TORCH.kernels)
    )
    np.testing.assert_allclose(plain.reward, compiled.reward, rtol=0, atol=1e-9)
    np.testing.assert_allclose(plain.risk, compiled.risk, rtol=0, atol=1e-9)
    np.testing.assert_allclose(plain.gradient, compiled.gradient, rtol=0, atol=1e-8)
    assert np.abs(compiled.gradient).max() > 1e-3


def _learn(data: RankingData, device: Device | str) -> Ranker:
    shown, model = np.random.default_rng(0).normal(size=data.documents), trust_bias()
    counts = simulate(data, shown, model, sessions=5000, seed=0)
    return learn(
        data, counts, model, method="prpo-ips", production=shown, production_kind="sampled",
        settings=Settings(steps=30, hidden=(8,)), device=device,
    )  # fmt: skip


def test_a_ranker_learned_by_torchs_exposures_is_that_of_the_kernels(tmp_path: Path) -> None:
    data = synthetic("small", queries=60, seed=0).train
    compiled, plain = _learn(data, "cpu"), _learn(data, TORCH)
    # the last bias changes no ranking: its gradient is 0 but for rounding, which Adam follows
    scores, others = (it - it.mean() for it in (compiled.scores(data), plain.scores(data)))
    assert scores.std() > 0.01
    np.testing.assert_allclose(others, scores, rtol=0, atol=1e-3 * scores.std())
    for name, ranker in (("compiled", compiled), ("plain", plain)):
        ranker.save(tmp_path / name)
    files = [sorted(path.name for path in (tmp_path / name).iterdir()) for name in
             ("compiled", "plain")]  # fmt: skip
    assert files[0] == files[1]
    np.testing.assert_array_equal(Ranker.load(tmp_path / "plain").scores(data), plain.scores(data))


def test_the_cpu_is_the_compiled_device() -> None:
    assert find_device("cpu") == find_device("cpu:0") == Device("cpu", COMPILED)


@pytest.mark.parametrize("name", ["abacus", "cuda:99", "meta", ""])
def test_devices_that_cannot_be_used_are_refused_in_a_sentence(name: str) -> None:
    with pytest.raises(InputError, match="`device` must be cpu or one that torch can use") as info:
        find_device(name)
    assert "\n" not in str(info.value)


def test_trees_stay_on_the_cpu() -> None:
    data = synthetic("small", queries=10, seed=0).train
    with pytest.raises(InputError, match="`device` must be cpu for trees; got 'cuda'"):
        learn(data, method="skyline", scorer="trees", device=Device("cuda", TORCH.kernels))


def test_the_command_refuses_a_device_before_it_reads_anything(tmp_path: Path) -> None:
    words = ["learn", "--items", "none.parquet", "--device", "abacus", "-o", str(tmp_path / "run")]
    with pytest.raises(InputError, match="`device` must be cpu or one that torch can use here"):
        CliRunner().invoke(app, words, catch_exceptions=False)
