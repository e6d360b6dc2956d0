"""Scores of boosted trees in compiled code, to the last bit those of LightGBM.

Serving needs no LightGBM, and so none of its threads: they hang in a process that was forked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from saferank._core.flat import Array, Floats, Ints
from saferank._core.kernels import inlined, parallel_kernel
from saferank.data.ranking import Features
from saferank.scorers.tree_text import Tree

_ZERO = float(np.float32(1e-35))
"""LightGBM takes what is not larger for 0."""
_MISSING_ZERO, MISSING_NAN = 1, 2
_TOGETHER = 16
"""Documents that go down a tree side by side."""


class Nodes(NamedTuple):
    """Nodes and leaves of all trees, one tree after the other; children count within their tree."""

    node_start: Ints
    leaf_start: Ints
    feature: npt.NDArray[np.int32]
    threshold: Floats
    decision: npt.NDArray[np.uint8]
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    leaf_value: Floats


class Slots(NamedTuple):
    """Nodes and leaves alike, for values of which none is missing; a leaf leads to itself.

    No step then depends on a guess of the processor, and some documents go down side by side.
    """

    start: Ints
    """Of each tree its first slot, the root."""
    depth: Ints
    feature: npt.NDArray[np.int32]
    threshold: Floats
    next: npt.NDArray[np.int32]
    """Two for each slot: where values up to the threshold go, and where larger ones go."""
    value: Floats


def nodes_of(trees: Sequence[Tree]) -> Nodes:
    """The trees in flat arrays."""

    def joined(name: str, kind: npt.DTypeLike) -> Array:
        return np.concatenate([np.zeros(0), *(getattr(t, name) for t in trees)]).astype(kind)

    def starts(name: str) -> Ints:
        return np.cumsum([0, *(getattr(t, name).size for t in trees)], dtype=np.int64)

    return Nodes(
        starts("feature"),
        starts("leaf_value"),
        joined("feature", np.int32),
        joined("threshold", np.float64),
        joined("decision", np.uint8),
        joined("left", np.int32),
        joined("right", np.int32),
        joined("leaf_value", np.float64),
    )


def slots_of(nodes: Nodes) -> Slots | None:
    """The same as slots; None where a split takes zero for missing."""
    if np.any(nodes.decision >> 2 == _MISSING_ZERO):
        return None
    inner, leaves = np.diff(nodes.node_start), np.diff(nodes.leaf_start)
    cuts = np.concatenate([[0], np.cumsum(inner + leaves)])
    start, size = cuts[:-1], int(cuts[-1])
    tree = np.repeat(np.arange(inner.size), inner)
    own = np.arange(tree.size) + nodes.leaf_start[tree]  # after the leaves of the trees before
    is_leaf = np.ones(size, dtype=np.bool_)
    is_leaf[own] = False
    feature, threshold, value = np.zeros(size, np.int32), np.full(size, np.inf), np.zeros(size)
    feature[own], threshold[own], value[is_leaf] = nodes.feature, nodes.threshold, nodes.leaf_value
    following = np.repeat(np.arange(size), 2).reshape(size, 2)
    for side, child in enumerate((nodes.left.astype(np.int64), nodes.right.astype(np.int64))):
        leaf = start[tree] + inner[tree] + ~child
        following[own, side] = np.where(child >= 0, start[tree] + child, leaf)
    flat = following.ravel().astype(np.int32)
    return Slots(start, _depths(start, following, is_leaf), feature, threshold, flat, value)


def _depths(start: Ints, following: Ints, is_leaf: npt.NDArray[np.bool_]) -> Ints:
    """Steps from each root to its deepest leaf."""
    depth = np.zeros(start.size, dtype=np.int64)
    tree, slots = np.arange(start.size), start
    while slots.size:
        inside = ~is_leaf[slots]
        tree, slots = np.repeat(tree[inside], 2), following[slots[inside]].ravel()
        depth[np.unique(tree)] += 1
    return depth


@inlined
def _goes_left(value: float, threshold: float, decision: int) -> bool:
    """LightGBM's rule: missing values go the way that training chose, others by the threshold."""
    missing = decision >> 2
    if abs(value) <= _ZERO or (np.isnan(value) and missing != MISSING_NAN):
        value = 0.0
    is_missing = (missing == _MISSING_ZERO and value == 0.0) or np.isnan(value)
    return (decision & 2) != 0 if is_missing else value <= threshold


@parallel_kernel
def _walk(start: int, stop: int, features: Features, nodes: Nodes, scores: Floats) -> None:
    for row in range(start, stop):
        total = 0.0
        for tree in range(nodes.node_start.size - 1):
            first = nodes.node_start[tree]
            child = 0 if nodes.node_start[tree + 1] > first else -1
            while child >= 0:
                at = first + child
                value = np.float64(features[row, nodes.feature[at]])
                if _goes_left(value, nodes.threshold[at], nodes.decision[at]):
                    child = nodes.left[at]
                else:
                    child = nodes.right[at]
            total += nodes.leaf_value[nodes.leaf_start[tree] + ~child]
        scores[row] = total


@parallel_kernel
def _walk_together(start: int, stop: int, features: Features, slots: Slots, scores: Floats) -> None:
    rows, at = np.empty((_TOGETHER, features.shape[1])), np.empty(_TOGETHER, np.int64)
    for begin in range(start, stop, _TOGETHER):
        count = min(_TOGETHER, stop - begin)
        for row in range(count):
            for column in range(features.shape[1]):
                value = np.float64(features[begin + row, column])
                rows[row, column] = 0.0 if abs(value) <= _ZERO else value
        for tree in range(slots.start.size):
            at[:] = slots.start[tree]
            for _ in range(slots.depth[tree]):
                for row in range(count):
                    slot = at[row]
                    above = rows[row, slots.feature[slot]] > slots.threshold[slot]
                    at[row] = slots.next[2 * slot + np.int64(above)]
            for row in range(count):
                scores[begin + row] += slots.value[at[row]]


def walk(features: Features, nodes: Nodes, slots: Slots | None = None) -> Floats:
    """The sum of every document's leaves, tree by tree; with `slots` the same bits, sooner."""
    scores = np.zeros(features.shape[0])
    if slots is None or np.isnan(features).any():
        _walk(scores.size, features, nodes, scores)
    else:
        _walk_together(scores.size, features, slots, scores)
    return scores
