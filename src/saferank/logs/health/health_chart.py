"""The click rates of a log as a chart: by rank, and by day where it has dates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from saferank.logs.health.checking import LogHealth
from saferank.logs.health.measures import Rate


def click_rate_chart(health: LogHealth) -> Any:
    """An Altair chart of the click rates of a checked log."""
    import altair as alt

    say = health.report.feedback.say
    parts = [_part(health.by_rank, "rank", {"type": "bar"}, say)]
    if health.by_day:
        parts.append(_part(health.by_day, "day", {"type": "line", "point": True}, say))
    return alt.VConcatChart.from_dict({"vconcat": parts})


def _part(
    rates: Sequence[Rate], name: str, mark: dict[str, Any], say: Callable[[str], str]
) -> dict[str, Any]:
    """Click rates against ranks or days, in Vega-Lite's words."""
    rows = [
        {name: r.at, "impressions": r.impressions, "clicks": r.clicks, "rate": r.rate}
        for r in rates
    ]
    numbers = [{"field": f, "type": "quantitative"} for f in ("impressions", "clicks", "rate")]
    place = {"field": name, "type": "ordinal", "title": name, "axis": {"labelAngle": 0}}
    return {
        "title": say(f"click rate by {name}"),
        "width": 360,
        "data": {"values": rows},
        "mark": mark,
        "encoding": {
            "x": place,
            "y": {"field": "rate", "type": "quantitative", "title": say("clicks per impression")},
            "tooltip": [{"field": name, "type": "ordinal"}, *numbers],
        },
    }
