"""How the documentation site is built: `make docs` writes it to `build/docs`."""

from __future__ import annotations

import sys
from pathlib import Path

import saferank

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "saferank"
copyright = "the authors of saferank; Apache-2.0"  # noqa: A001
version = release = saferank.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "numpydoc",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "commands",
    "mathml",
    "notebooks",
    "rooms",
]
exclude_patterns = ["figures/*.py", "_ext"]
nitpicky = False
default_role = "code"  # names in docstrings stand in single backticks
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence", "attrs_inline"]
myst_heading_anchors = 4
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

autodoc_member_order = "bysource"  # fields in the order in which a class takes them
autodoc_typehints = "none"  # docstrings say what is taken, with shapes
numpydoc_class_members_toctree = False
numpydoc_show_class_members = False

html_theme = "furo"
html_title = "saferank"
html_static_path = ["_static", "figures"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_sourcelink = False
html_theme_options = {
    "top_of_page_buttons": [],
    "light_css_variables": {"color-brand-primary": "#1d5fa8", "color-brand-content": "#1d5fa8"},
    "dark_css_variables": {"color-brand-primary": "#8ab8ee", "color-brand-content": "#8ab8ee"},
}
