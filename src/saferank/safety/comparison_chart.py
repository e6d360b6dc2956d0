"""The chart of a comparison: each candidate's change against production, with its interval."""

from __future__ import annotations

from typing import Any

from saferank._core.charts import COLOURS
from saferank.safety.comparing import Comparison


def comparison_chart(comparison: Comparison) -> Any:
    """Intervals of the change in per cent of production's clicks; the tick is "at least"."""
    import altair as alt

    rows = [
        {
            "ranker": candidate.name,
            **{
                name: comparison.change(getattr(candidate, name))
                for name in ("estimate", "lower", "upper", "at_least")
            },
        }
        for candidate in comparison.candidates
        if candidate.refused is None
    ]
    base = alt.Chart({"values": rows}).encode(y=alt.Y("ranker:N", title=None, sort=None))
    title = comparison.feedback.say("change of clicks per session against production")
    lines = base.mark_rule(strokeWidth=3, color=COLOURS[0]).encode(
        x=alt.X("lower:Q", title=title, axis=alt.Axis(format="+%")), x2="upper:Q"
    )
    points = base.mark_point(filled=True, size=110, color=COLOURS[0], opacity=1).encode(
        x="estimate:Q"
    )
    ticks = base.mark_tick(thickness=3, size=18, color=COLOURS[1]).encode(x="at_least:Q")
    zero = alt.Chart({"values": [{"zero": 0}]}).mark_rule(strokeDash=[4, 3]).encode(x="zero:Q")
    sure = f"All intervals hold at once ({comparison.confidence:.0%})"
    text = f"{sure}; tick: at least; dashed: production"
    return (zero + lines + points + ticks).properties(
        width=480, height=40 + 28 * len(rows), title=text
    )
