"""LightGBM's own formats for raw features: text for LightGBM and Treelite, JSON for Vespa.

LightGBM goes left if `x <= threshold`. Vespa reads the JSON of LightGBM and asks `x < threshold`,
or `!(x >= threshold)` where a missing value goes left. Between two float32 numbers there is room
for both: the text has the largest double that rounds to the lower one, the JSON the smallest double
that rounds to the upper one. Doubles are then routed as the ranker does, which rounds them first.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from saferank._core.files import read_json, write_json
from saferank._core.flat import Floats
from saferank.errors import require
from saferank.scorers.tree_names import column_names
from saferank.scorers.tree_scorer import TreeScorer
from saferank.scorers.tree_text import Forest, Tree
from saferank.scorers.tree_walk import MISSING_NAN
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
from saferank.serving.export.raw_trees import RawTree, largest_double
from saferank.serving.export.source import Source
from saferank.serving.export.target import Target

OBJECTIVE: Final = "regression"
"""Scores are given as they are, by everyone who knows an objective by its name."""
LARGEST_FILE: Final = 1 << 30
VESPA: Final = Rule(strict=True, number=np.float64, knows_missing=True)


class LightGBMText(Target):
    """The model's text."""

    def write(self, source: Source, path: Path) -> list[str]:
        """Write the text of the trees on raw features."""
        source.needs_trees("LightGBM")
        path.write_text(raw_forest(source).text(OBJECTIVE), encoding="utf-8")
        return category_codes(source)

    def scores(self, path: Path, parity: Parity) -> dict[str, Floats]:
        """By LightGBM's rule, and by LightGBM and Treelite where they are installed."""
        scorer = TreeScorer.read(path, parity.features.shape[1])
        scores = {"LightGBM's rule": scorer.scores(parity.features)}
        return scores | _by_lightgbm(scorer, parity) | _by_treelite(scorer, parity)


class LightGBMJson(Target):
    """What `dump_model` gives, for Vespa."""

    def write(self, source: Source, path: Path) -> list[str]:
        """Write the JSON of the trees on raw features."""
        source.needs_trees("Vespa")
        write_json(path, _dump(source), "LightGBM model")
        return category_codes(source)

    def scores(self, path: Path, parity: Parity) -> dict[str, Floats]:
        """By Vespa's rule."""
        record = read_json(path, limit=LARGEST_FILE)
        trees = [
            flatten(field(tree, "tree_structure"), _read_node, VESPA)
            for tree in fields(record, "tree_info")
        ]
        return {"Vespa's rule": walk(trees, parity.features, VESPA)}


def category_codes(source: Source) -> list[str]:
    """What a caller must know of categories, which go to an engine as numbers."""
    names = [one.name for one in source.ranker.features.features if one.kind == "category"]
    if not names:
        return []
    few = ", ".join(f"`{name}`" for name in names[:5])
    return [f"A category goes in as its place among those in ranker.json, from 0: {few}."]


def raw_forest(source: Source) -> Forest:
    """The forest with its thresholds for raw features."""
    assert source.forest is not None
    forest = source.forest.forest
    trees = zip(forest.trees, source.trees, strict=True)
    infos = forest.infos if source.ranker.scaling.kind == "none" else ("none",) * forest.width
    return Forest(_names(source), infos, tuple(_raw_tree(*both) for both in trees))


def _names(source: Source) -> tuple[str, ...]:
    return column_names(source.ranker.features)


def _raw_tree(tree: Tree, raw: RawTree) -> Tree:
    threshold = largest_double(raw.threshold)
    decision = (MISSING_NAN << 2) | (raw.missing_left.astype(np.int64) << 1)
    words = dict(tree.words)
    lists = {
        "threshold": threshold, "decision_type": decision, "left_child": raw.left,
        "right_child": raw.right,
    }  # fmt: skip
    for name, values in lists.items():
        if values.size:
            words[name] = " ".join(repr(value) for value in values.tolist())
    return replace(
        tree, words=words, threshold=threshold, decision=decision, left=raw.left, right=raw.right
    )


def _dump(source: Source) -> dict[str, Any]:
    names = _names(source)
    return {
        "name": "tree", "version": "v4", "num_class": 1, "num_tree_per_iteration": 1,
        "label_index": 0, "max_feature_idx": len(names) - 1, "objective": OBJECTIVE,
        "average_output": False, "feature_names": list(names), "monotone_constraints": [],
        "feature_infos": {}, "feature_importances": {}, "pandas_categorical": [],
        "tree_info": [_dump_tree(place, tree) for place, tree in enumerate(source.trees)],
    }  # fmt: skip


def _dump_tree(place: int, tree: RawTree) -> dict[str, Any]:
    above = np.nextafter(largest_double(tree.threshold), np.inf)

    def split(node: int, left: Any, right: Any) -> dict[str, Any]:
        return {
            "split_index": node, "split_feature": int(tree.feature[node]),
            "threshold": float(above[node]), "decision_type": "<=", "missing_type": "NaN",
            "default_left": bool(tree.missing_left[node]), "left_child": left,
            "right_child": right,
        }  # fmt: skip

    def leaf(index: int) -> dict[str, Any]:
        return {"leaf_index": index, "leaf_value": float(tree.leaf_value[index])}

    return {
        "tree_index": place, "num_leaves": tree.leaf_value.size, "num_cat": 0, "shrinkage": 1,
        "tree_structure": nest(tree, leaf, split),
    }  # fmt: skip


def _read_node(node: Any) -> Split | float:
    if has(node, "leaf_value"):
        return number(node["leaf_value"])
    require(field(node, "decision_type") == "<=", "decision_type", "<=", node["decision_type"])
    return Split(
        int(number(field(node, "split_feature"))), number(field(node, "threshold")),
        field(node, "left_child"), field(node, "right_child"), bool(field(node, "default_left")),
    )  # fmt: skip


def _by_lightgbm(scorer: TreeScorer, parity: Parity) -> dict[str, Floats]:
    try:
        import lightgbm
    except ImportError:
        return {}
    if not scorer.trees:
        return {}  # LightGBM has no model without a tree
    model = lightgbm.Booster(model_str=scorer.forest.text(OBJECTIVE))
    return {"LightGBM": np.asarray(model.predict(parity.features), dtype=np.float64)}


def _by_treelite(scorer: TreeScorer, parity: Parity) -> dict[str, Floats]:
    try:
        import treelite
    except ImportError:
        return {}
    if not scorer.trees:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        # the text that was read, checked and written again: what is not trusted is not handed over
        path = Path(folder) / "model.txt"
        path.write_text(scorer.forest.text(OBJECTIVE), encoding="utf-8")
        model = treelite.frontend.load_lightgbm_model(path)
    scores = treelite.gtil.predict(model, parity.features.astype(np.float64), nthread=1)
    return {"Treelite": np.asarray(scores, dtype=np.float64).reshape(-1)}
