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


def walk(features: Features, nodes: Nodes) -> Floats:
    """The sum of every document's leaves, tree by tree."""
    scores = np.zeros(features.shape[0])
    _walk(scores.size, features, nodes, scores)
    return scores
