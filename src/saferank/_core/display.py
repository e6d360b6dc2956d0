"""How results show themselves in a notebook: a sentence and a small table, escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def html_summary(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """A title with a table of names and values, for `_repr_html_`.

    >>> html_summary("Ship", [("queries", "<b>2</b>")])
    '<strong>Ship</strong><table><tr><th>queries</th><td>&lt;b&gt;2&lt;/b&gt;</td></tr></table>'
    """
    cells = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in rows
    )
    return f"<strong>{escape(title)}</strong><table>{cells}</table>"
