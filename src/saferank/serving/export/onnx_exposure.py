r"""Exposures in an ONNX graph: of a sorted list, and of Plackett-Luce by the race of `exposures`.

.. math:: \omega(d) = \int x_d\, q_d \sum_a \text{pre}_d[a]\, v_{d+1}[a] \; d\log t

with the quadrature of `plackett_luce.nodes`; two scans over the documents carry prefix and suffix
at all times at once.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from saferank._core.flat import Floats
from saferank.plackett_luce import nodes
from saferank.plackett_luce.exact import TOLERANCE
from saferank.serving.export.onnx_graph import Graph, onnx

_GAP: Final = 40.0
"""A document this far behind comes first with a chance of e^-40: more would tell no more."""


def sorted_exposure(graph: Graph, scores: str, weights: Floats) -> str:
    """The weight of each document's rank when sorted by score, ties in their order."""
    count = graph.count(scores)
    order = graph.ops("TopK", scores, count, outputs=2)[1]
    zeros = graph.op("Mul", graph.op("Cast", order, to=_double()), graph.constant(0.0))
    padded = graph.op("Concat", graph.constant(weights), zeros, axis=0)
    by_rank = graph.op("Slice", padded, graph.constant([0], np.int64), count)
    return graph.op("ScatterElements", zeros, order, by_rank, axis=0)


def sampled_exposure(graph: Graph, scores: str, weights: Floats) -> str:
    """The expected weight of each document's rank under Plackett-Luce."""
    count = graph.count(scores)
    ordered, order = graph.ops("TopK", scores, count, outputs=2)
    closed = _close_gaps(graph, ordered, count)
    time, share = _nodes(graph, closed, count, weights.size)
    x = graph.op("Exp", graph.op("Add", _as_column(graph, closed), time))
    x = graph.op("Min", x, graph.constant(700.0))
    q = graph.op("Exp", graph.op("Neg", x))
    p = graph.op("Sub", graph.constant(1.0), q)
    joint = _joint(graph, q, p, share, weights)
    each = graph.op("Mul", graph.op("Mul", x, q), graph.op("Mul", joint, share))
    omega = graph.op("ReduceSum", each, graph.constant([1], np.int64), keepdims=0)
    zeros = graph.op("Mul", omega, graph.constant(0.0))
    return graph.op("ScatterElements", zeros, order, omega, axis=0)


def _double() -> int:
    return int(onnx().TensorProto.DOUBLE)


def _as_column(graph: Graph, vector: str) -> str:
    return graph.op("Unsqueeze", vector, graph.constant([1], np.int64))


def _close_gaps(graph: Graph, ordered: str, count: str) -> str:
    """Scores from 0 down, none further behind the one before it than `_GAP`."""
    zero, one = graph.constant([0], np.int64), graph.constant([1], np.int64)
    first = graph.op("Slice", ordered, zero, one)
    before = graph.op("Concat", first, ordered, axis=0)
    before = graph.op("Slice", before, zero, count)
    gap = graph.op("Min", graph.op("Sub", before, ordered), graph.constant(_GAP))
    return graph.op("Neg", graph.op("CumSum", gap, graph.constant(0, np.int64)))


def _nodes(graph: Graph, closed: str, count: str, ranks: int) -> tuple[str, str]:
    """log t at each node, and the weights of the quadrature; see `plackett_luce.nodes`."""
    grid = nodes.grid(TOLERANCE, ranks, 0)
    first, one = graph.constant([0], np.int64), graph.constant([1], np.int64)

    def total(values: str) -> str:
        return graph.op("ReduceSum", values, first, keepdims=1)

    def curve(y: str) -> str:
        return graph.op("Exp", graph.op("Sub", graph.constant(nodes.BEND), y))

    length = graph.op("Min", graph.constant([ranks], np.int64), count)
    last = graph.op("Gather", closed, graph.op("Sub", length, one))
    origin = graph.op("Log", total(graph.op("Exp", closed)))
    behind = graph.op("Min", graph.op("Sub", closed, last), graph.constant(0.0))
    others = graph.cast(graph.op("Sub", length, one), "DOUBLE")
    rest = graph.op("Sub", total(graph.op("Exp", behind)), others)
    waited = graph.op("Log", graph.op("Div", graph.constant(grid.rho), rest))
    end = graph.op("Add", graph.op("Sub", waited, last), origin)
    window = graph.op("Sub", graph.op("Add", end, curve(end)), graph.constant(grid.left))
    number = graph.op("Ceil", graph.op("Div", window, graph.constant(grid.step)))
    step = graph.op("Div", window, number)
    scalar = graph.op("Squeeze", number, first)
    places = graph.op("Range", graph.constant(0.0), scalar, graph.constant(1.0))
    middle = graph.op("Add", places, graph.constant(0.5))
    y = graph.op("Add", graph.op("Mul", middle, step), graph.constant(grid.left))
    bend = curve(y)
    time = graph.op("Sub", graph.op("Sub", y, bend), origin)
    return time, graph.op("Mul", graph.op("Add", bend, graph.constant(1.0)), step)


def _joint(graph: Graph, q: str, p: str, share: str, weights: Floats) -> str:
    """sum_a pre_d[a] v_{d+1}[a] of each document at each node."""
    zeros = graph.op("Mul", _as_column(graph, share), graph.constant(0.0))
    start = graph.op("Add", zeros, graph.constant(np.eye(1, weights.size)))
    end = graph.op("Add", zeros, graph.constant(weights[None, :]))
    later = graph.constant(np.eye(weights.size, k=1))
    sooner = graph.constant(np.eye(weights.size, k=-1))
    pre = _scan(graph, start, q, p, later, backwards=False)
    v = _scan(graph, end, q, p, sooner, backwards=True)
    product = graph.op("Mul", pre, v)
    return graph.op("ReduceSum", product, graph.constant([2], np.int64), keepdims=0)


def _scan(graph: Graph, start: str, q: str, p: str, shift: str, *, backwards: bool) -> str:
    """The state before each document; a document makes it q state + p (state @ shift)."""
    helper, types = onnx().helper, onnx().TensorProto
    body = Graph(prefix=f"scan_{len(graph.nodes)}_")
    stays = body.op("Mul", _as_column(body, "own_q"), "state")
    moves = body.op("Mul", _as_column(body, "own_p"), body.op("MatMul", "state", shift))
    body.rename(body.op("Add", stays, moves), "next")
    body.rename("state", "before")

    def info(name: str, rank: int) -> Any:
        return helper.make_tensor_value_info(name, types.DOUBLE, [None] * rank)

    inner = helper.make_graph(
        body.nodes,
        f"scan_{len(graph.nodes)}",
        [info("state", 2), info("own_q", 1), info("own_p", 1)],
        [info("next", 2), info("before", 2)],
        body.constants,
    )
    way = int(backwards)
    return graph.ops(
        "Scan", start, q, p, outputs=2, body=inner, num_scan_inputs=2,
        scan_input_directions=[way, way], scan_output_directions=[way],
    )[1]  # fmt: skip
