"""RankLib's text of an ensemble (`model/ranklib` in Elasticsearch and OpenSearch).

RankLib goes left if `x <= threshold` in single precision, and knows features by number, from 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from saferank._core.flat import Floats
from saferank.errors import InputError, require
from saferank.serving.export.nesting import Rule, Split, flatten, nest, number, walk
from saferank.serving.export.parity import Parity
from saferank.serving.export.raw_trees import RawTree
from saferank.serving.export.source import Source
from saferank.serving.export.target import Target

RULE: Final = Rule(strict=False, number=np.float32)
_LARGEST_FILE: Final = 1 << 30
_TOKEN: Final = re.compile(r"\s*(?:<(/?\w+)([^<>]*)>|([^<>\s]+))")


class RankLib(Target):
    """A LambdaMART model as RankLib saves it."""

    single = True
    has_missing = False

    def write(self, source: Source, path: Path) -> list[str]:
        """Write the ensemble; a feature's number is its place in the engine's feature set."""
        source.needs_trees("RankLib")
        source.needs_numbers("RankLib")
        source.needs_no_gaps("RankLib")
        trees = "".join(
            f'<tree id="{place}" weight="1.0">\n{_tree(tree)}</tree>\n'
            for place, tree in enumerate(source.trees, start=1)
        )
        text = f"## LambdaMART\n## {source.name}\n\n<ensemble>\n{trees}</ensemble>\n"
        path.write_text(text, encoding="utf-8")
        return [
            f"Features are known by their place in the engine's feature set: 1 is "
            f"`{source.names[0]}`, {len(source.names)} is `{source.names[-1]}`."
        ]

    def scores(self, path: Path, parity: Parity) -> dict[str, Floats]:
        """By RankLib's rule."""
        require(path.stat().st_size <= _LARGEST_FILE, str(path), "of at most 1 GB", path)
        try:
            text = path.read_bytes().decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"`{path}` must be RankLib's text; {error}.") from error
        body = "".join(line for line in text.splitlines(True) if not line.startswith("##"))
        trees = [flatten(tree, _read_node, RULE) for tree in _parse(body)]
        return {"RankLib's rule": walk(trees, parity.features, RULE)}


def _tree(tree: RawTree) -> str:
    def leaf(index: int) -> str:
        return f"<output> {float(tree.leaf_value[index])!r} </output>\n"

    def split(node: int, left: str, right: str) -> str:
        return (
            f"<feature> {int(tree.feature[node]) + 1} </feature>\n"
            f"<threshold> {float(tree.threshold[node])!r} </threshold>\n"
            f'<split pos="left">\n{left}</split>\n<split pos="right">\n{right}</split>\n'
        )

    return f"<split>\n{nest(tree, leaf, split)}</split>\n"


def _parse(text: str) -> list[list[Any]]:
    """The root of each tree: a list of what lies within its `split`, lists and texts by tag."""
    stack: list[tuple[str, list[Any]]] = [("", [])]
    for tag, word in _tokens(text):
        if word:
            stack[-1][1].append(word)
        elif tag.startswith("/"):
            name, inner = stack.pop()
            require(name == tag[1:] and bool(stack), "the ensemble", "of closed tags", tag)
            stack[-1][1].append((name, inner))
        else:
            stack.append((tag, []))
    try:
        ((_, [(name, trees)]),) = stack
        require(name == "ensemble", "the text", "an ensemble", name)
        return [inner for tag, [(_, inner)] in trees if tag == "tree"]
    except (ValueError, TypeError) as error:
        raise InputError("the text must be one ensemble of trees.") from error


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    place = 0
    for match in _TOKEN.finditer(text):
        if match.start() != place:
            break
        yield match[1] or "", match[3] or ""
        place = match.end()
    require(not text[place:].strip(), "the ensemble", "text of RankLib's tags", text[place:][:40])


def _read_node(inner: list[Any]) -> Split | float:
    try:
        if inner[0][0] == "output":
            return number(inner[0][1][0])
        (first, [feature]), (second, [threshold]), (_, left), (_, right) = inner
        expected = (first, second) == ("feature", "threshold")
        require(expected, "a split", "of feature and threshold", (first, second))
        return Split(int(feature) - 1, number(threshold), left, right)
    except InputError:
        raise
    except (ValueError, TypeError, IndexError) as error:
        raise InputError("a split must have feature, threshold and two children.") from error
