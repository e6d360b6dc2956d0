"""Every public name says what it takes, what it returns, and shows it."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
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


def lacks(value: Any) -> list[str]:
    """What is missing in the docstring of a function or class."""
    text = inspect.getdoc(value) or ""
    shown = ">>>" in text or has(text, "See Also")
    missing = [] if shown else ["Examples"]
    if inspect.isclass(value):
        return missing
    signature = inspect.signature(value)
    described = text.partition("Parameters\n")[2]
    for name, parameter in signature.parameters.items():
        stars = {"VAR_KEYWORD": r"\*\*", "VAR_POSITIONAL": r"\*"}
        star = stars.get(parameter.kind.name, "")
        if not re.search(rf"^(?:[\w*, ]*, )?{star}{name}\b[\w, ]*(?: :|$)", described, re.M):
            missing.append(f"parameter {name}")
    if signature.return_annotation not in (None, "None") and not has(text, "Returns"):
        missing.append("Returns")
    return missing


@pytest.mark.parametrize("name", PUBLIC)
def test_docstrings_are_complete(name: str) -> None:
    assert lacks(PUBLIC[name]) == []


def test_the_walk_sees_what_is_missing() -> None:
    def silent(given: int) -> int:
        """Says nothing of what it takes."""
        return given

    assert len(PUBLIC) > 60
    assert lacks(silent) == ["Examples", "parameter given", "Returns"]
