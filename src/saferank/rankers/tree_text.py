"""Checks of LightGBM's model text before LightGBM sees it: it follows the indices it reads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from saferank.errors import InputError, require
from saferank.flat import Ints

_ROOM = 1_000_000  # features, and leaves of one tree


def check_text(text: str) -> int:
    """The number of features of a model text, or `InputError` unless its trees hold together.

    Every child is a later node or a leaf, every split is on a feature that is there, and every
    list has its length; so a walk down a tree ends in a leaf.
    """
    sections = text.split("\nTree=")
    head = _fields(sections[0])
    require(sections[0].startswith("tree\n"), "model", "a LightGBM model's text", text[:20])
    width = _whole(head, "max_feature_idx") + 1
    require(1 <= width <= _ROOM, "max_feature_idx", f"in 0..{_ROOM - 1}", width - 1)
    require(_whole(head, "num_tree_per_iteration") == 1, "model", "of one score", "several")
    averages = "average_output" in sections[0].splitlines()
    require(not averages, "model", "a sum of trees, not an average", "average_output")
    for number, section in enumerate(sections[1:]):
        _check_tree(_fields(section.split("\nend of trees")[0]), width, f"tree {number}")
    return width


def _check_tree(fields: dict[str, str], width: int, name: str) -> None:
    leaves = _whole(fields, "num_leaves")
    require(1 <= leaves <= _ROOM, f"{name}: num_leaves", f"in 1..{_ROOM}", leaves)
    plain = fields.get("is_linear", "0") == "0" and _whole(fields, "num_cat") == 0
    require(plain, name, "with constant leaves and numeric splits", "others")
    require(len(fields.get("leaf_value", "").split()) == leaves, name, "complete", "leaf_value")
    if leaves == 1:
        return
    nodes = np.arange(leaves - 1)
    split = _integers(fields, "split_feature", leaves - 1)
    inside = bool(((split >= 0) & (split < width)).all())
    require(inside, f"{name}: split_feature", f"in 0..{width - 1}", "others")
    for side in ("left_child", "right_child"):
        child = _integers(fields, side, leaves - 1)
        down = (child > nodes) & (child < leaves - 1)
        leaf = (child < 0) & (~child < leaves)
        require(bool((down | leaf).all()), f"{name}: {side}", "a later node or a leaf", "others")
    for other in ("threshold", "decision_type"):
        require(len(fields.get(other, "").split()) == leaves - 1, name, "complete", other)


def _fields(section: str) -> dict[str, str]:
    return dict(_pairs(section))


def _pairs(section: str) -> Iterator[tuple[str, str]]:
    for line in section.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            yield name, value


def _whole(fields: dict[str, str], name: str) -> int:
    try:
        return int(fields[name])
    except (KeyError, ValueError) as error:
        raise InputError(f"`{name}` must be a whole number in a model's text.") from error


def _integers(fields: dict[str, str], name: str, count: int) -> Ints:
    words = fields.get(name, "").split()
    require(len(words) == count, name, f"{count} numbers", len(words))
    try:
        return np.array([int(word) for word in words], dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise InputError(f"`{name}` must be whole numbers in a model's text.") from error
