"""A fitted click model for people: a table, what its columns mean, a chart, and a sketch."""

from __future__ import annotations

from typing import Any

import numpy as np

from saferank._core.flat import Floats
from saferank.clicks.bias import FittedBias

_WIDTH = 50


def columns(fit: FittedBias) -> tuple[list[str], list[list[object]]]:
    """Heads and rows of a table: what the log tells, with intervals, and the model it makes."""
    trust, sure = fit.kind == "trust", fit.uncertainty
    heads = ["rank", "slope"] + ["click rate"] * trust + ["alpha"] + ["beta"] * trust
    rows: list[list[object]] = []
    for rank, slope in enumerate(fit.canonical.slope.tolist()):
        row: list[object] = [rank + 1]
        if np.isnan(slope):
            rows.append([*row, "never shown", *[""] * (len(heads) - 2)])
            continue
        if rank == fit.reference - 1:
            row += ["1 (reference)"] + [f"{fit.level_at:.4g} (given)"] * trust
        else:
            row.append(_with_interval(slope, sure.slope[rank]))
            row += [_with_interval(fit.level[rank], sure.level[rank])] * trust
        row.append(f"{fit.model.alpha[rank]:.4f}")
        rows.append(row + [f"{fit.model.beta[rank]:.4f}"] * trust)
    return heads, rows


def explanation(fit: FittedBias) -> list[str]:
    """What the columns of the table mean."""
    rank, rate = fit.reference, f"{fit.level_at:.4g}"
    said = [
        f"slope: how much relevance counts here beside rank {rank}: where two documents differ by "
        "0.1 in click rate there, they differ by slope x 0.1 here."
    ]
    if fit.kind == "position":
        return [
            f"slope: clicks that a document gets here, for each that it gets at rank {rank}.",
            "alpha: the same, with 1 as the largest.",
        ]
    zero = int(np.argmin(np.where(fit.model.alpha > 0, fit.model.beta, np.inf))) + 1
    reference = int(np.argmax(fit.model.exposure_weights)) + 1
    return [
        *said,
        f"click rate: of a document whose click rate at rank {rank} is {rate}.",
        "alpha, beta: the same as alpha R + beta on one of many scales of relevance that fit "
        f"equally: R = 0 is a document of click rate 0 at rank {zero}, R = 1 one of click rate 1 "
        f"at rank {reference}. They have no intervals of their own.",
    ]


def curve_rows(fit: FittedBias) -> list[dict[str, Any]]:
    """Slope and click rate of each rank with the ends of their intervals (None without)."""
    curves = [("slope", fit.canonical.slope, fit.uncertainty.slope)]
    if fit.kind == "trust":
        curves.append(("click rate", fit.level, fit.uncertainty.level))
    rows = []
    for name, values, intervals in curves:
        for rank, (value, ends) in enumerate(zip(values, intervals, strict=True), start=1):
            if np.isfinite(value):
                low, high = (float(end) if np.isfinite(end) else None for end in ends)
                rows.append(
                    {"rank": rank, "part": name, "value": float(value), "low": low, "high": high}
                )
    return rows


def chart(fit: FittedBias) -> Any:
    """An Altair chart of slopes (and click rates) by rank, with 95 % intervals."""
    import altair as alt

    rows = curve_rows(fit)
    titles = {
        "slope": f"slope, relative to rank {fit.reference}",
        "click rate": f"click rate of a document with {fit.level_at:.4g} at rank {fit.reference}",
    }
    panels = []
    for name, title in titles.items():
        values = alt.InlineData(values=[row for row in rows if row["part"] == name])
        if not values.values:
            continue
        base = alt.Chart(values).encode(
            x=alt.X("rank:O", title="rank", axis=alt.Axis(labelAngle=0))
        )
        line = base.mark_line(point=True).encode(
            y=alt.Y("value:Q", title=title, scale=alt.Scale(zero=True)),
            tooltip=["rank:O", "value:Q", "low:Q", "high:Q"],
        )
        interval = base.mark_rule(strokeWidth=2).encode(y="low:Q", y2="high:Q")
        panels.append((interval + line).properties(width=320, height=240))
    return alt.hconcat(*panels, title=f"{fit.kind.capitalize()} bias with 95 % intervals")


def sketch(fit: FittedBias) -> str:
    """The curve in letters: the click rate of one and the same document at each rank."""
    levels = np.nan_to_num(fit.level)
    longest = max(float(levels.max()), 1e-12)
    lines = [f"rank  click rate of a document with {fit.level_at:.4g} at rank {fit.reference}"]
    for rank, level in enumerate(levels.tolist(), start=1):
        bar = "=" * round(_WIDTH * max(level, 0.0) / longest)
        lines.append(f"{rank:>4}  {bar:<{_WIDTH}}  {level:.3f}")
    return "\n".join(lines)


def _with_interval(value: float, ends: Floats) -> str:
    low, high = ends
    return f"{value:.4f}" + (f"  [{low:.4f}, {high:.4f}]" if np.isfinite(low) else "")
