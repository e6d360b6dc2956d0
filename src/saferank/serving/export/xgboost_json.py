"""`model/xgboost+json` of the Elasticsearch and OpenSearch plugins for learning to rank.

They go left if `x < split_condition`, in single precision: the condition is the next float32 number
above our threshold. OpenSearch follows `missing`; in Elasticsearch's plugin it has no effect.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np

from saferank._core.files import read_json
from saferank._core.flat import Floats
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
from saferank.serving.export.raw_trees import RawTree, next_above
from saferank.serving.export.source import Source
from saferank.serving.export.target import Target

RULE: Final = Rule(strict=True, number=np.float32, knows_missing=True)
_LARGEST_FILE: Final = 1 << 30


class XGBoostJson(Target):
    """The definition of a model: a list of trees."""

    single = True

    def write(self, source: Source, path: Path) -> list[str]:
        """Write the trees; every feature that they ask for must be in the engine's feature set."""
        source.needs_trees("model/xgboost+json")
        source.needs_numbers("model/xgboost+json")
        trees = [_tree(tree, source.names) for tree in source.trees]
        path.write_text(json.dumps(trees, allow_nan=False, ensure_ascii=False), encoding="utf-8")
        if not any(tree.knows_missing.any() for tree in source.trees):
            return []
        return [
            "This ranker knows missing values: OpenSearch follows `missing`, Elasticsearch's "
            "plugin does not, and takes them for 0."
        ]

    def scores(self, path: Path, parity: Parity) -> dict[str, Floats]:
        """By the plugins' rule."""
        places = {name: place for place, name in enumerate(parity.names)}
        record = read_json(path, limit=_LARGEST_FILE)
        require(isinstance(record, list), str(path), "a list of trees", type(record).__name__)

        def read(node: Any) -> Split | float:
            return _read_node(node, places)

        trees = [flatten(tree, read, RULE) for tree in record]
        return {"the plugins' rule": walk(trees, parity.features, RULE)}


def _tree(tree: RawTree, names: tuple[str, ...]) -> Any:
    above = next_above(tree.threshold)
    depth = _depths(tree)
    leaves = np.arange(tree.leaf_value.size) + tree.feature.size

    def number_of(child: int) -> int:
        return int(child) if child >= 0 else int(leaves[~child])

    def leaf(index: int) -> dict[str, Any]:
        return {"nodeid": int(leaves[index]), "leaf": float(tree.leaf_value[index])}

    def split(node: int, left: Any, right: Any) -> dict[str, Any]:
        yes, no = number_of(tree.left[node]), number_of(tree.right[node])
        return {
            "nodeid": node, "depth": depth[node], "split": names[tree.feature[node]],
            "split_condition": float(above[node]), "yes": yes, "no": no,
            "missing": yes if tree.missing_left[node] else no, "children": [left, right],
        }  # fmt: skip

    return nest(tree, leaf, split)


def _depths(tree: RawTree) -> list[int]:
    depth = [0] * tree.feature.size
    for node in range(tree.feature.size):
        for child in (tree.left[node], tree.right[node]):
            if child >= 0:
                depth[int(child)] = depth[node] + 1
    return depth


def _read_node(node: Any, places: dict[str, int]) -> Split | float:
    if has(node, "leaf"):
        return number(node["leaf"])
    name, children = str(field(node, "split")), fields(node, "children")
    if name not in places:
        raise InputError(f"the trees ask for a feature `{name}`, which the parity file lacks.")
    yes, no = field(node, "yes"), field(node, "no")
    paired = [field(child, "nodeid") for child in children] == [yes, no]
    require(paired, "children", "those of `yes` and `no`, in this order", (yes, no))
    condition = number(field(node, "split_condition"))
    left, right = children
    return Split(places[name], condition, left, right, field(node, "missing") == yes)
