"""One page of reference per room: what `__all__` of each sub-package names, from the docstrings."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from sphinx.application import Sphinx

import saferank

FOLDER = "reference/rooms"


def rooms() -> Iterator[tuple[str, ModuleType]]:
    """Sub-packages and modules that the package names, with something to say."""
    for name in saferank.__all__:
        try:
            room = importlib.import_module(f"saferank.{name}")
        except ImportError:
            continue  # a function or a class
        yield name, room


def write(app: Sphinx) -> None:
    """Write the pages that are not current."""
    folder = Path(app.srcdir) / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, room in rooms():
        title = f"saferank.{name}"
        members = "" if hasattr(room, "__all__") else "\n   :undoc-members:"
        text = f"{title}\n{'=' * len(title)}\n\n.. automodule:: {title}\n   :members:{members}\n"
        page = folder / f"{name}.rst"
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before the site is read."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
