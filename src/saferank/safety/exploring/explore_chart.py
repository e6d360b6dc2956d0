"""The chart of a plan: errors by rank, sessions needed, and cost, of every candidate."""

from __future__ import annotations

from typing import Any

from saferank._core.charts import COLOURS, DASHES, scale
from saferank.safety.exploring.plan import ExplorationPlan


def explore_chart(plan: ExplorationPlan) -> Any:
    """An Altair chart: what the next log will tell, and what it costs."""
    import altair as alt

    names = [one.name for one in plan.outlooks[1:]] or [plan.chosen]
    colour = alt.Color("way:N", scale=scale(names, COLOURS), sort=names, legend=None)
    rows = alt.Chart({"values": _rows(plan)}).encode(
        y=alt.Y("way:N", sort=names, title=None, axis=alt.Axis(labelLimit=120)), color=colour
    )
    beside = alt.vconcat(
        _sessions_needed(plan, rows).properties(width=280, height=110),
        _cost(rows).properties(width=280, height=110),
    )
    title = alt.TitleParams(
        f"The next log: {plan.chosen}",
        subtitle=[
            f"What is served {plan.promise}.",
            f"Dashed: the error asked for, {plan.target:g}.",
        ],
        anchor="start",
    )
    return alt.hconcat(_error_curves(plan, names, colour), beside, title=title)


def _error_curves(plan: ExplorationPlan, names: list[str], colour: Any) -> Any:
    """Standard errors by rank, and the one that was asked for."""
    import altair as alt

    dash = alt.StrokeDash("way:N", scale=scale(names, DASHES), sort=names, legend=None)
    lines = (
        alt.Chart({"values": _errors(plan)})
        .mark_line(point=True)
        .encode(
            x=alt.X("rank:O", title="rank", axis=alt.Axis(labelAngle=0)),
            y=alt.Y(
                "error:Q",
                title=f"standard error of log alpha ({plan.kind} bias)",
                scale=alt.Scale(type="log"),
            ),
            color=colour,
            strokeDash=dash,
            tooltip=["way:N", "rank:O", alt.Tooltip("error:Q", format=".3g")],
        )
    )
    line = alt.Chart({"values": [{"target": plan.target}]}).mark_rule(
        strokeDash=[4, 3], color="#666666"
    )
    return (lines + line.encode(y="target:Q")).properties(width=330, height=262)


def _sessions_needed(plan: ExplorationPlan, rows: Any) -> Any:
    """How many sessions each way needs, with the numbers."""
    import altair as alt

    needed = rows.transform_filter("isValid(datum.sessions)").encode(
        x=alt.X(
            "sessions:Q",
            title=f"sessions for an error of {plan.target:g} at every rank",
            scale=alt.Scale(type="log"),
            axis=alt.Axis(format="~s"),
        ),
        tooltip=["way:N", alt.Tooltip("sessions:Q", format=",.0f")],
    )
    named = needed.mark_text(align="left", dx=8).encode(
        text=alt.Text("sessions:Q", format=".3s"), color=alt.value("black")
    )
    return needed.mark_point(filled=True, size=90, opacity=1) + named


def _cost(rows: Any) -> Any:
    """What any query can lose."""
    import altair as alt

    return rows.mark_bar().encode(
        x=alt.X("lost:Q", title="most that any query can lose", axis=alt.Axis(format="%")),
        tooltip=["way:N", alt.Tooltip("lost:Q", format=".2%")],
    )


def _errors(plan: ExplorationPlan) -> list[dict[str, Any]]:
    return [
        {"way": one.name, "rank": rank, "error": error}
        for one in plan.outlooks[1:]
        for rank, error in enumerate(one.errors[plan.kind], start=1)
        if rank > 1 and error is not None
    ]


def _rows(plan: ExplorationPlan) -> list[dict[str, Any]]:
    return [
        {"way": one.name, "sessions": one.sessions_needed, "lost": one.largest_loss}
        for one in plan.outlooks[1:]
    ]
