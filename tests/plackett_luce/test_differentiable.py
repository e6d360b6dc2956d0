"""Exposure in torch: the compiled way and the plain way agree, and so do their gradients."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from saferank.errors import InputError
from saferank.metrics import dcg_weights
from saferank.plackett_luce import exposure, exposure_gradient, torch_exposure
from saferank.plackett_luce.differentiable import plain_exposure

OFFSETS = np.array([0, 0, 1, 4, 11, 41, 43, 93, 93])


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    ("k", "spread"), [(1, 0.0), (1, 8.0), (2, 1.0), (2, 100.0), (5, 0.0), (5, 3.0), (8, 1.0)]
)
def test_the_plain_way_agrees_with_the_kernels(k, spread):
    rng = np.random.default_rng(k)
    scores, slope = spread * rng.normal(size=93), rng.uniform(-0.5, 0.5, size=93)
    weights = dcg_weights(k)
    tensor = torch.tensor(scores, requires_grad=True)
    omega = plain_exposure(tensor, weights, OFFSETS)
    omega.backward(torch.tensor(slope))
    expected = exposure(scores, weights, OFFSETS)
    np.testing.assert_allclose(omega.detach().numpy(), expected, rtol=0, atol=1e-10)
    expected = exposure_gradient(scores, weights, OFFSETS, slope)
    np.testing.assert_allclose(tensor.grad.numpy(), expected, rtol=0, atol=1e-9)


def test_a_thousand_documents():
    rng = np.random.default_rng(0)
    scores, slope = rng.normal(size=1000), rng.uniform(-0.5, 0.5, size=1000)
    both = []
    for function in (torch_exposure, plain_exposure):
        tensor = torch.tensor(scores, requires_grad=True)
        omega = function(tensor, dcg_weights(5), np.array([0, 1000]))
        omega.backward(torch.tensor(slope))
        both.append((omega.detach().numpy(), tensor.grad.numpy()))
    np.testing.assert_allclose(both[0][0], both[1][0], rtol=0, atol=1e-10)
    np.testing.assert_allclose(both[0][1], both[1][1], rtol=0, atol=1e-9)


def test_far_apart_scores_and_the_largest_floats():
    weights = np.array([3.0, 2.0, 1.0])
    for top in (1e3, 1.7e308):
        scores = torch.tensor([top, -top, 0.0], dtype=torch.float64)
        omega = plain_exposure(scores, weights, np.array([0, 3]))
        np.testing.assert_allclose(omega.numpy(), [3, 1, 2], atol=1e-9)


@pytest.mark.parametrize("function", [torch_exposure, plain_exposure])
def test_gradcheck(function):
    scores = torch.randn(12, dtype=torch.float64, requires_grad=True)
    weights, offsets = dcg_weights(3), np.array([0, 5, 12])
    assert torch.autograd.gradcheck(lambda s: function(s, weights, offsets), scores)


@pytest.mark.parametrize("function", [torch_exposure, plain_exposure])
def test_second_derivatives(function):
    scores = torch.randn(6, dtype=torch.float64, requires_grad=True)
    weights, offsets = dcg_weights(3), np.array([0, 2, 6])
    assert torch.autograd.gradgradcheck(lambda s: function(s, weights, offsets), scores)


def test_single_precision_comes_and_goes():
    scores = torch.randn(30, requires_grad=True)
    omega = torch_exposure(scores, torch.tensor([1.0, 0.5]), torch.tensor([0, 10, 30]))
    assert omega.dtype == torch.float32
    omega.square().sum().backward()
    assert scores.grad.dtype == torch.float32
    values = scores.detach().numpy()
    expected = exposure_gradient(values, [1.0, 0.5], [0, 10, 30], 2 * omega.detach().numpy())
    np.testing.assert_allclose(scores.grad.numpy(), expected, atol=1e-6)


def test_bad_input_is_told_in_one_sentence():
    with pytest.raises(InputError, match="`scores` must be flat"):
        torch_exposure(torch.zeros(2, 2), [1.0], [0, 4])
    with pytest.raises(InputError, match=r"`scores` must be finite; got nan in query 1"):
        torch_exposure(torch.tensor([0.0, float("nan")]), [1.0], [0, 1, 2])
    with pytest.raises(InputError, match=r"`scores` must be finite; got nan in query 1"):
        plain_exposure(torch.tensor([0.0, float("nan")]), np.ones(1), np.array([0, 1, 2]))


def test_torch_is_not_imported_and_nothing_compiled_before_use():
    code = """
import sys
from numba.core import event
with event.install_recorder("numba:compile") as compiled:
    import saferank.plackett_luce
assert "torch" not in sys.modules
assert not compiled.buffer
"""
    path = [entry for entry in sys.path if entry]
    subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n{code}"], check=True
    )
