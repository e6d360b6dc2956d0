"""The page of a watch: one HTML file with verdict, chart, guardrails, drift and assumptions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from saferank._core.files import atomic_file
from saferank._core.marks import mark
from saferank.serving.watching.verdicts import Watch, Watched
from saferank.serving.watching.watch_chart import watch_chart

_INK = "currentColor"


def write_watch_page(path: str | Path, watched: Watch, drift: Sequence[str] = ()) -> Path:
    """Write the page of a watch, whole or not at all; returns its path.

    `drift` are the sentences on what is no longer as it was certified.
    """
    target = Path(path)
    with atomic_file(target) as temporary:
        temporary.write_text(render_watch(watched, drift), encoding="utf-8")
        mark(temporary, "html")
    return target


def render_watch(watched: Watch, drift: Sequence[str] = ()) -> str:
    """The page as text; every value in it is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("saferank.serving.watching", "."), autoescape=True,
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    verdict, _, why = watched.sentence().partition(": ")
    days = watched.experiment.days
    return environment.get_template("watch.html.jinja").render(
        watched=watched,
        verdict=verdict,
        why=why[:1].upper() + why[1:],
        when="" if days == ("all",) else f", {days[0]} to {days[-1]}",
        chart=_picture(watched),
        rows=[_row(each) for each in watched.watched],
        drift=list(drift),
    )


def _picture(watched: Watch) -> Any:
    """The chart as SVG in the colours of the page; none where nothing can be said yet."""
    import vl_convert
    from markupsafe import Markup

    if not np.isfinite(watched.primary.sequence.lower).any():
        return None
    chart = (
        watch_chart(watched, titled=False)
        .properties(background="transparent", padding=16)
        .configure_axis(
            labelColor=_INK, titleColor=_INK, gridOpacity=0.25, domainOpacity=0.5, tickOpacity=0.5,
            labelFontSize=12, titleFontSize=12, titleFontWeight="normal", titlePadding=20,
        )
        .configure_view(strokeOpacity=0)
    )  # fmt: skip
    # a picture that the chart library made; texts in it are escaped by it
    return Markup(vl_convert.vegalite_to_svg(chart.to_dict()))  # noqa: S704


def _row(each: Watched) -> dict[str, str]:
    """One metric as texts."""
    sequence = each.sequence
    numbers = {
        "estimate": sequence.estimate[-1], "lower": sequence.lower[-1], "upper": sequence.upper[-1],
    }  # fmt: skip
    texts = {
        name: f"{value:+.4g}" if np.isfinite(value) else "unknown"
        for name, value in numbers.items()
    }
    return {
        "name": each.metric.name,
        "production": f"{each.metric.production:.4g}",
        **texts,
        "tolerance": f"{each.tolerance:.1%}",
        "says": each.says,
    }
