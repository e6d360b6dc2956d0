"""The figures as Altair charts; colour, dashes and shapes go together: legible in grey too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from saferank._core.charts import COLOURS, DASHES, scale
from saferank.experiments.learning_curves import CURVES, Curve, curves_of
from saferank.experiments.results import Results, prediction_interval
from saferank.metrics import dcg_weights
from saferank.objectives.exposure import prpo

_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
# colour, dashes, and where the name stands: apart when the two lines are level
_REFERENCES: dict[str, tuple[str, list[int], Any]] = {
    "production": ("#555555", [3, 3], "top"),
    "skyline": ("#aaaaaa", [10, 4], "bottom"),
}
_WIDTH, _HEIGHT = 300, 230


@dataclass(frozen=True)
class _Figure:
    """A figure's title, and its panels for the results of one collection."""

    title: str
    panels: Callable[[Results], list[Any]]
    one_axis: bool = True
    """Whether the panels share the vertical axis."""


def draw(figure: int, results: Results) -> Any:
    """A figure as an Altair chart, its panels side by side."""
    import altair as alt

    drawn = _FIGURES[figure]
    return _entitle(_share(alt.hconcat(*drawn.panels(results)), drawn.one_axis), figure)


def draw_columns(figure: int, results: Mapping[str, Results]) -> Any:
    """A figure with a column per collection, as in the paper; each column has its own axis."""
    import altair as alt

    drawn = _FIGURES[figure]
    columns = [
        _share(alt.vconcat(*drawn.panels(its)), drawn.one_axis).properties(
            title=alt.TitleParams(name, anchor="middle", fontSize=14)
        )
        for name, its in results.items()
    ]
    return _entitle(_share(alt.hconcat(*columns, spacing=30), one_axis=False), figure)


def _share(chart: Any, one_axis: bool) -> Any:
    """Panels of one axis or of their own; each has a legend of its own."""
    apart = dict.fromkeys(("color", "strokeDash", "shape"), "independent")
    return chart.resolve_scale(**apart, y="shared" if one_axis else "independent")


def _entitle(chart: Any, figure: int) -> Any:
    import altair as alt

    title = f"Figure {figure}. {_FIGURES[figure].title}"
    return (
        chart.properties(title=alt.TitleParams(title, anchor="start", fontSize=15))
        .configure_view(strokeOpacity=0.3)
        .configure_legend(labelLimit=260, symbolSize=90)
    )


def _by_measure(figure: int) -> Callable[[Results], list[Any]]:
    def panels(results: Results) -> list[Any]:
        return [
            _panel("expected NDCG (the policy as it is)", CURVES[figure], results, "expected"),
            _panel("NDCG of the sorted scores", CURVES[figure], results, "sorted"),
        ]

    return panels


def _by_panel(figure: int) -> Callable[[Results], list[Any]]:
    def panels(results: Results) -> list[Any]:
        curves = CURVES[figure]
        return [
            _panel(name, [c for c in curves if c.panel == name], results, "expected")
            for name in dict.fromkeys(curve.panel for curve in curves)
        ]

    return panels


def _panel(title: str, curves: Sequence[Curve], results: Results, measure: str) -> Any:
    """Lines with points, 80 % prediction intervals, production and skyline."""
    import altair as alt

    rows = [row for curve in curves for row in _points(curve, results, measure)]
    labels = [curve.label for curve in curves]
    style = {
        "color": _scale("label", labels, COLOURS),
        "strokeDash": _scale("label", labels, DASHES),
        "shape": _scale("label", labels, _SHAPES),
    }
    x = alt.X(
        "sessions:Q",
        title="number of sessions N",
        scale=alt.Scale(type="log"),
        axis=alt.Axis(values=_decades(results), format="~e", grid=False),
    )
    y = alt.Y("mean:Q", title="NDCG@5", scale=alt.Scale(zero=False))
    base = alt.Chart(alt.InlineData(values=rows), title=title, width=_WIDTH, height=_HEIGHT)
    tooltip = ["label:N", "sessions:Q", "mean:Q", "low:Q", "high:Q", "seeds:Q"]
    band = base.mark_area(opacity=0.13).encode(
        x=x,
        y=alt.Y("low:Q", title="NDCG@5", scale=alt.Scale(zero=False)),
        y2="high:Q",
        color=alt.Color(**style["color"]),
    )
    lines = base.mark_line(strokeWidth=1.8).encode(
        x=x,
        y=y,
        color=alt.Color(**style["color"]),
        strokeDash=alt.StrokeDash(**style["strokeDash"]),
    )
    points = base.mark_point(size=45, filled=True, opacity=1).encode(
        x=x,
        y=y,
        color=alt.Color(**style["color"]),
        shape=alt.Shape(**style["shape"]),
        tooltip=tooltip,
    )
    strong = any(curve.strong for curve in curves)
    return alt.layer(band, *_reference_lines(results, measure, strong, title), lines, points)


def _scale(
    name: str, labels: Sequence[str], values: Sequence[Any], title: str | None = None
) -> dict[str, Any]:
    import altair as alt

    # no outline: it would take the dashes of the lines, and fray
    legend = alt.Legend(
        title=title, orient="bottom", columns=2, symbolOpacity=1, symbolStrokeWidth=0
    )
    return {
        "shorthand": f"{name}:N",
        "scale": scale(labels, values),
        "legend": legend,
    }


def _points(curve: Curve, results: Results, measure: str) -> list[dict[str, Any]]:
    rows = []
    for sessions in curve.sessions(results.study):
        values = results.values(curve, sessions, measure)
        if values.size:
            it = prediction_interval(values)
            rows.append(
                {
                    "label": curve.label,
                    "sessions": sessions,
                    "mean": it.mean,
                    "low": it.low,
                    "high": it.high,
                    "seeds": int(values.size),
                }
            )
    return rows


def _reference_lines(results: Results, measure: str, strong: bool, title: str) -> list[Any]:
    import altair as alt

    marks: list[Any] = []
    for name, (colour, dash, side) in _REFERENCES.items():
        values = results.values(Curve("", name, name, strong=strong), 0, measure)
        if not values.size:
            continue
        row = alt.InlineData(values=[{"mean": float(values.mean()), "name": name}])
        base = alt.Chart(row, title=title)
        marks.append(
            base.mark_rule(color=colour, strokeDash=dash, strokeWidth=1.5).encode(y="mean:Q")
        )
        text = base.mark_text(align="left", baseline=side, dx=4, color="#333333", fontSize=10)
        marks.append(text.encode(y="mean:Q", x=alt.value(_WIDTH), text="name:N"))
    return marks


def _decades(results: Results) -> list[int]:
    low, high = results.study.sessions[0], results.study.sessions[-1]
    return [10**power for power in range(16) if low <= 10**power <= high]


def _ratios(results: Results) -> list[Any]:
    """Clipped (solid) and plain (dashed) ratios of DCG weights; no results are needed."""
    import altair as alt

    del results
    parts = []
    for sign in (1.0, -1.0):
        rows = clipped_ratios(sign)
        labels = list(dict.fromkeys(row["original"] for row in rows))
        base = alt.Chart(alt.InlineData(values=rows), title=f"r = {sign:+.0f}").encode(
            x=alt.X("rank:Q", title="new rank", axis=alt.Axis(values=list(range(1, 11)))),
            color=alt.Color(**_scale("original", labels, COLOURS, "original rank")),
        )
        shape = alt.Shape(**_scale("original", labels, _SHAPES, "original rank"))
        y: dict[str, Any] = {"title": "weight ratio times r", "scale": alt.Scale(zero=False)}
        plain = base.mark_line(strokeDash=[3, 3], strokeWidth=1.2).encode(y=alt.Y("plain:Q", **y))
        clipped = base.mark_line(strokeWidth=2).encode(y=alt.Y("clipped:Q", **y))
        dots = base.mark_point(filled=True, size=40).encode(y=alt.Y("clipped:Q", **y), shape=shape)
        parts.append((plain + clipped + dots).properties(width=_WIDTH, height=_HEIGHT))
    return parts


def clipped_ratios(
    sign: float,
    originals: Sequence[int] = (2, 4, 6, 8),
    ranks: int = 10,
    delta: float = 1 / 1.15,
) -> list[dict[str, Any]]:
    """What PRPO pays a document at each new rank, as a share of what its original rank pays."""
    weights = dcg_weights(ranks)
    rows = []
    for original in originals:
        before = weights[original - 1]
        paid = prpo(weights, np.full(ranks, sign), omega0=np.full(ranks, before), delta=delta).value
        for rank in range(1, ranks + 1):
            rows.append(
                {
                    "original": str(original),
                    "rank": rank,
                    "plain": float(sign * weights[rank - 1] / before),
                    "clipped": float(paid[rank - 1] / before),
                }
            )
    return rows


def _bounds(results: Results) -> list[Any]:
    """Every job of figures 2 and 4: what was lost against what could be lost at most."""

    rows = []
    for curve in dict.fromkeys(curves_of(6)):
        for sessions in results.sessions(curve):
            for seed in range(results.study.seeds):
                measures = results.measures.get(results.job(curve, sessions, seed))
                if measures and "bound" in measures:
                    lost = measures["production_utility"] - measures["utility"]
                    rows.append(
                        {
                            "users": curve.users,
                            "method": curve.method,
                            "lost": lost,
                            "bound": measures["bound"],
                            "sessions": sessions,
                        }
                    )
    return [_bound_panel(users, rows) for users in ("trust", "adversarial")]


def _bound_panel(users: str, rows: Sequence[dict[str, Any]]) -> Any:
    import altair as alt

    shown = [row for row in rows if row["users"] == users]
    methods = sorted({row["method"] for row in shown})
    most = max((row["bound"] for row in shown), default=1.0)
    base = alt.Chart(
        alt.InlineData(values=shown), title=f"{users} users", width=_WIDTH, height=_HEIGHT
    )
    points = base.mark_point(size=35, filled=True, opacity=0.6).encode(
        x=alt.X("bound:Q", title="certificate: largest loss for any users"),
        y=alt.Y("lost:Q", title="utility lost (negative: won)"),
        color=alt.Color(**_scale("method", methods, COLOURS)),
        shape=alt.Shape(**_scale("method", methods, _SHAPES)),
        tooltip=["method:N", "sessions:Q", "lost:Q", "bound:Q"],
    )
    ends: list[dict[str, float]] = [{"bound": end, "lost": end} for end in (0.0, most)]
    line = alt.Chart(alt.InlineData(values=ends))
    return (
        line.mark_line(color="#555555", strokeDash=[3, 3]).encode(x="bound:Q", y="lost:Q") + points
    )


_FIGURES: dict[int, _Figure] = {
    1: _Figure(
        "Clipped (solid) and plain (dashed) weight ratios, δ = 1/1.15, DCG weights",
        _ratios,
        one_axis=False,
    ),
    2: _Figure("NDCG@5 against the number of sessions", _by_measure(2)),
    3: _Figure("Sensitivity to δ, users as the learner believes", _by_panel(3)),
    4: _Figure("Adversarial users", _by_panel(4)),
    5: _Figure("Users that break the learner's click model", _by_panel(5)),
    6: _Figure(
        "Utility lost against production, and the certificate's bound", _bounds, one_axis=False
    ),
    7: _Figure("A strong production ranker and few sessions", _by_measure(7)),
}
