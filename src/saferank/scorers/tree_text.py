"""LightGBM's model text, read without LightGBM: parsed, checked, and written again in one form.

LightGBM follows the sizes and indices that it reads, so text that is not to be trusted never
reaches it. What is read here is a header, trees of `name=value` lines that end with a blank line,
and `end of trees`; what follows (importances, training parameters) is left out. A field that is
unknown, missing, given twice or of another length is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np

from saferank._core.flat import Array, Floats, Ints
from saferank.errors import InputError, require

MOST_FEATURES: Final = 1_000_000
MOST_LEAVES: Final = 131_072  # of one tree, as in LightGBM

_WHOLE: Final = r"-?[0-9]{1,10}"
_REAL: Final = r"-?[0-9]{1,20}(?:\.[0-9]{1,25})?(?:e[+-]?[0-9]{1,3})?"
_WHOLE_NUMBERS: Final = re.compile(f"{_WHOLE}(?: {_WHOLE})*")
_NUMBERS: Final = re.compile(f"{_REAL}(?: {_REAL})*")
# a threshold without end parts the values that are missing from all others
_THRESHOLD: Final = f"(?:-?inf|{_REAL})"
_THRESHOLDS: Final = re.compile(f"{_THRESHOLD}(?: {_THRESHOLD})*")
_RANGE: Final = re.compile(rf"\[{_REAL}:{_REAL}\]")

_HEADER: Final = frozenset(
    {
        "version", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx",
        "objective", "feature_names", "feature_infos", "tree_sizes", "monotone_constraints",
    }
)  # fmt: skip
# The lists of a tree, in the order in which LightGBM writes them: one value per node or per leaf.
_LISTS: Final = (
    "split_feature", "split_gain", "threshold", "decision_type", "left_child", "right_child",
    "leaf_value", "leaf_weight", "leaf_count", "internal_value", "internal_weight",
    "internal_count",
)  # fmt: skip
_PER_LEAF: Final = frozenset({"leaf_value", "leaf_weight", "leaf_count"})
_WHOLE_LISTS: Final = frozenset(
    {"split_feature", "decision_type", "left_child", "right_child", "leaf_count", "internal_count"}
)
_STATISTICS: Final = frozenset(
    {"split_gain", "leaf_weight", "leaf_count", "internal_value", "internal_weight"}
    | {"internal_count"}
)
"""What LightGBM notes of the training; no score depends on it, and a tree may do without."""
_SINGLE: Final = frozenset({"num_leaves", "num_cat", "is_linear", "shrinkage"})
# bit 0: categorical; bit 1: missing values go left; bits 2 and 3: what counts as missing
_DECISIONS: Final = (0, 2, 4, 6, 8, 10)


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree: its lists in LightGBM's words, and the arrays that a walk needs, checked.

    A negative child is the leaf `~child`, any other a later node; every leaf and every node but
    the first is the child of exactly one node, so that a walk ends in a leaf.
    """

    words: dict[str, str]
    feature: Ints
    threshold: Floats
    decision: Ints
    left: Ints
    right: Ints
    leaf_value: Floats

    @classmethod
    def parse(cls, fields: dict[str, str], width: int, name: str) -> Self:
        """The tree of its lines, or `InputError` that names what is malformed."""
        unknown = fields.keys() - {*_LISTS, *_SINGLE}
        require(not unknown, name, "of known fields", _few(unknown))
        leaves = _whole(fields, "num_leaves")
        require(1 <= leaves <= MOST_LEAVES, f"{name}: num_leaves", f"in 1..{MOST_LEAVES}", leaves)
        for key, kind in (("is_linear", "constant leaves"), ("num_cat", "numeric splits")):
            word = fields.get(key, "0")
            require(word == "0", name, f"with {kind}", f"{key}={word[:20]}")
        lists = {key: _numbers(fields, key, leaves, name) for key in _LISTS}
        factor = fields.get("shrinkage", "1")
        is_number = re.fullmatch(_REAL, factor) is not None
        require(is_number, f"{name}: shrinkage", "a number", factor[:20])
        left, right = lists["left_child"], lists["right_child"]
        _check_splits(lists["split_feature"], lists["decision_type"], width, name)
        _check_children(left, right, name)
        words = {"num_leaves": str(leaves), "num_cat": "0"}
        # LightGBM aborts the process at a list that is there and empty
        words |= {key: fields.get(key, "") for key in _LISTS if fields.get(key) or leaves == 1}
        words |= {"is_linear": "0", "shrinkage": factor}
        return cls(
            words,
            lists["split_feature"],
            lists["threshold"],
            lists["decision_type"],
            left,
            right,
            lists["leaf_value"],
        )

    def scaled(self, factor: float) -> Self:
        """The tree with its leaves multiplied."""
        leaves = self.leaf_value * factor
        text = " ".join(f"{leaf:.17g}" for leaf in leaves)
        return replace(self, words={**self.words, "leaf_value": text}, leaf_value=leaves)

    def text(self, number: int) -> str:
        """The tree as the `number`-th of a model's text."""
        lines = "".join(f"{key}={value}\n" for key, value in self.words.items())
        return f"Tree={number}\n{lines}\n\n"


@dataclass(frozen=True, eq=False)
class Forest:
    """The trees of a model; a score is the sum of their leaves.

    >>> forest = Forest.parse(Forest(("bm25", "age"), ("none", "none")).text())
    >>> forest.width, len(forest.trees)
    (2, 0)
    """

    names: tuple[str, ...]
    infos: tuple[str, ...]
    """What LightGBM noted of each feature: its range in training, or `none`."""
    trees: tuple[Tree, ...] = ()

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.names)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The trees of a model's text, or `InputError` that names what is malformed."""
        sections = _sections(text.replace("\r\n", "\n"))
        header = next(sections)
        unknown = header.keys() - _HEADER
        require(not unknown, "model", "a sum of trees with known fields", _few(unknown))
        width = _whole(header, "max_feature_idx") + 1
        rule = f"in 0..{MOST_FEATURES - 1}"
        require(1 <= width <= MOST_FEATURES, "max_feature_idx", rule, width - 1)
        for key in ("num_class", "num_tree_per_iteration"):
            require(_whole(header, key) == 1, key, "1: a model of one score", header[key])
        names, infos = (
            header.get(key, "").split(" ") for key in ("feature_names", "feature_infos")
        )
        for key, words in (("feature_names", names), ("feature_infos", infos)):
            require(len(words) == width, key, f"{width} words", len(words))
        for name in names:
            require(bool(name) and name.isprintable(), "feature_names", "printable", name[:20])
        trees = tuple(
            Tree.parse(fields, width, f"tree {number}") for number, fields in enumerate(sections)
        )
        _check_sizes(header, len(trees))
        kept = (info if _RANGE.fullmatch(info) else "none" for info in infos)
        return cls(tuple(names), tuple(kept), trees)

    def first(self, count: int) -> Self:
        """The same with the first `count` trees only."""
        return type(self)(self.names, self.infos, self.trees[:count])

    def text(self, objective: str | None = None) -> str:
        """A model's text that holds nothing but what was checked, and an objective's name."""
        trees = [tree.text(number) for number, tree in enumerate(self.trees)]
        header = {
            "version": "v4",
            "num_class": "1",
            "num_tree_per_iteration": "1",
            "label_index": "0",
            "max_feature_idx": str(self.width - 1),
            **({} if objective is None else {"objective": objective}),
            "feature_names": " ".join(self.names),
            "feature_infos": " ".join(self.infos),
            "tree_sizes": " ".join(str(len(tree)) for tree in trees),
        }
        lines = "".join(f"{key}={value}\n" for key, value in header.items())
        return f"tree\n{lines}\n{''.join(trees)}end of trees\n\npandas_categorical:null\n"


def _sections(text: str) -> Iterator[dict[str, str]]:
    """The fields of the header, then those of each tree up to `end of trees`."""
    lines = iter(text.split("\n"))
    first = next(lines)
    require(first == "tree", "model", "a LightGBM model's text", first[:20])
    yield _fields(lines, "header")
    number = 0
    for line in lines:
        if line == "end of trees":
            return
        if line == "":
            continue
        expected = f"Tree={number}"
        require(line == expected, "model", f"text with `{expected}` next", line[:20])
        yield _fields(lines, f"tree {number}")
        number += 1
    raise InputError("`model` must end with a line `end of trees`; it is cut short.")


def _fields(lines: Iterator[str], name: str) -> dict[str, str]:
    """The `name=value` lines up to the next blank one."""
    fields: dict[str, str] = {}
    for line in lines:
        if line == "":
            break
        key, equals, value = line.partition("=")
        require(bool(equals), name, "lines of `name=value`", line[:20])
        require(key not in fields, name, "of different fields", f"{key[:20]} twice")
        fields[key] = value
    return fields


def _whole(fields: dict[str, str], key: str) -> int:
    word = fields.get(key, "")
    if not re.fullmatch(_WHOLE, word):
        raise InputError(f"`{key}` must be a whole number in a model's text; got {word[:20]!r}.")
    return int(word)


def _check_sizes(header: dict[str, str], trees: int) -> None:
    """The sizes of trees are of no use here, as they are read to their ends; their number is."""
    words = header.get("tree_sizes")
    if words:
        sizes = re.fullmatch("[0-9]{1,10}(?: [0-9]{1,10})*", words) is not None
        require(sizes, "tree_sizes", "sizes", words[:20])
    stated = len(words.split(" ")) if words else 0
    require(words is None or stated == trees, "model", f"of {stated} trees, as stated", trees)


def _numbers(fields: dict[str, str], key: str, leaves: int, name: str) -> Array:
    """The numbers of a list, one per leaf or per node, finite; none for a statistic left out."""
    words, count = fields.get(key, ""), leaves if key in _PER_LEAF else leaves - 1
    if key in _STATISTICS and words == "":
        return np.zeros(0)
    whole = key in _WHOLE_LISTS
    pattern, kind = (_WHOLE_NUMBERS, "whole numbers") if whole else (_NUMBERS, "numbers")
    if key == "threshold":
        pattern = _THRESHOLDS
    fits = pattern.fullmatch(words) is not None or words == ""
    require(fits, f"{name}: {key}", kind, words[:20])
    texts = words.split(" ") if words else []
    require(len(texts) == count, f"{name}: {key}", f"complete, {count} numbers", len(texts))
    numbers = np.array(texts, dtype=np.float64)
    inside = np.abs(numbers) < (2.0**31 if whole else np.inf)
    inside |= np.isin(texts, ("inf", "-inf"))
    _require_all(inside, numbers, f"{name}: {key}", "in range")
    return numbers.astype(np.int64) if whole else numbers


def _check_splits(feature: Ints, decision: Ints, width: int, name: str) -> None:
    inside = (feature >= 0) & (feature < width)
    _require_all(inside, feature, f"{name}: split_feature", f"in 0..{width - 1}")
    numeric = np.isin(decision, _DECISIONS)
    _require_all(numeric, decision, f"{name}: decision_type", "a numeric split")


def _check_children(left: Ints, right: Ints, name: str) -> None:
    nodes = left.size
    for side, child in (("left_child", left), ("right_child", right)):
        later = (child > np.arange(nodes)) & (child < nodes)
        leaf = (child < 0) & (~child <= nodes)
        _require_all(later | leaf, child, f"{name}: {side}", "a later node or a leaf")
    children, times = np.unique(np.concatenate([left, right]), return_counts=True)
    rule = "a tree, each node the child of one other"
    _require_all(times == 1, children, f"{name}: children", rule)


def _require_all(good: Array, values: Array, name: str, rule: str) -> None:
    if not good.all():
        require(False, name, rule, values[int(np.argmin(good))].item())


def _few(names: Collection[str]) -> str:
    return ", ".join(name[:20] for name in sorted(names)[:3])
