"""Boosted trees as a scorer, saved as LightGBM's own model text: any LightGBM can load it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from saferank._core.flat import Floats
from saferank._core.storage import map_rows
from saferank.data.features import FeatureSchema
from saferank.data.ranking import Features
from saferank.errors import InputError, MissingExtraError, require
from saferank.scorers.tree_names import column_names
from saferank.scorers.tree_text import Forest
from saferank.scorers.tree_walk import MISSING_NAN, Nodes, Slots, nodes_of, slots_of, walk

_LARGEST = 1 << 30  # bytes of a model's file


def lightgbm() -> Any:
    """The LightGBM package, or how to install it."""
    try:
        import lightgbm
    except ImportError as error:
        raise MissingExtraError("lightgbm", "boosting") from error
    return lightgbm


@dataclass(frozen=True, eq=False)
class TreeScorer:
    """Boosted trees of any number; 0 for every document where there is none."""

    forest: Forest

    @property
    def kind(self) -> str:
        """The scorer's name in the table of scorers."""
        return "trees"

    @property
    def width(self) -> int:
        """Number of features."""
        return self.forest.width

    @property
    def features(self) -> FeatureSchema:
        """The features by the names of the model's text; LightGBM's own names are numbers."""
        numbered = FeatureSchema.numbered(self.width)
        if self.forest.names == column_names(numbered):
            return numbered
        return FeatureSchema.of_names(self.forest.names)

    def knows_gaps(self) -> list[int]:
        """Features whose missing values every split treats as such, or on which none is made."""
        blind = {
            int(feature)
            for tree in self.forest.trees
            for feature, decision in zip(tree.feature, tree.decision, strict=True)
            if decision >> 2 != MISSING_NAN
        }
        return [feature for feature in range(self.width) if feature not in blind]

    def named(self, schema: FeatureSchema) -> Self:
        """The same trees under the names of a schema."""
        return type(self)(replace(self.forest, names=column_names(schema)))

    @property
    def trees(self) -> int:
        """Number of trees."""
        return len(self.forest.trees)

    @cached_property
    def text(self) -> str:
        """The model's text, which any LightGBM can load."""
        return self.forest.text()

    @cached_property
    def booster(self) -> Any:
        """The model as LightGBM has it, to grow more trees."""
        return lightgbm().Booster(model_str=self.text)

    @cached_property
    def _nodes(self) -> Nodes:
        return nodes_of(self.forest.trees)

    @cached_property
    def _slots(self) -> Slots | None:
        return slots_of(self._nodes)

    @classmethod
    def empty(cls, width: int) -> Self:
        """No tree yet."""
        require(width >= 1, "features", "at least 1 for trees", width)
        return cls(Forest(column_names(FeatureSchema.numbered(width)), ("none",) * width))

    @classmethod
    def read(cls, path: Path, width: int | None = None) -> Self:
        """Read a LightGBM model file, which need not be to be trusted."""
        require(path.is_file(), "path", "a LightGBM model file", str(path))
        size = path.stat().st_size
        require(size <= _LARGEST, str(path), f"at most {_LARGEST} bytes", size)
        try:
            text = path.read_bytes().decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"`{path}` must be a LightGBM model's text; {error}.") from error
        forest = Forest.parse(text)
        same = width in (None, forest.width)
        require(same, "width", f"the {forest.width} features of the trees", width)
        return cls(forest)

    def first(self, trees: int) -> Self:
        """The scorer of the first trees only."""
        return type(self)(self.forest.first(trees))

    def scores(self, features: Features) -> Floats:
        """One score per document."""
        return map_rows(self._some, features)

    def _some(self, features: Features) -> Floats:
        return walk(np.ascontiguousarray(features, dtype=np.float32), self._nodes, self._slots)

    def copy(self) -> Self:
        """The same scorer; nothing here can change."""
        return self

    def silenced(self) -> Self:
        """A scorer that says 0 for every document and can still learn."""
        return type(self).empty(self.width)

    def towards(self, start: Self, way: float) -> Self:
        """The start's trees, and a share of the leaves of those that were grown since."""
        grown = tuple(tree.scaled(way) for tree in self.forest.trees[start.trees :])
        trees = self.forest.trees[: start.trees] + grown
        return type(self)(replace(self.forest, trees=trees))

    def fingerprint(self) -> str:
        """A name for the trees."""
        return hashlib.blake2b(self.text.encode(), digest_size=16).hexdigest()

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the model text; returns what loading needs beside it."""
        (folder / "scorer.txt").write_text(self.text, encoding="utf-8")
        return {"width": self.width}
