"""Raw features to scores in an ONNX graph: scaling, encoding, then layers or trees.

Numbers are scaled in double precision and rounded to single precision, as the ranker does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from saferank._core.flat import Floats
from saferank.data.encoding import Encoding
from saferank.data.scaling import KINDS, Scaling
from saferank.serving.export.onnx_graph import Graph, onnx
from saferank.serving.export.raw_trees import RawTree
from saferank.serving.export.source import Source


def scores(graph: Graph, features: str, source: Source) -> str:
    """Scores of documents, one double each; production's are not added yet."""
    scaling = source.ranker.scaling
    if source.forest is None:
        inputs = scaled(graph, features, scaling)
        if scaling.encoding is not None:
            inputs = encoded(graph, features, inputs, scaling.encoding)
        return network(graph, inputs, source.layers)
    if KINDS[scaling.kind].within_query:
        return forest(graph, scaled(graph, features, scaling), source.scaled_trees)
    return forest(graph, features, source.trees)


def scaled(graph: Graph, features: str, scaling: Scaling) -> str:
    """The features as the scaling makes them, float32."""
    if KINDS[scaling.kind].within_query:
        return _within_query(graph, features)
    if scaling.centre is None or scaling.spread is None:
        return features
    values = graph.cast(features, "DOUBLE")
    if scaling.low is not None and scaling.high is not None:
        low, high = graph.constant(scaling.low), graph.constant(scaling.high)
        # a missing value is neither, and stays
        values = graph.op("Where", graph.op("Less", values, low), low, values)
        values = graph.op("Where", graph.op("Greater", values, high), high, values)
    if scaling.kind == "log1p":
        values = _signed_log1p(graph, values)
    values = graph.op("Sub", values, graph.constant(scaling.centre))
    return graph.cast(graph.op("Div", values, graph.constant(scaling.spread)), "FLOAT")


def _signed_log1p(graph: Graph, values: str) -> str:
    """sign(x) log(1 + |x|), exact for tiny x: with u = 1 + |x| it is log(u) |x| / (u - 1)."""
    one, size = graph.constant(1.0), graph.op("Abs", values)
    above = graph.op("Add", one, size)
    gained = graph.op("Sub", above, one)
    lost = graph.op("Equal", gained, graph.constant(0.0))
    ratio = graph.op("Div", size, graph.op("Where", lost, one, gained))
    exact = graph.op("Where", lost, size, graph.op("Mul", graph.op("Log", above), ratio))
    # beyond 2^53 the ratio is 1 or nearly so
    return graph.op("Mul", graph.op("Sign", values), exact)


def _within_query(graph: Graph, features: str) -> str:
    """To 0..1 within the list; 0 where all values are the same."""
    values = graph.cast(features, "DOUBLE")
    gap = graph.op("IsNaN", values)

    def end(kind: str, filled: float) -> str:
        filled_in = graph.op("Where", gap, graph.constant(filled), values)
        return graph.op(kind, filled_in, axes=[0], keepdims=1)

    low, high = end("ReduceMin", np.inf), end("ReduceMax", -np.inf)
    wider = graph.op("Greater", high, low)
    width = graph.op("Where", wider, graph.op("Sub", high, low), graph.constant(1.0))
    share = graph.op("Div", graph.op("Sub", values, low), width)
    share = graph.op("Where", graph.op("Or", wider, gap), share, graph.constant(0.0))
    return graph.cast(share, "FLOAT")


def encoded(graph: Graph, features: str, scaled_features: str, encoding: Encoding) -> str:
    """Columns as the encoding makes them: numbers, categories, marks of missing values."""

    def columns(value: str, places: Sequence[int]) -> str:
        return graph.op("Gather", value, graph.constant(list(places), np.int64), axis=1)

    numbers = columns(scaled_features, encoding.numbers)
    fill = graph.constant(np.array(encoding.fill)[list(encoding.numbers)], np.float32)
    parts = [graph.op("Where", graph.op("IsNaN", numbers), fill, numbers)]
    for place, count in zip(encoding.categories, encoding.levels, strict=True):
        own, level = columns(features, [place]), np.float32(count)
        same = graph.op("Equal", own, graph.constant(np.arange(count)[None, :], np.float32))
        other = graph.op("GreaterOrEqual", own, graph.constant(level, np.float32))
        parts += [graph.cast(same, "FLOAT"), graph.cast(other, "FLOAT")]
    if encoding.marked:
        gaps = graph.op("IsNaN", columns(features, encoding.marked))
        parts.append(graph.cast(gaps, "FLOAT"))
    return graph.op("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]


def network(graph: Graph, inputs: str, layers: Sequence[tuple[Floats, Floats]]) -> str:
    """Linear layers with ReLU between them."""
    for place, (weights, bias) in enumerate(layers):
        if place:
            inputs = graph.op("Relu", inputs)
        product = graph.op("MatMul", inputs, graph.constant(weights.T, np.float32))
        inputs = graph.op("Add", product, graph.constant(bias, np.float32))
    return _flat(graph, graph.cast(inputs, "DOUBLE"))


def forest(graph: Graph, features: str, trees: Sequence[RawTree]) -> str:
    """The sum of the leaves in double precision.

    The operator adds up doubles but returns float32: of every leaf it adds up a coarse part, whose
    sums are float32 numbers, and apart from it the rest, of which float32 keeps digits enough.
    """
    if not trees:
        zero = onnx().helper.make_tensor("zero", onnx().TensorProto.DOUBLE, [1], [0.0])
        return graph.op("ConstantOfShape", graph.count(features), value=zero)
    values = graph.cast(features, "DOUBLE")
    scores = graph.op("TreeEnsembleRegressor", values, domain="ai.onnx.ml", **_ensemble(trees))
    both = graph.cast(scores, "DOUBLE")
    return graph.op("ReduceSum", both, graph.constant([1], np.int64), keepdims=0)


def _flat(graph: Graph, column: str) -> str:
    return graph.op("Reshape", column, graph.constant([-1], np.int64))


def _ensemble(trees: Sequence[RawTree]) -> dict[str, Any]:
    """The attributes of the operator: nodes of a tree first, then its leaves."""
    nodes = np.array([tree.feature.size for tree in trees])
    leaves = np.array([tree.leaf_value.size for tree in trees])
    rows = [_rows(tree) for tree in trees]
    parts = (np.concatenate(part) for part in zip(*rows, strict=True))
    feature, threshold, missing, left, right = parts
    modes = [mode for n, m in zip(nodes, leaves, strict=True) for mode in _modes(int(n), int(m))]
    own = np.repeat(np.arange(len(trees)), nodes + leaves)
    within = np.concatenate([np.arange(size) for size in nodes + leaves])
    coarse, rest = _parts(trees)
    targets = np.concatenate([np.arange(m) + n for n, m in zip(nodes, leaves, strict=True)])
    return {
        "n_targets": 2,
        "nodes_treeids": own.tolist(),
        "nodes_nodeids": within.tolist(),
        "nodes_featureids": feature.tolist(),
        "nodes_modes": modes,
        "nodes_values_as_tensor": _tensor("thresholds", threshold),
        "nodes_truenodeids": left.tolist(),
        "nodes_falsenodeids": right.tolist(),
        "nodes_missing_value_tracks_true": missing.tolist(),
        "target_treeids": np.repeat(np.arange(len(trees)), 2 * leaves).tolist(),
        "target_nodeids": np.repeat(targets, 2).tolist(),
        "target_ids": [0, 1] * int(leaves.sum()),
        "target_weights_as_tensor": _tensor("leaves", np.stack([coarse, rest], 1).ravel()),
    }


def _parts(trees: Sequence[RawTree]) -> tuple[Floats, Floats]:
    """Leaves in multiples of a power of 2, no sum of which has more than 23 bits; and the rest."""
    largest = sum(float(np.abs(tree.leaf_value).max()) for tree in trees)
    grid = 2.0 ** (np.ceil(np.log2(largest)) - 22) if largest > 0 else 1.0
    leaves = np.concatenate([tree.leaf_value for tree in trees])
    coarse: Floats = np.round(leaves / grid) * grid
    return coarse, leaves - coarse


def _modes(nodes: int, leaves: int) -> list[str]:
    return ["BRANCH_LEQ"] * nodes + ["LEAF"] * leaves


def _rows(tree: RawTree) -> tuple[Any, ...]:
    nodes, leaves = tree.feature.size, tree.leaf_value.size
    none = np.zeros(leaves, dtype=np.int64)

    def place(children: Any) -> Any:
        return np.append(np.where(children >= 0, children, nodes + ~children), none)

    return (
        np.append(tree.feature, none),
        np.append(tree.threshold.astype(np.float64), none),
        np.append(tree.missing_left.astype(np.int64), none),
        place(tree.left),
        place(tree.right),
    )


def _tensor(name: str, values: Floats) -> Any:
    kind = onnx().TensorProto.DOUBLE
    return onnx().helper.make_tensor(name, kind, [values.size], values.tolist())
