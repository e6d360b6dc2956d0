"""Trees as search engines have them, node within node: written, read, and walked by their rules.

Reading and walking know nothing of how a file was written: they restate what an engine does with
it, in the engine's own precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from saferank._core.flat import Array, Floats
from saferank.data.ranking import Features
from saferank.errors import InputError, require
from saferank.serving.export.raw_trees import RawTree

T = TypeVar("T")

DEEPEST: Final = 200
"""Splits within each other; readers of nested text recurse, and end with their stack."""
_MOST_NODES: Final = 50_000_000


def nest(tree: RawTree, leaf: Callable[[int], T], split: Callable[[int, T, T], T]) -> T:
    """Put a tree together from its leaves up: what `split` makes of a node and its children."""
    require(tree.depth() <= DEEPEST, "trees", f"at most {DEEPEST} splits deep", tree.depth())
    made: dict[int, T] = {}

    def of(child: int) -> T:
        return made.pop(child) if child >= 0 else leaf(~child)

    for node in range(tree.feature.size - 1, -1, -1):
        made[node] = split(node, of(int(tree.left[node])), of(int(tree.right[node])))
    return of(tree.root)


@dataclass(frozen=True)
class Split:
    """A node as a file has it: its children are what the file holds in their place."""

    feature: int
    threshold: float
    left: Any
    right: Any
    missing_left: bool = False


@dataclass(frozen=True)
class Rule:
    """How an engine goes through a tree, and in which numbers it does."""

    strict: bool
    """Left if x < threshold, not if x <= threshold."""
    number: type[np.floating[Any]]
    knows_missing: bool = False
    """Whether a missing value has a way of its own; else it fails every comparison."""


@dataclass(frozen=True, eq=False)
class FlatTree:
    """A tree read from a file: children are nodes, those of leaves themselves."""

    feature: Array
    threshold: Array
    missing_left: npt.NDArray[np.bool_]
    left: Array
    right: Array
    value: Array


def flatten(root: Any, read: Callable[[Any], Split | float], rule: Rule) -> FlatTree:
    """The nodes of a nested tree in arrays, read without recursion."""
    rows: list[tuple[int, float, bool, int, int, float]] = []
    waiting: list[tuple[Any, int, int]] = [(root, -1, 0)]
    while waiting:
        node, parent, side = waiting.pop()
        place = len(rows)
        require(place < _MOST_NODES, "trees", f"of at most {_MOST_NODES} nodes", place)
        if parent >= 0:
            row = list(rows[parent])
            row[3 + side] = place
            rows[parent] = tuple(row)  # type: ignore[assignment]
        parsed = read(node)
        if isinstance(parsed, Split):
            rows.append((parsed.feature, parsed.threshold, parsed.missing_left, place, place, 0.0))
            waiting += [(parsed.right, place, 1), (parsed.left, place, 0)]
        else:
            rows.append((-1, 0.0, False, place, place, parsed))
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    feature, threshold, missing, left, right, value = columns
    kind = rule.number
    return FlatTree(
        feature, threshold.astype(kind), missing.astype(bool), left, right, value.astype(kind)
    )


def walk(trees: Sequence[FlatTree], features: Features, rule: Rule) -> Floats:
    """The sum of each row's leaves, tree by tree, in the engine's numbers."""
    total = np.zeros(len(features), dtype=rule.number)
    for tree in trees:
        total += tree.value[leaves(tree, features, rule)]
    return total.astype(np.float64)


def leaves(tree: FlatTree, features: Features, rule: Rule) -> Array:
    """The node at which each row's way through a tree ends."""
    width = features.shape[1]
    sane = bool(np.all(tree.feature < width))
    require(sane, "trees", f"on features 0..{width - 1}", int(tree.feature.max(initial=0)))
    at = np.zeros(len(features), dtype=np.int64)
    moving = np.flatnonzero(tree.feature[at] >= 0)
    while moving.size:
        here = at[moving]
        values = features[moving, tree.feature[here]].astype(rule.number)
        left = values < tree.threshold[here] if rule.strict else values <= tree.threshold[here]
        if rule.knows_missing:
            left = np.where(np.isnan(values), tree.missing_left[here], left)
        at[moving] = np.where(left, tree.left[here], tree.right[here])
        moving = moving[tree.feature[at[moving]] >= 0]
    return at


def has(record: Any, name: str) -> bool:
    """Whether a JSON object has a field; what is no object is refused."""
    if not isinstance(record, dict):
        raise InputError(f"an object was expected in the file; got {str(record)[:40]!r}.")
    return name in record


def field(record: Any, name: str) -> Any:
    """A field of a JSON object that must be there."""
    if not has(record, name):
        raise InputError(f"an object in the file must have `{name}`.")
    return record[name]


def fields(record: Any, name: str) -> list[Any]:
    """A field of a JSON object that must be a list."""
    value = field(record, name)
    require(isinstance(value, list), name, "a list in the file", type(value).__name__)
    return list(value)


def number(value: Any) -> float:
    """A finite number, or the text of one."""
    try:
        parsed = float(value)
        if isinstance(value, bool) or not math.isfinite(parsed):
            raise TypeError
        return parsed
    except (TypeError, ValueError) as error:
        raise InputError(f"a number was expected in the file; got {str(value)[:40]!r}.") from error
