"""Boosted trees as a scorer, kept as LightGBM's own model text: any LightGBM can load it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from saferank.data.ranking import Features
from saferank.errors import InputError, MissingExtraError, require
from saferank.flat import Floats
from saferank.rankers.tree_text import check_text

_LARGEST = 1 << 30  # bytes of a model's file


def lightgbm() -> Any:
    """The LightGBM package, or how to install it."""
    try:
        import lightgbm
    except ImportError as error:
        raise MissingExtraError("lightgbm", "boosting") from error
    return lightgbm


@dataclass(frozen=True)
class TreeScorer:
    """A LightGBM model of any number of trees; 0 for every document where there is none."""

    text: str
    width: int

    @property
    def kind(self) -> str:
        """The scorer's name in the table of scorers."""
        return "trees"

    @cached_property
    def booster(self) -> Any:
        """The model as LightGBM has it."""
        return lightgbm().Booster(model_str=self.text)

    @property
    def trees(self) -> int:
        """Number of trees."""
        return int(self.booster.num_trees())

    @classmethod
    def empty(cls, width: int) -> Self:
        """No tree yet."""
        require(width >= 1, "features", "at least 1 for trees", width)
        package = lightgbm()
        quiet = {"objective": "custom", "verbosity": -1}
        nothing = package.Dataset(np.zeros((1, width), dtype=np.float32), params=quiet)
        made = package.Booster(quiet, nothing)
        return cls(made.model_to_string(), width)

    @classmethod
    def read(cls, path: Path, width: int | None = None) -> Self:
        """Read a LightGBM model file, which need not be to be trusted."""
        require(path.is_file(), "path", "a LightGBM model file", str(path))
        size = path.stat().st_size
        require(size <= _LARGEST, str(path), f"at most {_LARGEST} bytes", size)
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"`{path}` must be a LightGBM model's text; {error}.") from error
        found = check_text(text)
        require(width in (None, found), "width", f"the {found} features of the trees", width)
        scorer = cls(text, found)
        try:
            require(scorer.trees >= 0, "trees", "a count", scorer.trees)
        except lightgbm().basic.LightGBMError as error:
            raise InputError(f"`{path}` must be a LightGBM model; {error}") from error
        return scorer

    def scores(self, features: Features) -> Floats:
        """One score a document."""
        if features.shape[0] == 0:
            return np.zeros(0)
        found = self.booster.predict(features, raw_score=True)
        return np.asarray(found, dtype=np.float64)

    def copy(self) -> Self:
        """The same scorer; nothing here can change."""
        return self

    def silenced(self) -> Self:
        """A scorer that says 0 for every document and can still learn."""
        return type(self).empty(self.width)

    def fingerprint(self) -> str:
        """A name for the trees."""
        return hashlib.blake2b(self.text.encode(), digest_size=16).hexdigest()

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the model text; returns what loading needs beside it."""
        (folder / "scorer.txt").write_text(self.text, encoding="utf-8")
        return {"width": self.width}
