"""Charts: one description, written as a page of its own, or as SVG, PNG or PDF for papers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from saferank._core.files import atomic_file
from saferank._core.marks import mark
from saferank.errors import InputError

# Told apart by colour, and in grey by lightness and dashes (Okabe and Ito's colours).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 1], [1, 3], [10, 4], [3, 6])
FORMATS = (".html", ".svg", ".png", ".pdf")
_OPTIONS: dict[str, dict[str, Any]] = {"html": {"inline": True}, "png": {"scale_factor": 2}}


def scale(names: Sequence[str], values: Sequence[Any]) -> Any:
    """A scale that gives each name a value of its own, the same in every chart."""
    import altair as alt

    repeated = [values[index % len(values)] for index in range(len(names))]
    return alt.Scale(domain=list(names), range=repeated)


def save_chart(chart: Any, path: str | Path) -> Path:
    """Write an Altair chart by the file's ending; pages carry their scripts, nothing is fetched."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"a chart's file must end with {', '.join(FORMATS)}; got `{path.name}`.")
    with atomic_file(path) as temporary:
        form = path.suffix[1:].lower()
        chart.save(str(temporary), format=form, **_OPTIONS.get(form, {}))
        mark(temporary, form)
    return path
