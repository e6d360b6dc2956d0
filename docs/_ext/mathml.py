"""Formulas as MathML, which browsers draw by themselves: no script, no font, no network."""

from __future__ import annotations

from docutils import nodes
from latex2mathml import exceptions
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

LOG = logging.getLogger(__name__)
MALFORMED = tuple(kind for kind in vars(exceptions).values() if isinstance(kind, type))


def _drawn(node: nodes.Element, display: str) -> str:
    try:
        return convert(node.astext(), display=display)
    except MALFORMED as wrong:
        LOG.warning("formula %r: %s", node.astext(), type(wrong).__name__, location=node)
        return ""


def _inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(_drawn(node, "inline"))
    raise nodes.SkipNode


def _block(self: HTML5Translator, node: nodes.math_block) -> None:
    self.body.append(f'<div class="formula">{_drawn(node, "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Name this as the way to draw formulas."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.config.html_math_renderer = "mathml"  # type: ignore[attr-defined]
    return {"parallel_read_safe": True, "parallel_write_safe": True}
