"""docs/paper.md: every line of code and every test that it names is there."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"\| `(saferank\.[\w.]+)` \|", TEXT)))
TESTS = sorted(set(re.findall(r"\| `(tests/[\w/]+\.py)::(\w+)` \|", TEXT)))


@pytest.mark.parametrize("name", NAMES)
def test_the_code_is_there(name: str) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, own = name.rpartition(".")
        assert hasattr(importlib.import_module(module), own)


@pytest.mark.parametrize(("file", "test"), TESTS)
def test_the_test_is_there(file: str, test: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert test in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_the_page_names_both() -> None:
    assert len(NAMES) > 20
    assert len(TESTS) > 15
