"""Every public name says what it takes, what it returns, and shows it."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

import saferank


def public() -> Iterator[tuple[str, Any]]:
    """Functions and classes that the package and its rooms name in `__all__`."""
    for name in saferank.__all__:
        try:
            room = importlib.import_module(f"saferank.{name}")
        except ImportError:
            continue
        for own in getattr(room, "__all__", ()):
            value = getattr(room, own)
            ours = str(getattr(value, "__module__", "")).startswith("saferank")
            if ours and (inspect.isclass(value) or inspect.isroutine(value)):
                yield f"{name}.{own}", value


PUBLIC = dict(public())


def has(text: str, section: str) -> bool:
    """Whether a numpy-style docstring has a section."""
    return re.search(rf"^{section}\n-{{{len(section)}}}$", text, re.M) is not None


def fields_with_text(value: type) -> set[str]:
    """Fields of a class, or of those it inherits from, that a docstring follows."""
    named: set[str] = set()
    for kind in value.__mro__:
        if not kind.__module__.startswith(("saferank", __name__)):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        assert isinstance(tree, ast.ClassDef)
        for field, text in pairwise(tree.body):
            described = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
            if (
                described
                and isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
            ):
                named.add(field.target.id)
    return named


def undescribed(value: Any) -> list[str]:
    """Parameters of a function or class that neither its docstring nor a field's describes."""
    if inspect.isclass(value) and getattr(value, "_is_protocol", False):
        return []
    described = (inspect.getdoc(value) or "").partition("\n----")[2]
    fields = fields_with_text(value) if inspect.isclass(value) else set()
    missing = []
    for name, parameter in inspect.signature(value).parameters.items():
        stars = {"VAR_KEYWORD": r"\*\*", "VAR_POSITIONAL": r"\*"}
        star = stars.get(parameter.kind.name, "")
        entry = rf"^(?:[\w*, ]*, )?{star}{name}\b[\w, ]*(?: :|$)"
        if name not in fields and not re.search(entry, described, re.M):
            missing.append(f"parameter {name}")
    return missing


def lacks(value: Any) -> list[str]:
    """What is missing in the docstring of a function or class."""
    text = inspect.getdoc(value) or ""
    missing = ([] if ">>>" in text else ["Examples"]) + undescribed(value)
    if inspect.isclass(value) or has(text, "Returns"):
        return missing
    returns = inspect.signature(value).return_annotation
    return missing if returns in (None, "None") else [*missing, "Returns"]


@pytest.mark.parametrize("name", PUBLIC)
def test_docstrings_are_complete(name: str) -> None:
    assert lacks(PUBLIC[name]) == []


@dataclass(frozen=True)
class Half:
    """Says one of two."""

    said: int
    """What is said."""
    silent: int


def test_the_walk_sees_what_is_missing() -> None:
    def silent(given: int) -> int:
        """Says nothing of what it takes."""
        return given

    assert len(PUBLIC) > 110
    assert lacks(silent) == ["Examples", "parameter given", "Returns"]
    assert lacks(Half) == ["Examples", "parameter silent"]


def test_the_face_of_the_package_is_in_the_reference() -> None:
    for name in saferank.__all__:
        value = getattr(saferank, name)
        if inspect.isclass(value) or inspect.isroutine(value):
            assert value in PUBLIC.values() or value.__module__ == "saferank.errors", name
