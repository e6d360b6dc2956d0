r"""Linear layers with ReLU between them: outputs and gradients, without torch's graph of them.

.. math:: h_0 = x, \quad h_{l+1} = \max(0, W_l h_l + b_l), \quad s = W_L h_L + b_L

and back, from the slope g in the scores, :math:`\delta_L = g W_L` and

.. math:: \delta_l = (\delta_{l+1} W_l) \odot [h_l > 0], \quad
          \partial W_l = \delta_{l+1}^\top h_l, \quad \partial b_l = 1^\top \delta_{l+1} .

Matrix products are oneDNN's, as torch has them: on processors that its usual ones know little of
they take half the time. They are compiled for each shape, so that documents go through in pieces
of few different lengths, filled up with zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from saferank._core.flat import Floats
from saferank._core.storage import release
from saferank.data.ranking import Features

_ROWS = 2048
"""Documents of a piece."""
_FILLED = 128
"""The last piece is filled up to a multiple of this."""


class Linear(nn.Linear):
    """torch's layer without values of its own: they are drawn by a seed, or read.

    It has torch's name, as a module's text is part of a ranker's fingerprint.
    """

    def reset_parameters(self) -> None:
        """Leave the parameters as they are; torch would draw them from its global generator."""


Layers = Sequence[tuple[Tensor, Tensor]]
"""Weights, outputs x inputs, and bias of each."""


class Passage(NamedTuple):
    """What became of some documents on their way through the layers."""

    pieces: list[list[Tensor]]
    """Of each piece the features and the outputs of every hidden layer."""
    output: Tensor
    """One score per document."""


def _product() -> Any:
    """oneDNN's linear layer with ReLU or without; None where torch was built without it."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return None
    return getattr(torch.ops.mkldnn, "_linear_pointwise", None)


_PRODUCT = _product()


def layers_of(module: nn.Module) -> Layers | None:
    """The layers of a network that this package made; None where torch's graph is needed."""
    if _PRODUCT is None or type(module) is not nn.Sequential:
        return None
    linear = [part for part in module if type(part) is Linear]
    known = len(linear) + sum(type(part) is nn.ReLU for part in module) == len(module)
    parameters = [p for part in linear for p in (part.weight, part.bias)]
    plain = all(
        p.dtype == torch.float32 and p.device.type == "cpu" and p.requires_grad for p in parameters
    )
    if not (known and plain and all(part.in_features > 0 for part in linear)):
        return None
    return [(part.weight.detach(), part.bias.detach()) for part in linear]


def run(layers: Layers, features: Features) -> Passage:
    """Send documents through the layers, and note what `slopes` needs.

    >>> last = torch.tensor([[1.0, 10.0]]), torch.tensor([0.5])
    >>> run([last], np.array([[3, 1], [1, 2]], np.float32)).output
    tensor([13.5000, 21.5000])
    """
    starts = range(0, max(len(features), 1), _ROWS)
    with torch.inference_mode():
        pieces = [_through(layers, _piece(features, start)) for start in starts]
        output = torch.cat([_last(layers[-1], kept[-1]) for kept in pieces])
    release(features)
    return Passage(pieces, output[: len(features)])


def scores(layers: Layers, features: Features) -> Tensor:
    """One score per document; nothing is noted."""
    starts = range(0, max(len(features), 1), _ROWS)
    with torch.inference_mode():
        output = torch.cat(
            [_last(layers[-1], _through(layers, _piece(features, start))[-1]) for start in starts]
        )
    release(features)
    return output[: len(features)]


def _piece(features: Features, start: int) -> Tensor:
    """Some documents; zeros fill up the last piece. Torch warns of arrays that are read only."""
    rows = features[start : start + _ROWS]
    if len(rows) % _FILLED == 0 and rows.flags.writeable and len(rows):
        return torch.from_numpy(rows)
    filled = np.zeros((max(1, -(-len(rows) // _FILLED)) * _FILLED, rows.shape[1]), np.float32)
    filled[: len(rows)] = rows
    return torch.from_numpy(filled)


def _through(layers: Layers, rows: Tensor) -> list[Tensor]:
    kept = [rows]
    for weights, bias in layers[:-1]:
        kept.append(_PRODUCT(kept[-1], weights, bias, "relu", [], ""))
    return kept


def _last(layer: tuple[Tensor, Tensor], inputs: Tensor) -> Tensor:
    weights, bias = layer
    return torch.addmv(bias, inputs, weights[0])


def slopes(layers: Layers, passage: Passage, flow: Floats) -> Tensor:
    """The gradient in all parameters, as one vector, from that in the scores.

    >>> last = torch.tensor([[1.0, 10.0]]), torch.tensor([0.5])
    >>> passage = run([last], np.array([[3, 1], [1, 2]], np.float32))
    >>> slopes([last], passage, np.array([1.0, 2.0]))
    tensor([5., 5., 3.])
    """
    padded = torch.zeros(sum(len(kept[0]) for kept in passage.pieces))
    padded[: flow.size] = torch.from_numpy(flow)
    total, start = None, 0
    with torch.inference_mode():
        for kept in passage.pieces:
            part = _back(layers, kept, padded[start : start + len(kept[0])])
            total = part if total is None else total.add_(part)
            start += len(kept[0])
    assert total is not None
    return total


def _back(layers: Layers, kept: list[Tensor], flow: Tensor) -> Tensor:
    """The gradient of a piece, last layer first."""
    parts = [flow.sum().reshape(1), flow @ kept[-1]]
    delta = torch.outer(flow, layers[-1][0][0])
    for index in range(len(layers) - 2, -1, -1):
        delta = torch.ops.aten.threshold_backward(delta, kept[index + 1], 0)
        own = _PRODUCT(delta.t(), kept[index].t(), None, "none", [], "")
        parts += [delta.sum(0), own.reshape(-1)]
        if index:
            delta = _PRODUCT(delta, layers[index][0].t(), None, "none", [], "")
    return torch.cat(parts[::-1])
