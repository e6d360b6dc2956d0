"""Torch modules that score documents: linear, MLP, or any module of the user's."""

from __future__ import annotations

import copy
import hashlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from saferank._core.flat import Floats
from saferank._core.seeds import generator
from saferank._core.storage import release
from saferank._core.threads import run_all
from saferank.data.ranking import Features
from saferank.errors import InputError, require
from saferank.scorers import feed_forward, layered
from saferank.scorers.layered import Linear, Passage
from saferank.scorers.tensors import read_tensors, write_tensors

ModuleFactory = Callable[[int], nn.Module]

# Documents are scored in pieces of this many rows, each on one thread: the pieces, and so the
# bits of the result, do not depend on how many threads there are.
_ROWS = 4096


def make_network(width: int, hidden: Sequence[int], seed: int) -> nn.Module:
    """A linear module, or an MLP with ReLU where `hidden` names layers."""
    rng = generator(seed, "network")
    module = _layers(width, hidden, "cpu")
    with torch.no_grad():
        for layer in module:
            if isinstance(layer, nn.Linear):
                bound = 1 / np.sqrt(max(layer.in_features, 1))
                for parameter in (layer.weight, layer.bias):
                    drawn = rng.uniform(-bound, bound, tuple(parameter.shape))
                    parameter.copy_(torch.from_numpy(drawn))
    return module


def _layers(width: int, hidden: Sequence[int], device: str) -> nn.Sequential:
    """The modules without values; on the `meta` device they are shapes without memory."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise([width, *hidden, 1]):
        layers += [Linear(inputs, outputs, device=device), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


@dataclass(frozen=True, eq=False)
class NetworkScorer:
    """A torch module with one output per document."""

    module: nn.Module
    width: int
    hidden: tuple[int, ...] | None
    """Sizes of the hidden layers; None for a user's own module."""

    @property
    def kind(self) -> str:
        """The scorer's name in the table of scorers."""
        if self.hidden is None:
            return "module"
        return "mlp" if self.hidden else "linear"

    def scores(self, features: Features) -> Floats:
        """One score per document; without torch, but for modules of a user's own."""
        if self.hidden is not None:
            return feed_forward.score(self.layers(), features)
        return score_all(self.module, features)

    def prepare(self, standard: Floats | None = None) -> Self:
        """The same scorer, quicker for many calls; changes of the module no longer matter.

        With `standard` (see `FlatNetwork`) it takes features as they are.
        """
        if self.hidden is None:
            return self
        prepared = self.copy()
        flat = feed_forward.FlatNetwork.of(self.layers())._replace(standard=standard)
        object.__setattr__(prepared, "scores", flat.scores)
        return prepared

    def layers(self) -> list[tuple[Any, Any]]:
        """Weights and bias of each layer; not for modules of a user's own."""
        state = {name: value.numpy(force=True) for name, value in self.module.state_dict().items()}
        names = [name for name in state if name.endswith(".weight")]
        return [(state[name], state[name.replace("weight", "bias")]) for name in names]

    def copy(self) -> Self:
        """The same scorer with parameters of its own."""
        return type(self)(copy.deepcopy(self.module), self.width, self.hidden)

    def silenced(self) -> Self:
        """A scorer that says 0 for every document and can still learn."""
        require(self.hidden is not None, "start", "production or scratch for own modules", "add")
        return self.scaled(0.0)

    def scaled(self, factor: float) -> Self:
        """A scorer whose scores are these times a factor: its last layer is."""
        other = self.copy()
        with torch.no_grad():
            for parameter in list(other.module.parameters())[-2:]:
                parameter.mul_(factor)
        return other

    def towards(self, start: Self, way: float) -> Self:
        """The network whose parameters are a share of the way from the start's to its own."""
        other = self.copy()
        origin = start.module.state_dict()
        with torch.no_grad():
            for name, value in other.module.state_dict().items():
                if value.is_floating_point():
                    value.copy_(torch.lerp(origin[name], value, way))
        return other

    def fingerprint(self) -> str:
        """A name for its layers, its parameters, and what it says of some fixed documents.

        The last tells modules apart that differ in code alone.
        """
        digest = hashlib.blake2b(digest_size=16)
        digest.update(repr((self.width, self.hidden, self.module)).encode())
        for name, value in self.module.state_dict().items():
            plain = value.detach().cpu().contiguous().reshape(-1)
            digest.update(repr((name, value.dtype, tuple(value.shape))).encode())
            digest.update(plain.view(torch.uint8).numpy().tobytes())
        probe = generator(0, "probe").normal(size=(8, self.width)).astype(np.float32)
        still = type(self)(copy.deepcopy(self.module).eval(), self.width, self.hidden)
        digest.update(still.scores(probe).tobytes())
        return digest.hexdigest()

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the parameters; returns what `load` needs beside them."""
        state = {name: value.contiguous() for name, value in self.module.state_dict().items()}
        write_tensors(state, folder / "scorer.safetensors")
        return {"width": self.width, "hidden": None if self.hidden is None else list(self.hidden)}

    @classmethod
    def load(cls, folder: Path, record: dict[str, Any], module: ModuleFactory | None) -> Self:
        """Read what `save` wrote; a user's own module is rebuilt by its factory."""
        width, hidden = record["width"], record["hidden"]
        require(_count(width, 1_000_000), "width", "in 0..1000000", width)
        made: nn.Module
        if hidden is None:
            if module is None:
                raise InputError(
                    "`module` must be given to load a ranker with a module of its own."
                )
            made = module(width)
        else:
            sane = isinstance(hidden, list) and len(hidden) <= 64
            sane = sane and all(_count(size, 65536) and size > 0 for size in hidden)
            require(sane, "hidden", "at most 64 layers of at most 65536", str(hidden)[:80])
            hidden = tuple(hidden)
            made = _layers(width, hidden, "meta")
        state = read_tensors(folder / "scorer.safetensors", made.state_dict())
        if hidden is not None:
            # copied, not taken as they are: where they lie in memory changes the last bits of a sum
            made = _layers(width, hidden, "cpu")
        made.load_state_dict(state)
        return cls(made, width, hidden)


def _count(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


class _Single:
    """Who computes on one thread each, and how many threads torch had before."""

    lock = threading.Lock()
    inside = 0
    before = 1
    forked = False


def _after_fork() -> None:
    _Single.lock, _Single.inside, _Single.forked = threading.Lock(), 0, True


os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Torch on one thread inside: parallel work is done in pieces instead.

    Torch's number holds for the thread that sets it, that of its matrix products for the process:
    the last thread to leave sets it back. In a forked child it stays at 1, as OpenMP hangs there.
    """
    with _Single.lock:
        if _Single.inside == 0:
            _Single.before = torch.get_num_threads()
        _Single.inside += 1
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _Single.lock:
            _Single.inside -= 1
            if _Single.inside == 0 and not _Single.forked:
                torch.set_num_threads(_Single.before)


def _in_pieces(call: Callable[[int], Any], pieces: int) -> list[Any]:
    if pieces == 1:
        with one_thread_each():
            return [call(0)]
    with_mode = torch.is_inference_mode_enabled()

    def work(piece: int) -> Any:
        with one_thread_each(), torch.inference_mode(with_mode):
            return call(piece)

    return run_all([partial(work, piece) for piece in range(pieces)])


Output = Tensor | Passage
"""What a module says of some documents, and how it came about."""


def forward(module: nn.Module, blocks: Sequence[Features]) -> list[Output]:
    """Outputs of the module for each block of documents."""
    layers = layered.layers_of(module)
    if layers is not None:
        return _in_pieces(lambda index: layered.run(layers, blocks[index]), len(blocks))
    return _in_pieces(lambda index: _output(module, blocks[index]), len(blocks))


def score_all(module: nn.Module, features: Features) -> Floats:
    """What the module says of each document, without a way back to its parameters."""
    scores, starts = np.empty(len(features)), range(0, max(len(features), 1), _ROWS)
    layers = layered.layers_of(module)

    def piece(index: int) -> None:
        # into one array: small results of many pieces would hold on to the memory between them
        rows = features[starts[index] : starts[index] + _ROWS]
        output = _output(module, rows) if layers is None else layered.scores(layers, rows)
        scores[starts[index] : starts[index] + _ROWS] = output.cpu().numpy()

    with torch.inference_mode():
        _in_pieces(piece, len(starts))
    return scores


def _output(module: nn.Module, rows: Features) -> Tensor:
    # torch warns of arrays that cannot be written, such as mapped files
    inputs = torch.from_numpy(rows if rows.flags.writeable else rows.copy())
    output: Tensor = module(inputs.to(_device_of(module)))
    release(rows)
    return output.reshape(-1)


def _device_of(module: nn.Module) -> torch.device:
    parameter = next(module.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device


def gradients(
    module: nn.Module, outputs: Sequence[Output], flows: Sequence[Floats]
) -> list[Tensor]:
    """Of each block, the gradient in all parameters as one vector, from that in its outputs."""
    parameters = [p for p in module.parameters() if p.requires_grad]
    layers = layered.layers_of(module)

    def block(index: int) -> Tensor:
        output = outputs[index]
        if isinstance(output, Passage):
            assert layers is not None
            return layered.slopes(layers, output, flows[index])
        flow = torch.from_numpy(flows[index]).to(output.dtype).to(output.device)
        # the same bits as with `flow` as grad_outputs, for which torch imports sympy
        total = torch.dot(output, flow)
        slopes = torch.autograd.grad(total, parameters, allow_unused=True)
        pairs = zip(slopes, parameters, strict=True)
        return join_parameters([p.new_zeros(p.shape) if g is None else g for g, p in pairs])

    return _in_pieces(block, len(outputs))


def join_parameters(tensors: Sequence[Tensor]) -> Tensor:
    """One vector of all entries, on the CPU, in double precision where any tensor is."""
    if not tensors:
        return torch.zeros(0)
    kind = torch.float64 if any(t.dtype == torch.float64 for t in tensors) else torch.float32
    return torch.cat([tensor.detach().reshape(-1).to(kind) for tensor in tensors]).cpu()


def to_scores(output: Output) -> Floats:
    """Outputs as a float64 array."""
    tensor = output.output if isinstance(output, Passage) else output
    return tensor.detach().cpu().numpy().astype(np.float64)
