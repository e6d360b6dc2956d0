"""One HTML file: verdict, charts with a still picture each, changed queries, how to repeat it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saferank._core.files import atomic_file
from saferank._core.marks import mark
from saferank.evaluation.fair_exposure import ExposureReport
from saferank.learning import Provenance
from saferank.report import page_charts
from saferank.safety import Assessment, Comparison, doubt_words
from saferank.safety.changes import Change
from saferank.safety.doubt_words import percent, wanted
from saferank.safety.unchecked import not_checked


@dataclass(frozen=True)
class Figure:
    """A chart of the page: its id, what it shows, and the text below it."""

    name: str
    title: str
    caption: str
    spec: dict[str, Any]
    still: str


@dataclass(frozen=True)
class QueryBlock:
    """A rank before and after: the documents there, and how the new one got there."""

    rank: int
    before: str
    after: str
    moved: str


def write_page(
    path: str | Path,
    assessment: Assessment,
    provenance: Provenance,
    name: str = "run",
    comparison: Comparison | None = None,
) -> Path:
    """Write the page of an assessed ranker, whole or not at all; returns its path.

    Parameters
    ----------
    path
        The HTML file.
    assessment
        As `assess` returns it.
    provenance
        The ranker's own (`ranker.provenance`).
    name
        What the page calls the run.
    comparison
        The candidates that it was chosen among, where there were any.

    Returns
    -------
    Path
        Where the page is.

    See Also
    --------
    saferank.assess : makes the assessment.

    Examples
    --------
    >>> import numpy as np
    >>> import saferank as sr
    >>> items = sr.data.synthetic("small", queries=40, seed=0).train
    >>> model, shown = sr.clicks.trust_bias(), np.zeros(items.documents)
    >>> counts = sr.clicks.simulate(items, shown, model, sessions=1000, seed=0)
    >>> settings = sr.learning.Settings(steps=20)
    >>> ranker = sr.learn(
    ...     items, counts, model, production=shown, scorer="linear", settings=settings
    ... )
    >>> import tempfile
    >>> assessment = sr.assess(ranker, items, production=shown, counts=counts, click_model=model)
    >>> page = write_page(Path(tempfile.mkdtemp()) / "page.html", assessment, ranker.provenance)
    >>> assessment.decision.sentence.partition(":")[0] in page.read_text(encoding="utf-8")
    True
    """
    target = Path(path)
    with atomic_file(target) as temporary:
        temporary.write_text(render(assessment, provenance, name, comparison), encoding="utf-8")
        mark(temporary, "html")
    return target


def render(
    assessment: Assessment,
    provenance: Provenance,
    name: str = "run",
    comparison: Comparison | None = None,
) -> str:
    """The page as text; every value in it is escaped."""
    import vl_convert
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("saferank.report"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    figures = {figure.name: figure for figure in _figures(assessment, provenance)}
    # The scripts are a package's own file, not data; nothing in it may end the element early.
    bundle: str = vl_convert.javascript_bundle()  # type: ignore[call-arg]
    scripts = bundle.replace("</script", "<\\/script")
    return environment.get_template("page.html.jinja").render(
        name=name,
        assessment=assessment,
        certificate=assessment.certificate,
        provenance=provenance,
        figures=figures,
        stills={key: Markup(figure.still) for key, figure in figures.items()},  # noqa: S704
        specs={key: figure.spec for key, figure in figures.items()},
        scripts=Markup(scripts),  # noqa: S704
        places=places,
        settings=_settings(provenance),
        words=doubt_words,
        feedback=assessment.feedback,
        unchecked=[assessment.feedback.say(each) for each in not_checked(assessment)],
        comparison=comparison,
    )


def _figures(assessment: Assessment, provenance: Provenance) -> Iterator[Figure]:
    certificate, say = assessment.certificate, assessment.feedback.say
    if assessment.doubts is not None:
        yield _figure(
            "doubt", "What is certain, the more the click model is doubted",
            _doubt_caption(assessment), page_charts.doubt_chart(assessment),
        )  # fmt: skip
    keep, slack = certificate.promise.keep, certificate.promise.slack
    if assessment.clicks is not None:
        gap = assessment.clicks.difference
        text = (
            f"Production's clicks as counted; the bar is the {gap.confidence:.0%} interval of the "
            f"difference to them ({gap.method})."
        )
        yield _figure(
            "change", "New against production", say(text), page_charts.clicks_change(assessment)
        )
    yield _figure(
        "curve",
        "What is kept, for any relevance",
        f"For each share of production's utility, the most that can be lost beyond it. The cross "
        f"is the promise: {100 * keep:g} % kept, slack {100 * slack:g} %.",
        page_charts.promise_curve(assessment),
    )
    yield _figure(
        "spread",
        "Over the queries, without the guard" if assessment.guarded else "Over the queries",
        f"The traffic from its safest to its least safe query; {certificate.share_holding:.1%} of "
        + (
            "it keeps the promise, floors of groups included; the slack is dashed."
            if certificate.floors is not None
            else "it stays within the slack (dashed)."
        ),
        page_charts.loss_over_queries(assessment),
    )
    if assessment.exposures is not None:
        yield from _group_figures(assessment.exposures, guarded=assessment.guarded)
    if assessment.log is not None:
        text = "Far apart, the click model does not describe these users."
        yield _figure("clicks", say("Clicks by rank"), text, page_charts.click_rates(assessment))
    if len(provenance.history.get("steps", [])) > 1:
        text = "The ranker of the best step is kept."
        yield _figure("learning", "Learning", text, page_charts.learning_curve(provenance))


def _group_figures(report: ExposureReport, *, guarded: bool) -> Iterator[Figure]:
    """Exposure of groups of documents, and what floors for it would cost."""
    chart = page_charts.group_chart(report, guarded=guarded)
    yield _figure("groups", f"Exposure by {report.column}", _group_caption(report), chart)
    if report.frontier:
        yield _figure(
            "floors", "What floors would cost", _floor_caption(report),
            page_charts.floor_chart(report),
        )  # fmt: skip


def _group_caption(report: ExposureReport) -> str:
    text = "Shares of the exposure of all traffic, before and after."
    if report.merit_from is not None:
        text += f" Merit is {report.merit_from}."
    old, new = report.production, report.new
    for name, before, after in (
        ("exposure per document", old.parity, new.parity),
        ("exposure per merit", old.treatment, new.treatment),
    ):
        if before is not None and after is not None:
            text += (
                f" Least {name} of any group over the most: {before:.2f} before, {after:.2f} after."
            )
    hidden = len(report.groups) - page_charts.GROUPS + report.others
    return text + (f" {hidden:,} smaller groups are not shown." if hidden > 0 else "")


def _floor_caption(report: ExposureReport) -> str:
    first, last = report.frontier[0], report.frontier[-1]
    return (
        f"Behind the guard, if every {report.column} of every query keeps at least so much of its "
        f"exposure under production: {first.utility:.1%} of production's utility without floors, "
        f"{last.utility:.1%} if each keeps all of it. Utility is by merit ({report.merit_from}), "
        f"on {report.frontier_queries:,} queries."
    )


def _doubt_caption(assessment: Assessment) -> str:
    curve = assessment.doubts
    assert curve is not None
    text = (
        f"Line: certain with confidence {curve.confidence:.0%}. Diamond: with a doubt of "
        f"{percent(curve.stated)}. Circle: the estimate, if the click model is right. "
    )
    if curve.breakdown is not None and not curve.for_any_users:
        text += f"Cross: {wanted(curve)} is certain up to here ({percent(curve.breakdown)}). "
    return text + "Square: what needs no click model at all, with no slack."


def _figure(name: str, title: str, caption: str, chart: Any) -> Figure:
    import vl_convert

    still = chart.properties(width=page_charts.WIDTH).to_dict()
    picture = vl_convert.vegalite_to_svg(still)
    return Figure(name, title, caption, chart.to_dict(), picture)


def places(change: Change, ranks: int) -> list[QueryBlock]:
    """The rankings of a query side by side, by their scores."""
    before = {moved.rank_before: moved for moved in change.moved}
    after = {moved.rank_after: moved for moved in change.moved}
    rows = []
    for rank in range(1, min(ranks, change.documents) + 1):
        new = after.get(rank)
        how = ""
        if new is not None and new.rank_before != rank:
            how = f"{'▲' if new.rank_before > rank else '▼'} from {new.rank_before}"
        old = before.get(rank)
        rows.append(QueryBlock(rank, old.document if old else "", new.document if new else "", how))
    return rows


def _settings(provenance: Provenance) -> list[tuple[str, str]]:
    parts = {k: v for k, v in provenance.recipe.items() if v is not None and k != "settings"}
    parts |= provenance.recipe.get("settings", {})
    return [(key.replace("_", " "), str(value)) for key, value in sorted(parts.items())]
