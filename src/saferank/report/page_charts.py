"""The charts of the page, as Altair descriptions; their text takes the page's colour."""

from __future__ import annotations

from typing import Any

from saferank._core.charts import COLOURS
from saferank.evaluation.fair_exposure import ExposureReport
from saferank.learning import Provenance
from saferank.safety import Assessment
from saferank.safety.doubt_words import breakdown, percent, wanted

WIDTH, HEIGHT = 520, 230
GROUPS = 10
"""Most groups that the chart of exposure shows."""
_INK = "currentColor"
BLUE, ORANGE, GREEN = COLOURS[:3]


def _finished(chart: Any, title: str) -> Any:
    return (
        chart.properties(
            width="container", height=HEIGHT, description=title, background="transparent"
        )
        .configure_axis(
            labelColor=_INK, titleColor=_INK, gridOpacity=0.25, domainOpacity=0.5, tickOpacity=0.5,
            labelFontSize=12, titleFontSize=12, titleFontWeight="normal",
        )
        .configure_legend(
            labelColor=_INK, titleColor=_INK, orient="top", labelFontSize=12, columns=2
        )
        .configure_view(strokeOpacity=0)
    )  # fmt: skip


ANY = 1.25
"""Where the chart of doubts has "any users": to the right of 100 %."""


def doubt_chart(assessment: Assessment) -> Any:
    """The share of production's utility that is certain at each doubt, from none to any users."""
    import altair as alt

    curve = assessment.doubts
    assert curve is not None
    rows = [{"doubt": d, "share": s} for d, s in zip(curve.doubts, curve.shares, strict=True)]
    x = alt.X(
        "doubt:Q", title="how wrong the click model may be", scale=alt.Scale(domain=[0, 1.35]),
        axis=alt.Axis(
            values=[0, 0.25, 0.5, 0.75, 1, ANY], labelOverlap=False,
            labelExpr="datum.value > 1.05 ? ['any', 'users'] : format(datum.value, '~%')",
        ),
    )  # fmt: skip
    y = alt.Y("share:Q", title="share of production's utility", axis=_percent())
    tooltips = [alt.Tooltip("doubt:Q", format=".0%"), alt.Tooltip("share:Q", format=".1%")]
    certain = alt.Chart({"values": rows}).mark_area(
        line={"color": BLUE, "strokeWidth": 2.5}, color=BLUE, opacity=0.18,
        point={"color": BLUE, "filled": True, "size": 45},
    ).encode(x=x, y=y, tooltip=tooltips)  # fmt: skip
    without = alt.Chart({"values": [{"doubt": ANY, "share": curve.unbounded}]}).mark_point(
        color=BLUE, filled=True, size=110, shape="square"
    ).encode(x="doubt:Q", y="share:Q", tooltip=[alt.Tooltip("share:Q", format=".1%")])  # fmt: skip
    layers = [certain, without, *_marks_of_doubt(assessment)]
    return _finished(alt.layer(*layers), doubt_description(assessment)).properties(height=300)


def _marks_of_doubt(assessment: Assessment) -> list[Any]:
    """What is wanted, the stated doubt, the breakdown and the estimate."""
    import altair as alt

    curve = assessment.doubts
    assert curve is not None
    line = alt.Chart({"values": [{"share": curve.wanted, "text": _wanted(curve.wanted)}]})
    marks = [
        line.mark_rule(color=ORANGE, strokeDash=[6, 3], strokeWidth=2).encode(y="share:Q"),
        line.mark_text(align="right", baseline="bottom", dy=-4, color=_INK).encode(
            y="share:Q", x=alt.datum(1.35), text="text:N"
        ),
    ]
    marks.append(_point({"doubt": curve.stated, "share": curve.share}, "diamond", BLUE))
    if curve.breakdown is not None and not curve.for_any_users:
        broken = {"doubt": curve.breakdown, "share": curve.wanted}
        marks.append(_point(broken, "cross", ORANGE))
    new, old = assessment.new, assessment.production
    if new is not None and old is not None and old.estimate > 0:
        marks.append(_point({"doubt": 0.0, "share": new.estimate / old.estimate}, "circle", GREEN))
    return marks


def _point(row: dict[str, float], shape: str, colour: str) -> Any:
    import altair as alt

    tooltips = [alt.Tooltip("doubt:Q", format=".0%"), alt.Tooltip("share:Q", format=".1%")]
    chart = alt.Chart({"values": [row]}).mark_point(
        shape=shape, size=220, filled=True, color=colour, stroke="white", strokeWidth=1.5, opacity=1
    )
    return chart.encode(x="doubt:Q", y="share:Q", tooltip=tooltips)


def _wanted(share: float) -> str:
    return "as good as production" if share == 1 else f"{100 * share:g} % of production"


def doubt_description(assessment: Assessment) -> str:
    """The chart in words, for those who do not see it."""
    curve = assessment.doubts
    assert curve is not None
    points = dict(zip(curve.doubts, curve.shares, strict=True))
    said = ", ".join(f"{percent(points[each])} at a doubt of {percent(each)}" for each in _READ)
    return (
        f"Share of production's utility that is certain: {said}, {percent(curve.unbounded)} "
        f"however users behave. {wanted(curve).capitalize()}: {breakdown(curve)}."
    )


_READ = (0.0, 0.1, 0.2, 0.5, 1.0)


def promise_curve(assessment: Assessment) -> Any:
    """The worst loss at each share kept: mean, with the guard, and of the worst query."""
    import altair as alt

    certificate, curve = assessment.certificate, assessment.certificate.curve
    lines = {
        "mean over traffic": [value / certificate.mean_total for value in curve.mean],
        "worst query": list(curve.worst),
        "mean with the guard": [value / certificate.mean_total for value in curve.guarded],
    }
    rows = [
        {"kept": kept, "loss": loss, "line": name}
        for name, values in lines.items()
        for kept, loss in zip(curve.kept, values, strict=True)
    ]
    names = list(lines)
    drawn = (
        alt.Chart({"values": rows})
        .mark_line(strokeWidth=2.5)
        .encode(
            x=alt.X("kept:Q", title="share of production's utility kept", axis=_percent()),
            y=alt.Y(
                "loss:Q", title="loss beyond it, at worst (share of the most)", axis=_percent()
            ),
            color=alt.Color(
                "line:N", title=None, scale=alt.Scale(domain=names, range=[BLUE, ORANGE, GREEN])
            ),
            strokeDash=alt.StrokeDash(
                "line:N",
                title=None,
                scale=alt.Scale(domain=names, range=[[1, 0], [6, 3], [2, 2]]),
            ),
            tooltip=["line:N", _number("kept:Q"), _number("loss:Q")],
        )
    )
    promised = (
        alt.Chart(
            {"values": [{"kept": certificate.promise.keep, "loss": certificate.promise.slack}]}
        )
        .mark_point(size=130, shape="cross", filled=True, color=_INK, angle=45)
        .encode(x="kept:Q", y="loss:Q", tooltip=[_number("kept:Q"), _number("loss:Q")])
    )
    return _finished(drawn + promised, "Worst loss against the share of utility kept")


def loss_over_queries(assessment: Assessment) -> Any:
    """How the worst loss is spread over the traffic, against the slack that is promised."""
    import altair as alt

    certificate = assessment.certificate
    rows = [
        {"traffic": level / 100, "loss": loss}
        for level, loss in enumerate(certificate.distribution.loss)
    ]
    area = (
        alt.Chart({"values": rows})
        .mark_area(line={"color": BLUE}, color=BLUE, opacity=0.3, interpolate="step-before")
        .encode(
            x=alt.X("traffic:Q", title="share of the traffic, from safest", axis=_percent()),
            y=alt.Y("loss:Q", title="loss beyond the share given up, at worst", axis=_percent()),
            tooltip=[_number("traffic:Q"), _number("loss:Q")],
        )
    )
    slack = (
        alt.Chart({"values": [{"slack": certificate.promise.slack}]})
        .mark_rule(color=ORANGE, strokeDash=[6, 3], strokeWidth=2)
        .encode(y="slack:Q", tooltip=[_number("slack:Q")])
    )
    return _finished(area + slack, "Worst loss of queries over the traffic; dashed: the slack")


def clicks_change(assessment: Assessment) -> Any:
    """Clicks per session of production, as counted, and of the new ranker with its interval."""
    import altair as alt

    assert assessment.clicks is not None
    worth, say, gap = (
        assessment.feedback.worth,
        assessment.feedback.say,
        assessment.clicks.difference,
    )
    old = worth(assessment.clicks.production)
    new = {name: old + worth(getattr(gap, name)) for name in ("estimate", "lower", "upper")}
    rows = [
        {"ranker": "production", "estimate": old, "lower": old, "upper": old},
        {"ranker": "new", **new},
    ]
    base = alt.Chart({"values": rows}).encode(y=alt.Y("ranker:N", title=None, sort=None))
    bars = base.mark_rule(strokeWidth=3, color=BLUE).encode(
        x=alt.X(
            "lower:Q", title=say("clicks per session"), scale=alt.Scale(zero=False),
            axis=alt.Axis(tickCount=6, labelOverlap="greedy", labelSeparation=12),
        ),
        x2="upper:Q",
    )  # fmt: skip
    points = base.mark_point(filled=True, size=120, color=BLUE, opacity=1).encode(
        x="estimate:Q", tooltip=["ranker:N", *map(_precise, ("estimate", "lower", "upper"))]
    )
    title = say("Clicks per session with their interval")
    return _finished(bars + points, title).properties(height=90)


def click_rates(assessment: Assessment) -> Any:
    """Clicks at each rank, as seen and as the click model has them."""
    import altair as alt

    assert assessment.log is not None
    worth, say = assessment.feedback.worth, assessment.feedback.say
    rows = [
        {"rank": rate.rank, "rate": worth(value), "clicks": name}
        for rate in assessment.log.by_rank
        for name, value in (("as seen", rate.observed), ("by the click model", rate.modelled))
    ]
    names = ["as seen", "by the click model"]
    return _finished(
        alt.Chart({"values": rows})
        .mark_line(point={"size": 70, "filled": True})
        .encode(
            x=alt.X("rank:O", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("rate:Q", title=say("clicks per impression")),
            color=alt.Color(
                "clicks:N", title=None, scale=alt.Scale(domain=names, range=[BLUE, ORANGE])
            ),
            strokeDash=alt.StrokeDash(
                "clicks:N", title=None, scale=alt.Scale(domain=names, range=[[1, 0], [6, 3]])
            ),
            tooltip=["clicks:N", "rank:O", _precise("rate")],
        ),
        say("Clicks at each rank, as seen and by the click model"),
    )


def learning_curve(provenance: Provenance) -> Any:
    """The objective on validation queries while learning."""
    import altair as alt

    pairs = zip(provenance.history["steps"], provenance.history["values"], strict=False)
    rows = [{"step": step, "objective": value} for step, value in pairs]
    return _finished(
        alt.Chart({"values": rows})
        .mark_line(point=True, color=BLUE)
        .encode(
            x=alt.X("step:Q"),
            y=alt.Y("objective:Q", title="objective on validation", scale=alt.Scale(zero=False)),
            tooltip=["step:Q", _precise("objective")],
        ),
        "The objective on validation queries while learning",
    )


def _percent() -> Any:
    import altair as alt

    return alt.Axis(format="~%")


def _number(name: str) -> Any:
    import altair as alt

    return alt.Tooltip(name, format=".2%")


def _precise(name: str) -> Any:
    import altair as alt

    return alt.Tooltip(f"{name}:Q", format=".4f")


def group_chart(report: ExposureReport, *, guarded: bool) -> Any:
    """Shares of exposure by group: production's, what would be served, and of merit."""
    import altair as alt

    listed = report.groups[:GROUPS]
    series = {"production": "production", "new, with the guard" if guarded else "new": "new"}
    if report.merit_from is not None:
        series["merit"] = "merit"
    rows = [
        {"group": group.name, "what": what, "share": getattr(group, field)}
        for group in listed
        for what, field in series.items()
    ]
    order = [group.name for group in listed]
    return _finished(
        alt.Chart({"values": rows})
        .mark_bar()
        .encode(
            x=alt.X("group:N", sort=order, title=None, axis=alt.Axis(labelAngle=0, labelLimit=90)),
            xOffset=alt.XOffset("what:N", sort=list(series)),
            y=alt.Y("share:Q", title="share of all exposure", axis=_percent()),
            color=alt.Color(
                "what:N", title=None, sort=list(series),
                scale=alt.Scale(domain=list(series), range=[ORANGE, BLUE, GREEN][: len(series)]),
            ),
            tooltip=["group:N", "what:N", alt.Tooltip("share:Q", format=".1%")],
        ),
        f"Shares of exposure by {report.column}, before and after",
    )  # fmt: skip


def floor_chart(report: ExposureReport) -> Any:
    """Utility that the guarded policy has at each floor for groups, beside production's."""
    import altair as alt

    rows = [{"floor": one.floor, "utility": one.utility} for one in report.frontier]
    line = (
        alt.Chart({"values": rows})
        .mark_line(color=BLUE, strokeWidth=2.5, point={"color": BLUE, "filled": True, "size": 60})
        .encode(
            x=alt.X("floor:Q", title="exposure that every group keeps", axis=_percent()),
            y=alt.Y(
                "utility:Q", title="utility, of production's", axis=_percent(),
                scale=alt.Scale(zero=False),
            ),
            tooltip=[_number("floor:Q"), _number("utility:Q")],
        )
    )  # fmt: skip
    level = (
        alt.Chart({"values": [{"utility": 1.0}]})
        .mark_rule(color=ORANGE, strokeDash=[6, 3], strokeWidth=2)
        .encode(y="utility:Q")
    )
    title = f"Utility against the share of its exposure that every {report.column} keeps"
    return _finished(line + level, f"{title}; dashed: production")
