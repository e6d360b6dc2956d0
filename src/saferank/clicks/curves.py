"""A fitted click model as a picture: a chart, and a sketch for the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from saferank.clicks.fitting import FittedBias
from saferank.errors import require
from saferank.files import whole_file
from saferank.marks import mark

FORMATS = ("svg", "png", "pdf", "html")
NORMAL_95 = 1.959964
_WIDTH = 50


def curve_rows(fit: FittedBias) -> list[dict[str, Any]]:
    """Alpha and beta of each rank with the ends of their 95 % intervals (None without errors)."""
    rows = []
    for name in ("alpha", "beta"):
        values, errors = getattr(fit.model, name), getattr(fit, f"{name}_error")
        for rank, (value, error) in enumerate(zip(values, errors, strict=True), start=1):
            known = bool(np.isfinite(error))
            rows.append(
                {
                    "rank": rank,
                    "part": name,
                    "value": float(value),
                    "low": max(0.0, float(value - NORMAL_95 * error)) if known else None,
                    "high": min(1.0, float(value + NORMAL_95 * error)) if known else None,
                }
            )
    return rows


def chart(fit: FittedBias) -> Any:
    """An Altair chart of alpha and beta by rank, with 95 % intervals."""
    import altair as alt

    values = alt.InlineData(values=curve_rows(fit))
    base = alt.Chart(values).encode(
        x=alt.X("rank:O", title="rank", axis=alt.Axis(labelAngle=0)),
        color=alt.Color("part:N", title=None),
    )
    scale = alt.Scale(domain=[0, 1])
    line = base.mark_line(point=True).encode(
        y=alt.Y("value:Q", title="probability", scale=scale),
        tooltip=["part:N", "rank:O", "value:Q", "low:Q", "high:Q"],
    )
    interval = base.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q")
    title = f"{fit.kind.capitalize()} bias: P(click) = alpha R + beta"
    return (interval + line).properties(width=320, height=240, title=title)


def save_chart(fit: FittedBias, path: str | Path) -> None:
    """Write the chart; the end of the name says how (an HTML page needs no network)."""
    target = Path(path)
    form = target.suffix.removeprefix(".").lower()
    require(
        form in FORMATS, "chart", f"a file that ends in one of {', '.join(FORMATS)}", target.name
    )
    with whole_file(target) as temporary:
        options = {"inline": True} if form == "html" else {}
        chart(fit).save(str(temporary), format=form, **options)
        mark(temporary, form)


def sketch(fit: FittedBias) -> str:
    """The curve in letters: any document is clicked up to the `=`, a relevant one up to the `-`."""
    lines = ["rank  P(click): = of any document, - added by relevance"]
    for rank, (alpha, beta) in enumerate(
        zip(fit.model.alpha, fit.model.beta, strict=True), start=1
    ):
        low, high = round(_WIDTH * beta), round(_WIDTH * (alpha + beta))
        lines.append(f"{rank:>4}  {('=' * low + '-' * (high - low)):<{_WIDTH}}  {alpha + beta:.3f}")
    return "\n".join(lines)
