"""The chart of docs/your-own-log.md: `python -m docs.figures.yandex_examination LOG`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import altair as alt

from saferank._core.charts import COLOURS, DASHES, save_chart, scale
from saferank.clicks import fit_position_bias
from saferank.logs import check_log, count, read_counts

HERE = Path(__file__).parent
RAW, FITTED = "raw click rate", "fitted examination"


def points(log: str) -> list[dict[str, Any]]:
    """Raw click rates and fitted examination, both relative to rank 1."""
    rates = [rate.rate for rate in check_log(log).by_rank]
    with tempfile.TemporaryDirectory() as folder:
        count(log, output=Path(folder) / "counts.parquet")
        fit = fit_position_bias(read_counts(Path(folder) / "counts.parquet"))
    rows: list[dict[str, Any]] = []
    for rank, (rate, slope, (low, high)) in enumerate(
        zip(rates, fit.canonical.slope, fit.uncertainty.slope, strict=True), start=1
    ):
        rows.append({"rank": rank, "curve": RAW, "value": rate / rates[0]})
        rows.append({"rank": rank, "curve": FITTED, "value": slope, "low": low, "high": high})
    return rows


def chart(rows: list[dict[str, Any]]) -> Any:
    """Both curves, the fitted one with its 95 % intervals."""
    names = [FITTED, RAW]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("rank:O", axis=alt.Axis(labelAngle=0)),
        color=alt.Color("curve:N", title=None, scale=scale(names, COLOURS)),
    )
    line = base.mark_line(point=True).encode(
        y=alt.Y("value:Q", title="relative to rank 1"),
        strokeDash=alt.StrokeDash("curve:N", title=None, scale=scale(names, DASHES)),
    )
    bounds = base.mark_rule(strokeWidth=2).encode(y="low:Q", y2="high:Q")
    return (bounds + line).properties(width=380, height=240)


if __name__ == "__main__":
    save_chart(chart(points(sys.argv[1])), HERE / "yandex-examination.svg")
