"""The click rates of a log as a chart: by rank, and by day where it has dates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from saferank.errors import require
from saferank.files import whole_file
from saferank.logs.health import LogHealth
from saferank.logs.measures import Rate

ENDINGS = (".html", ".svg", ".png", ".pdf")


def chart(health: LogHealth) -> Any:
    """An Altair chart of the click rates of a checked log."""
    import altair as alt

    parts = [_part(health.by_rank, "rank", {"type": "bar"})]
    if health.by_day:
        parts.append(_part(health.by_day, "day", {"type": "line", "point": True}))
    return alt.VConcatChart.from_dict({"vconcat": parts})


def save_chart(health: LogHealth, path: Path) -> None:
    """Write the chart as a page of its own (HTML, no network needed), SVG, PNG or PDF."""
    ending = path.suffix.lower()
    require(ending in ENDINGS, "chart", f"a file ending in {', '.join(ENDINGS)}", str(path))
    with whole_file(path) as temporary:
        options = {"inline": True} if ending == ".html" else {}
        chart(health).save(str(temporary), format=ending[1:], **options)


def _part(rates: Sequence[Rate], name: str, mark: dict[str, Any]) -> dict[str, Any]:
    """Click rates against ranks or days, in Vega-Lite's words."""
    rows = [
        {name: r.at, "impressions": r.impressions, "clicks": r.clicks, "rate": r.rate}
        for r in rates
    ]
    numbers = [{"field": f, "type": "quantitative"} for f in ("impressions", "clicks", "rate")]
    place = {"field": name, "type": "ordinal", "title": name, "axis": {"labelAngle": 0}}
    return {
        "title": f"click rate by {name}",
        "width": 360,
        "data": {"values": rows},
        "mark": mark,
        "encoding": {
            "x": place,
            "y": {"field": "rate", "type": "quantitative", "title": "clicks an impression"},
            "tooltip": [{"field": name, "type": "ordinal"}, *numbers],
        },
    }
