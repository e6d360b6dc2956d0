"""Rankings in an ONNX graph: drawn with uniforms that are an input, and mixed by the guard."""

from __future__ import annotations

import numpy as np

from saferank._core.flat import Floats
from saferank.errors import InputError
from saferank.evaluation.scored_policies import rank_weights
from saferank.safety.guard import Guard
from saferank.safety.losses import TOLERANCE, blind_share
from saferank.serving.export.onnx_exposure import sampled_exposure, sorted_exposure
from saferank.serving.export.onnx_graph import Graph


def sampled(graph: Graph, scores: str, k: int) -> None:
    r"""`ranking`: the first k of a Plackett-Luce draw.

    .. math:: \text{key}_d = s_d - \log(-\log u_d), \text{ the largest first}
    """
    _rank(graph, _keys(graph, scores), k)


def _keys(graph: Graph, scores: str) -> str:
    time = graph.op("Neg", graph.op("Log", "uniforms"))
    return graph.op("Sub", scores, graph.op("Log", time))


def _rank(graph: Graph, keys: str, k: int) -> None:
    length = graph.op("Min", graph.constant([k], np.int64), graph.count(keys))
    graph.rename(graph.ops("TopK", keys, length, outputs=2)[1], "ranking")


def guarded(graph: Graph, guard: Guard, k: int) -> None:
    """`ranking` by the guard: production's unless `chance` is below `share`."""
    if not guard.blind and (guard.mode != "mix" or guard.examination == "any"):
        raise InputError(
            "a graph holds the guard that mixes for given rank weights: run `saferank certify RUN "
            "--items ITEMS --guard --guard-mode mix` first, or serve with `saferank rank --guard`."
        )
    if guard.promise.has_floors:
        raise InputError(
            "a graph knows nothing of groups, and this guard keeps floors for them: serve with "
            "`saferank rank --guard --group COLUMN`."
        )
    weights = rank_weights(guard.weights, guard.new)
    if guard.production_kind == "uniform":
        zero = graph.constant(0.0)
        old = graph.op("Mul", "scores", zero)
    else:
        old = graph.op("Div", "production", graph.constant(guard.production_temperature))
    ways = ((guard.deployed, "scores"), (guard.production_deployed, old))
    graph.rename(_share(graph, guard, weights, ways), "share")
    graph.rename(graph.op("Less", "chance", "share"), "serves_new")
    keys = [values if way == "sorted" else _keys(graph, values) for way, values in ways]
    _rank(graph, graph.op("Where", "serves_new", *keys), k)


def _share(
    graph: Graph, guard: Guard, weights: Floats, ways: tuple[tuple[str, str], tuple[str, str]]
) -> str:
    """The largest share of the new ranker that keeps the promise, a vector of one."""
    most = 1 - guard.holdout
    if guard.blind:
        return graph.constant([min(blind_share(guard.promise.keep, guard.promise.slack), most)])
    new, old = (
        sorted_exposure(graph, values, weights)
        if way == "sorted"
        else sampled_exposure(graph, values, weights)
        for way, values in ways
    )
    shown = _first(graph, weights, graph.count("scores"))
    total = graph.op("ReduceSum", shown, graph.constant([0], np.int64), keepdims=1)
    slack = graph.op("Mul", total, graph.constant(guard.promise.slack))
    allowed = graph.op("Add", slack, graph.constant(TOLERANCE * weights.max()))
    lost = graph.op("Sub", old, new)
    given_up = graph.op("Mul", old, graph.constant(1 - guard.promise.keep))
    share = largest_within(graph, lost, given_up, allowed)
    return graph.op("Min", share, graph.constant([most])) if guard.holdout else share


def _first(graph: Graph, weights: Floats, count: str) -> str:
    """The weights of as many ranks as there are documents."""
    zero = graph.constant([0], np.int64)
    return graph.op("Slice", graph.constant(weights), zero, count)


def largest_within(graph: Graph, a: str, b: str, allowed: str) -> str:
    """The largest x in [0, 1] at which the sum of max(0, x a - b) is at most `allowed`.

    As `safety.losses.largest_within` finds it: by the points b/a where the sum bends, in order.
    """
    zero, one, none = (graph.constant([value]) for value in (0.0, 1.0, 1e300))
    axis, first = graph.constant(0, np.int64), graph.constant([0], np.int64)

    def total(values: str) -> str:
        return graph.op("ReduceSum", values, first, keepdims=1)

    def kept(mask: str, values: str, other: str = zero) -> str:
        return graph.op("Where", mask, values, other)

    loses = graph.op("Greater", a, zero)
    bends = kept(loses, graph.op("Div", b, kept(loses, a, one)), none)
    bends, order = graph.ops("TopK", bends, graph.count(a), outputs=2, largest=0)
    slopes = graph.op("Gather", kept(loses, a), order)
    levels = graph.op("Gather", kept(loses, b), order)
    before = [graph.op("CumSum", values, axis, exclusive=1) for values in (slopes, levels)]
    height = graph.op("Sub", graph.op("Mul", before[0], bends), before[1])
    inside = graph.op("And", graph.op("Less", bends, one), graph.op("LessOrEqual", height, allowed))
    slope, level = total(kept(inside, slopes)), total(kept(inside, levels))
    flat = graph.op("LessOrEqual", slope, zero)
    x = graph.op("Div", graph.op("Add", allowed, level), kept(flat, one, slope))
    x = graph.op("Max", zero, graph.op("Min", one, x))
    loss = total(graph.op("Max", graph.op("Sub", a, b), zero))
    safe = graph.op("Or", flat, graph.op("LessOrEqual", loss, allowed))
    return kept(safe, one, x)
