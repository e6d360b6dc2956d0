"""Scores of a feed-forward network without torch: one compiled loop over documents.

Serving scores in forked workers and on many threads at once, where the threads of torch's matrix
products can hang. A document's score here depends on nothing but its features and the parameters:
it has the same bits on any number of threads, in any batch, and in any process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from saferank._core.flat import Floats, Ints
from saferank._core.kernels import kernel, parallel_kernel
from saferank._core.storage import map_rows
from saferank.data.ranking import Features
from saferank.errors import require

Parameters: TypeAlias = NDArray[np.float32]

_TOGETHER = 16
"""Documents that go through a layer together, while its weights are at hand; an even number."""


def score(layers: Sequence[tuple[Parameters, Parameters]], features: Features) -> Floats:
    r"""Scores of documents by linear layers with ReLU between them, in single precision.

    .. math:: h_0 = x, \quad h_{l+1} = \max(0, W_l h_l + b_l), \quad s = W_L h_L + b_L

    Parameters
    ----------
    layers : sequence of (weights, bias)
        Arrays of shapes (outputs, inputs) and (outputs,); the last layer has one output.
    features : array of shape (documents, inputs of the first layer)

    Returns
    -------
    array of shape (documents,)
        float64, of float32 numbers.

    Examples
    --------
    >>> hidden = np.array([[1, -1], [0, 2]], np.float32), np.zeros(2, np.float32)
    >>> last = np.array([[1, 10]], np.float32), np.array([0.5], np.float32)
    >>> score([hidden, last], np.array([[3, 1], [1, 2]], np.float32))
    array([22.5, 40.5])
    """
    return FlatNetwork.of(layers).scores(features)


class FlatNetwork(NamedTuple):
    """The layers as the loop takes them, made once for many calls."""

    sizes: Ints
    parameters: Parameters
    """Of each layer inputs by outputs, then the bias: the inner loop runs over outputs that lie
    side by side."""
    standard: Floats | None = None
    """Where features come as they are: centre, spread, and what a gap becomes, 3 x inputs."""

    @classmethod
    def of(cls, layers: Sequence[tuple[Parameters, Parameters]]) -> FlatNetwork:
        """The layers one after another."""
        sizes = [layers[0][0].shape[1], *(len(bias) for _, bias in layers)]
        flat = np.concatenate([np.append(weights.T.ravel(), bias) for weights, bias in layers])
        return cls(np.array(sizes), np.ascontiguousarray(flat, dtype=np.float32))

    def scores(self, features: Features) -> Floats:
        """One score per document."""
        width = int(self.sizes[0])
        fits = features.ndim == 2 and features.shape[1] == width
        require(fits, "features", f"of shape (documents, {width})", features.shape)
        return map_rows(self._some, features)

    def _some(self, features: Features) -> Floats:
        scores = np.empty(len(features))
        rows = np.ascontiguousarray(features, dtype=np.float32)
        standard = _AS_THEY_ARE if self.standard is None else self.standard
        _score_all(len(features), rows, standard, self.sizes, self.parameters, scores)
        return scores


_AS_THEY_ARE = np.zeros((0, 0))


@parallel_kernel
def _score_all(
    first: int, last: int, features: Features, standard: Floats, sizes: Ints, flat: Parameters,
    scores: Floats,
) -> None:  # fmt: skip
    widest = 0
    for size in sizes:
        widest = max(widest, size)
    inputs = np.zeros((_TOGETHER, widest), np.float32)
    outputs = np.zeros((_TOGETHER, widest), np.float32)
    for begin in range(first, last, _TOGETHER):
        rows = min(_TOGETHER, last - begin)
        for row in range(rows):
            _take(features[begin + row], standard, inputs[row, : sizes[0]])
        start = 0
        for layer in range(sizes.size - 1):
            wide, high = sizes[layer], sizes[layer + 1]
            if layer == sizes.size - 2:
                _last(inputs, flat, start, wide, scores[begin : begin + rows])
                break
            end = start + wide * high
            weights = flat[start:end].reshape((wide, high))
            for row in range(0, rows, 2):  # the second may be one too many, which nobody reads
                _hidden(
                    inputs[row, :wide], inputs[row + 1, :wide], weights, flat[end : end + high],
                    outputs[row, :high], outputs[row + 1, :high],
                )  # fmt: skip
            inputs, outputs = outputs, inputs
            start = end + high


@kernel
def _take(features: Parameters, standard: Floats, inputs: Parameters) -> None:
    """The features of a document, scaled and without gaps where that is asked for."""
    if standard.size == 0:
        for i in range(inputs.size):
            inputs[i] = features[i]
        return
    for i in range(inputs.size):
        scaled = np.float32((np.float64(features[i]) - standard[0, i]) / standard[1, i])
        inputs[i] = np.float32(standard[2, i]) if np.isnan(scaled) else scaled


@kernel
def _hidden(
    one: Parameters, two: Parameters, weights: Parameters, bias: Parameters, out_one: Parameters,
    out_two: Parameters,
) -> None:  # fmt: skip
    """A layer with ReLU of two documents: four inputs per pass over the outputs, added in order."""
    for j in range(bias.size):
        out_one[j] = out_two[j] = bias[j]
    whole = one.size - one.size % 4
    for i in range(0, whole, 4):
        a, b, c, d = one[i], one[i + 1], one[i + 2], one[i + 3]
        e, f, g, h = two[i], two[i + 1], two[i + 2], two[i + 3]
        for j in range(bias.size):
            p, q, r, s = weights[i, j], weights[i + 1, j], weights[i + 2, j], weights[i + 3, j]
            total = out_one[j] + a * p
            total = total + b * q
            total = total + c * r
            out_one[j] = total + d * s
            total = out_two[j] + e * p
            total = total + f * q
            total = total + g * r
            out_two[j] = total + h * s
    for i in range(whole, one.size):
        for j in range(bias.size):
            out_one[j] += one[i] * weights[i, j]
            out_two[j] += two[i] * weights[i, j]
    for j in range(bias.size):
        out_one[j] = 0 if out_one[j] < 0 else out_one[j]  # what is not a number stays so
        out_two[j] = 0 if out_two[j] < 0 else out_two[j]


@kernel
def _last(inputs: Parameters, flat: Parameters, start: int, wide: int, scores: Floats) -> None:
    """The layer of one output: four sums side by side, added at the end."""
    whole = wide - wide % 4
    for row in range(scores.size):
        p = q = r = s = np.float32(0)
        for i in range(0, whole, 4):
            p += inputs[row, i] * flat[start + i]
            q += inputs[row, i + 1] * flat[start + i + 1]
            r += inputs[row, i + 2] * flat[start + i + 2]
            s += inputs[row, i + 3] * flat[start + i + 3]
        for i in range(whole, wide):
            p += inputs[row, i] * flat[start + i]
        scores[row] = (p + q) + (r + s) + flat[start + wide]
