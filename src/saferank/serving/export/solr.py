"""Solr's JSON of a model: `MultipleAdditiveTreesModel`, or `NeuralNetworkModel` with normalizers.

Solr adds 1e-6 to every threshold when it reads a tree, in single precision, and goes left if
`x <= threshold`: what is written is a number that becomes our threshold by that addition. Near 0,
and beside negative powers of 2, there may be none. A `MinMaxNormalizer` then multiplies the feature
by 2^40, which changes no digit of it and leaves next to nothing of what is added.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np

from saferank._core.files import read_json
from saferank._core.flat import Array, Floats, Ints
from saferank.data.ranking import Features
from saferank.errors import InputError, require
from saferank.serving.export.nesting import (
    Rule,
    Split,
    field,
    fields,
    flatten,
    has,
    nest,
    number,
    walk,
)
from saferank.serving.export.parity import Parity
from saferank.serving.export.raw_trees import RawTree, key_of, of_keys
from saferank.serving.export.source import Source
from saferank.serving.export.target import Target

RULE: Final = Rule(strict=False, number=np.float32)
ADDED: Final = np.float32(1e-6)
FACTOR: Final = 2.0**40
TREES: Final = "org.apache.solr.ltr.model.MultipleAdditiveTreesModel"
NETWORK: Final = "org.apache.solr.ltr.model.NeuralNetworkModel"
_NORM: Final = "org.apache.solr.ltr.norm."
_LARGEST: Final = 2.0**80
_LARGEST_FILE: Final = 1 << 30
_TRIED: Final = np.arange(-4, 5)


class Solr(Target):
    """A model to be put into Solr's model store."""

    single = True
    has_missing = False
    nearest = 1e-25

    def write(self, source: Source, path: Path) -> list[str]:
        """Write trees or layers."""
        model = _trees(source) if source.forest is not None else _network(source)
        path.write_text(json.dumps(model, allow_nan=False, ensure_ascii=False), encoding="utf-8")
        return []

    def scores(self, path: Path, parity: Parity) -> dict[str, Floats]:
        """By Solr's rule."""
        model = read_json(path, limit=_LARGEST_FILE)
        names = [str(field(one, "name")) for one in fields(model, "features")]
        places = {name: place for place, name in enumerate(parity.names)}
        unknown = [name for name in names if name not in places]
        require(not unknown, str(path), "of the parity file's features", unknown[:3])
        columns = parity.features[:, [places[name] for name in names]]
        inputs = _normalized(columns, field(model, "features"))
        if field(model, "class") == NETWORK:
            layers = fields(field(model, "params"), "layers")
            return {"Solr's rule": _by_layers(inputs, layers)}
        own = {name: place for place, name in enumerate(names)}
        trees = [
            flatten(field(tree, "root"), lambda node: _read_node(node, own), RULE)
            for tree in fields(field(model, "params"), "trees")
        ]
        return {"Solr's rule": walk(trees, inputs, RULE)}


def _model(kind: str, source: Source, features: list[Any], params: dict[str, Any]) -> Any:
    return {"class": kind, "name": source.name, "features": features, "params": params}


def _norm(kind: str, **params: str) -> dict[str, Any]:
    return {"norm": {"class": _NORM + kind, "params": params}}


def _trees(source: Source) -> Any:
    source.needs_trees("Solr")
    source.needs_numbers("Solr")
    source.needs_no_gaps("Solr")
    enlarged = _enlarged(source)
    features = [
        {"name": name} | (_norm("MinMaxNormalizer", min="0", max=repr(1 / FACTOR)) if big else {})
        for name, big in zip(source.names, enlarged, strict=True)
    ]
    trees = [{"weight": "1", "root": _root(tree, source.names, enlarged)} for tree in source.trees]
    return _model(TREES, source, features, {"trees": trees})


def _root(tree: RawTree, names: tuple[str, ...], enlarged: Array) -> Any:
    factor = np.where(enlarged[tree.feature], np.float32(FACTOR), np.float32(1))
    written = before_adding(tree.threshold * factor)

    def leaf(index: int) -> dict[str, str]:
        return {"value": repr(float(tree.leaf_value[index]))}

    def split(node: int, left: Any, right: Any) -> dict[str, Any]:
        name = names[tree.feature[node]]
        return {
            "feature": name, "threshold": repr(float(written[node])), "left": left, "right": right,
        }  # fmt: skip

    return nest(tree, leaf, split)


def _enlarged(source: Source) -> Array:
    """Features of which some threshold cannot be written as it is."""
    enlarged = np.zeros(len(source.names), dtype=bool)
    for tree in source.trees:
        missed = before_adding(tree.threshold) + ADDED != tree.threshold
        enlarged[tree.feature[missed]] = True
    for tree in source.trees:
        large = enlarged[tree.feature] & (np.abs(tree.threshold) >= _LARGEST)
        large &= tree.threshold < np.finfo(np.float32).max
        if large.any():
            name = source.names[int(tree.feature[large][0])]
            raise InputError(
                f"Solr adds 1e-6 to thresholds, and those of `{name}` lie near 0 and beyond 1e24: "
                f"export to onnx or lightgbm."
            )
    return enlarged


def before_adding(thresholds: Features) -> Features:
    """Numbers that become these when 1e-6 is added in single precision, or as near as can be.

    One that cannot be met stays on its side of 0: `x <= 0` is never taken for `x < 0`.

    >>> written = before_adding(np.array([0.1, 250.5, 0.0], dtype=np.float32))
    >>> written + np.float32(1e-6)
    array([1.000e-01, 2.505e+02, 0.000e+00], dtype=float32)
    """
    wanted: Ints = key_of(thresholds)
    first = key_of((thresholds.astype(np.float64) - float(ADDED)).astype(np.float32))
    last = int(key_of(np.finfo(np.float32).max))
    tried = of_keys(np.clip(first[:, None] + _TRIED, -last, last))
    became = tried + ADDED
    away = np.abs(became.astype(np.float64) - thresholds[:, None].astype(np.float64))
    away[(became >= 0) != (wanted[:, None] >= 0)] = np.inf
    best: Features = tried[np.arange(wanted.size), np.argmin(away, axis=1)]
    return best


def _network(source: Source) -> Any:
    layers = source.needs_layers("Solr")
    scaling = source.ranker.scaling
    features: list[Any] = [{"name": name} for name in source.names]
    if scaling.centre is not None and scaling.spread is not None:
        numbers = zip(scaling.centre.tolist(), scaling.spread.tolist(), strict=True)
        features = [
            one | _norm("StandardNormalizer", avg=repr(mean), std=repr(spread))
            for one, (mean, spread) in zip(features, numbers, strict=True)
        ]
    last = len(layers) - 1
    described = [
        {
            "matrix": weights.astype(np.float64).tolist(),
            "bias": bias.astype(np.float64).tolist(),
            "activation": "identity" if place == last else "relu",
        }
        for place, (weights, bias) in enumerate(layers)
    ]
    return _model(NETWORK, source, features, {"layers": described})


def _normalized(columns: Features, features: list[Any]) -> Features:
    """The features after their normalizers, in single precision."""
    scaled: Features = columns.copy()
    for place, one in enumerate(features):
        norm = one.get("norm")
        if norm is None:
            continue
        kind, params = str(field(norm, "class")).removeprefix(_NORM), field(norm, "params")
        names = {"StandardNormalizer": ("avg", "std"), "MinMaxNormalizer": ("min", "max")}
        require(kind in names, "norm", f"one of {sorted(names)}", kind)
        low, width = (np.float32(number(field(params, name))) for name in names[kind])
        if kind == "MinMaxNormalizer":
            width = width - low
        with np.errstate(over="ignore"):
            scaled[:, place] = (scaled[:, place] - low) / width
    return scaled


def _by_layers(inputs: Features, layers: list[Any]) -> Floats:
    """Products added to the bias one by one, in single precision."""
    for layer in layers:
        matrix, bias = (_numbers(layer, name) for name in ("matrix", "bias"))
        fits = matrix.ndim == 2 and matrix.shape == (bias.size, inputs.shape[1])
        require(fits, "matrix", f"of {inputs.shape[1]} columns", matrix.shape)
        outputs = np.tile(bias, (len(inputs), 1))
        for place in range(inputs.shape[1]):
            outputs += inputs[:, place, None] * matrix[None, :, place]
        kind = field(layer, "activation")
        require(kind in ("relu", "identity"), "activation", "relu or identity", kind)
        inputs = np.where(outputs < 0, np.float32(0), outputs) if kind == "relu" else outputs
    return inputs[:, 0].astype(np.float64)


def _numbers(layer: Any, name: str) -> Features:
    try:
        return np.array(fields(layer, name), dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"`{name}` of a layer must be numbers.") from error


def _read_node(node: Any, places: dict[str, int]) -> Split | float:
    if not has(node, "feature"):
        return number(field(node, "value"))
    name = str(node["feature"])
    if name not in places:
        raise InputError(f"the trees ask for a feature `{name}`, which the model does not list.")
    threshold = np.float32(number(field(node, "threshold"))) + ADDED
    return Split(places[name], float(threshold), field(node, "left"), field(node, "right"))
