"""Notebooks are Python files with `# %%` cells; the site shows text as text and code as code."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

FOLDER = "notebooks"
TEXT = "# %% [markdown]"


def markdown(source: str) -> str:
    """A notebook as a Markdown page."""
    parts = []
    for cell in re.split(r"^(?=# %%)", source, flags=re.M):
        head, _, body = cell.partition("\n")
        if head == TEXT:
            parts.append(re.sub(r"^# ?", "", body, flags=re.M).strip())
        elif body.strip():
            parts.append(f"```python\n{body.strip()}\n```")
    return "\n\n".join(parts) + "\n"


def write(app: Sphinx) -> None:
    """Write a page beside each notebook, where it is not current."""
    for notebook in sorted((Path(app.srcdir) / FOLDER).glob("*.py")):
        page, text = notebook.with_suffix(".md"), markdown(notebook.read_text(encoding="utf-8"))
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before the site is read."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
