"""Exposure as a torch function with a gradient: compiled on the CPU, plain torch elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank.errors import require
from saferank.plackett_luce import nodes
from saferank.plackett_luce.exact import (
    TOLERANCE,
    check_weights,
    exposure,
    exposure_gradient,
)
from saferank.plackett_luce.tree import tree_exposure


def torch_exposure(
    scores: Tensor, weights: npt.ArrayLike, offsets: npt.ArrayLike, *, tol: float = TOLERANCE
) -> Tensor:
    """`exposure` of a tensor of scores, flat, with a gradient in the scores.

    On the CPU the compiled kernels do the work, forward and backward (there right to 10 `tol`).
    On other devices, and for derivatives of higher order (`create_graph=True`), `tree_exposure`
    does, slower and with more memory. Computed in double precision where the device has it.

    Parameters
    ----------
    scores
        A flat tensor, one value per document.
    weights
        Of the ranks, shape (K,).
    offsets
        Where each query begins, and the end: queries + 1 entries.
    tol
        The absolute error is below `tol` times the largest absolute weight.

    Returns
    -------
    Tensor
        One value per document, on the device of the scores.

    Examples
    --------
    >>> scores = torch.zeros(2, requires_grad=True)
    >>> omega = torch_exposure(scores, weights=[1.0], offsets=[0, 2])
    >>> omega[0].backward()
    >>> scores.grad
    tensor([ 0.2500, -0.2500])
    """
    require(scores.ndim == 1, "scores", "flat, one value per document", tuple(scores.shape))
    cuts = flat.check_offsets(np.asarray(offsets), scores.numel())
    w = check_weights(np.asarray(weights))
    if scores.device.type == "cpu":
        omega: Tensor = _Compiled.apply(scores, w, cuts, tol)  # type: ignore[no-untyped-call]
        return omega
    return plain_exposure(scores, w, cuts, tol=tol)


def plain_exposure(
    scores: Tensor, weights: Floats, offsets: Ints, *, tol: float = TOLERANCE
) -> Tensor:
    """`torch_exposure` by `tree_exposure` on whatever device the scores are."""
    if not bool(torch.isfinite(scores).all()):
        flat.check_values("scores", scores.detach().cpu().numpy(), offsets)
    precision = _precision(scores.device)
    omega = tree_exposure(
        scores.to(precision),
        torch.as_tensor(weights, dtype=precision, device=scores.device),
        torch.as_tensor(offsets, device=scores.device),
        nodes.grid(tol, len(weights), 1),
    )
    return omega.to(scores.dtype)


@dataclass(frozen=True)
class TorchKernels:
    """Exposures and gradients by `plain_exposure` on a device, from arrays to arrays.

    Examples
    --------
    >>> TorchKernels("cpu").exposure(np.zeros(2), np.array([1.0]), np.array([0, 2]))
    array([0.5, 0.5])
    """

    device: str

    def exposure(self, scores: Floats, weights: Floats, offsets: Ints) -> Floats:
        """Exposure of each document."""
        with torch.no_grad():
            return _to_array(plain_exposure(self._tensor(scores), weights, offsets))

    def gradient(
        self, scores: Floats, weights: Floats, offsets: Ints, slope: Floats, *, tol: float
    ) -> Floats:
        """The gradient in the scores of a slope in exposures; right to 10 times their error."""
        tensor = self._tensor(scores).requires_grad_()
        with torch.enable_grad():
            omega = plain_exposure(tensor, weights, offsets, tol=tol / 10)
        return _to_array(torch.autograd.grad(omega, tensor, self._tensor(slope))[0])

    def _tensor(self, values: Floats) -> Tensor:
        precision = _precision(torch.device(self.device))
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.device, precision)


def _to_array(values: Tensor) -> Floats:
    return values.cpu().to(torch.float64).numpy()


def _precision(device: torch.device) -> torch.dtype:
    """Double, but for devices that do not have it."""
    return torch.float32 if device.type == "mps" else torch.float64


class _Compiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, weights: Floats, offsets: Ints, tol: float) -> Tensor:
        ctx.save_for_backward(scores)
        ctx.given = weights, offsets, tol
        values = scores.detach().to(torch.float64).numpy()
        return torch.from_numpy(exposure(values, weights, offsets, tol=tol)).to(scores.dtype)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None, None]:
        (scores,) = ctx.saved_tensors
        weights, offsets, tol = ctx.given
        if torch.is_grad_enabled():  # the gradient itself is to be differentiated
            omega = plain_exposure(scores, weights, offsets, tol=tol)
            (tracked,) = torch.autograd.grad(omega, scores, slopes[0], create_graph=True)
            return tracked, None, None, None
        values = scores.detach().to(torch.float64).numpy()
        slope = slopes[0].to(torch.float64).numpy()
        gradient = exposure_gradient(values, weights, offsets, slope, tol=min(10 * tol, 0.1))
        return torch.from_numpy(gradient).to(scores.dtype), None, None, None
