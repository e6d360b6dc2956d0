"""The chart of a watch: the change against production after each day, with its sequence."""

from __future__ import annotations

from typing import Any

import numpy as np

from saferank._core.charts import COLOURS
from saferank.serving.watching.verdicts import Watch


def watch_chart(watched: Watch, *, titled: bool = True) -> Any:
    """Estimate and interval day by day, in per cent of production; dashed: what is tolerated."""
    import altair as alt

    panels = []
    for each in watched.watched:
        rows = [
            {
                "day": day,
                **{
                    name: each.change(float(getattr(each.sequence, name)[index]))
                    for name in ("estimate", "lower", "upper")
                },
            }
            for index, day in enumerate(watched.experiment.days)
            if np.isfinite(each.sequence.lower[index])
        ]
        base = alt.Chart({"values": rows}).encode(x=alt.X("day:O", title=None))
        axis = alt.Axis(format="+%")
        band = base.mark_area(opacity=0.25, color=COLOURS[0]).encode(
            y=alt.Y("lower:Q", title=f"change of {each.metric.name}", axis=axis), y2="upper:Q"
        )
        line = base.mark_line(point=True, color=COLOURS[0]).encode(y="estimate:Q")
        limit = (
            alt.Chart({"values": [{"limit": -each.tolerance}]})
            .mark_rule(strokeDash=[4, 3], color=COLOURS[1])
            .encode(y="limit:Q")
        )
        panels.append((band + line + limit).properties(width=520, height=200))
    chart = alt.vconcat(*panels)
    return chart.properties(title=watched.sentence()) if titled else chart
