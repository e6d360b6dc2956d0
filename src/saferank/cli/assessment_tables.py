"""An assessment in a terminal: the sentence, what clicks say, the worst case."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from saferank.cli.output import print_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from saferank.evaluation.fair_exposure import ExposureReport, GroupShare
    from saferank.safety import Assessment, Certificate


def print_assessment(assessment: Assessment) -> None:
    """The verdict first, then what it rests on."""
    typer.echo(assessment.decision.sentence)
    if assessment.flatters is not None:
        typer.echo(f"Warning: {assessment.flatters}")
    checks = [
        (check.asked, "met" if check.met else "not met", check.found)
        for check in assessment.decision.checks
    ]
    if checks:
        print_table("Both have to be met", ("asked for", "", "found"), checks)
    by_clicks = _click_rows(assessment)
    if by_clicks:
        title = assessment.feedback.say("By the clicks of sessions to judge by")
        print_table(title, ("what", "value"), by_clicks)
    print_table(_worst_case_title(assessment), ("what", "value"), _worst_case_rows(assessment))
    if assessment.exposures is not None:
        _print_exposures(assessment.exposures, assessment.guarded)
    typer.echo("This assumes:")
    for sentence in assessment.decision.assumes:
        typer.echo(f"  - {sentence}")
    if assessment.decision.next_step:
        typer.echo(f"Next: {assessment.decision.next_step}")


def _print_exposures(report: ExposureReport, guarded: bool) -> None:
    """Exposure by group before and after, and measures of fairness."""
    new = "new, with the guard" if guarded else "new"
    by_clicks = any(group.merit_by_clicks or group.merit_untold for group in report.groups)
    columns: list[tuple[str, Callable[[GroupShare], str], bool]] = [
        (report.column, lambda group: group.name, True),
        ("documents", lambda group: f"{group.documents:.1%}", True),
        ("merit", lambda group: _share(group.merit), report.merit_from is not None),
        ("exposure: production", lambda group: f"{group.production:.1%}", True),
        (f"exposure: {new}", lambda group: f"{group.new:.1%}", True),
        ("merit by clicks", _merit_by_clicks, by_clicks),
    ]
    shown = [(name, tell) for name, tell, known in columns if known]
    rows = [[tell(group) for _, tell in shown] for group in report.groups]
    title = f"Exposure by {report.column}, as shares of all traffic"
    print_table(title, [name for name, _ in shown], rows)
    if report.others:
        typer.echo(f"{report.others:,} more groups are not listed.")
    if report.merit_from is not None:
        typer.echo(f"Merit is {report.merit_from}.")
    if by_clicks:
        typer.echo("Merit by clicks is the relevance of a group per session, where they can tell.")
    old, now = report.production, report.new
    measures = [
        ("exposure per document: least over most of any group", old.parity, now.parity),
        ("exposure per merit: least over most of any group", old.treatment, now.treatment),
        ("pairwise disparity of documents", old.disparity, now.disparity),
        ("expected-exposure loss", old.expected_exposure_loss, now.expected_exposure_loss),
    ]
    lines = [
        (name, f"{before:.4g}", f"{after:.4g}")
        for name, before, after in measures
        if before is not None and after is not None
    ]
    print_table("Fairness of exposure", ("what", "production", new), lines)
    if report.frontier:
        costs = [(f"{one.floor:.0%}", f"{one.utility:.1%}") for one in report.frontier]
        title = f"What floors would cost behind the guard, on {report.frontier_queries:,} queries"
        columns_of_costs = ("every group keeps, of production's", "utility, of production's")
        print_table(title, columns_of_costs, costs)
        typer.echo("Utility is by merit here, and no promise: --floor promises one.")


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def _merit_by_clicks(group: GroupShare) -> str:
    merit = group.merit_by_clicks
    if merit is None:
        return f"not told: {group.merit_untold}"
    return f"{merit.estimate:.3g} ({merit.lower:.3g} to {merit.upper:.3g})"


def _click_rows(assessment: Assessment) -> list[tuple[str, object]]:
    what, feedback = "with the guard" if assessment.guarded else "as it is", assessment.feedback
    rows: list[tuple[str, object]] = []
    if assessment.clicks is not None:
        clicks, gap, bound = (
            assessment.clicks,
            assessment.clicks.difference,
            assessment.clicks.bound,
        )
        rows += [
            (f"change of clicks per session, {what}", f"{clicks.share(gap.estimate):+.1%} "
             f"({clicks.share(gap.lower):+.1%} to {clicks.share(gap.upper):+.1%})"),
            (f"...at least, with confidence {bound.confidence:.0%}",
             f"{clicks.share(bound.lower):+.1%}"),
            ("...of which sampling error takes", f"{clicks.share(bound.sampling):.1%}"),
            ("...and what the log hardly shows", f"{clicks.share(bound.withheld):.1%}"),
            ("clicks per session: production", f"{feedback.worth(clicks.production):.4f}"),
        ]  # fmt: skip
        if assessment.clicks_alone is not None:
            text = f"{clicks.share(assessment.clicks_alone.estimate):+.1%}"
            rows.append(("change of clicks per session, without the guard", text))
        rows = [(feedback.say(name), text) for name, text in rows]
    rows += _doubt_rows(assessment)
    for name in ("production", "new", "difference"):
        part = getattr(assessment, name)
        if part is not None:
            text = f"{part.estimate:.4f} ({part.lower:.4f} to {part.upper:.4f})"
            rows.append((f"utility (on the click model's scale of relevance): {name}", text))
    if assessment.support is not None:
        rows.append(
            ("sessions to judge by (effective)",
             f"{assessment.support.sessions:,} ({assessment.support.effective:,.0f})")
        )  # fmt: skip
    if assessment.fit is not None:
        rows.append(("production", assessment.fit.sentence))
    return rows


def _doubt_rows(assessment: Assessment) -> list[tuple[str, object]]:
    """What is certain of utility, the more the click model is doubted."""
    from saferank.safety import doubt_words as words

    curve = assessment.doubts
    if curve is None:
        return []
    points = dict(zip(curve.doubts, curve.shares, strict=True)) | {curve.stated: curve.share}
    some = [each for each in sorted({0.0, 0.1, 0.2, 0.5, curve.stated}) if each in points]
    shown = " / ".join(words.percent(each) for each in some)
    shares = " / ".join(words.percent(points[each]) for each in some)
    return [
        (f"utility certain, of production's, with a doubt of {shown}", shares),
        ("...however users behave, with no slack", words.percent(curve.unbounded)),
        (words.wanted(curve), words.breakdown(curve)),
    ]


def _floor_rows(certificate: Certificate, alone: str) -> list[tuple[str, object]]:
    """What groups keep, where floors are promised to them."""
    floors = certificate.floors
    if floors is None:
        return []
    where = f"{floors.worst_group}, query {floors.worst_query}"
    rows: list[tuple[str, object]] = [
        (f"{alone}traffic on queries whose groups keep their floors",
         f"{floors.share_holding:.1%}"),
        (f"{alone}least that any group keeps of its exposure", f"{floors.lowest:.1%} ({where})"),
    ]  # fmt: skip
    if floors.guarded_lowest is not None:
        rows.append(("with the guard: least that any group keeps", f"{floors.guarded_lowest:.1%}"))
    return rows


def _worst_case_title(assessment: Assessment) -> str:
    """The worst case is always told; whether the verdict rests on it is said, too."""
    if assessment.decision.rule == "clicks" and not assessment.guarded:
        return "Worst case, whatever users want (the verdict does not rest on it)"
    return "Worst case, whatever users want"


def _worst_case_rows(assessment: Assessment) -> list[tuple[str, object]]:
    certificate = assessment.certificate
    alone = "without the guard: " if assessment.guarded else ""
    observed = certificate.production_kind == "observed"
    loose = ", at most, with what frequencies leave open" if observed else ""
    return [
        ("promise", str(certificate.promise)),
        (
            "rank weights",
            f"{' '.join(f'{w:.3g}' for w in certificate.weights)} ({certificate.weights_from})",
        ),
        ("promised", certificate.scope),
        ("rankings", f"new: {certificate.deployed}, production: {certificate.production_kind}"),
        ("queries", certificate.queries),
        (f"{alone}promise holds for every query", "yes" if certificate.holds else "no"),
        *_floor_rows(certificate, alone),
        (f"{alone}promise holds on average", "yes" if certificate.holds_on_average else "no"),
        (
            f"{alone}traffic on queries that keep it{', at least' if observed else ''}",
            f"{certificate.share_holding:.1%}",
        ),
        (
            f"{alone}worst loss beyond the share given up{loose}, mean",
            f"{certificate.mean_loss / certificate.mean_total:.2%}",
        ),
        (
            f"{alone}worst loss beyond the share given up{loose}, worst query",
            f"{certificate.distribution.loss[-1]:.2%}",
        ),
        (
            f"{alone}largest loss at all{loose}, mean",
            f"{certificate.curve.mean[-1] / certificate.mean_total:.2%}",
        ),
        ("with the guard: queries it steps in on", f"{certificate.guard_share:.1%}"),
        *_guard_rows(certificate),
    ]


def _guard_rows(certificate: Certificate) -> list[tuple[str, object]]:
    """What the guard leaves of the new ranker."""
    left = "traffic of the new ranker" if certificate.guard_mode != "best" else "gain kept"
    by = "" if certificate.guard_mode != "best" else ", by its own exposures, weighted by traffic"
    rows: list[tuple[str, object]] = [
        ("with the guard: what is served", certificate.guard_mode),
        (f"with the guard: {left}{by}", f"{certificate.guard_mixing:.1%}"),
    ]
    if certificate.guard_holdout:
        holdout = f"{certificate.guard_holdout:.1%}"
        rows.append(("with the guard: sessions that production keeps at least", holdout))
    gain, kept = certificate.guard_gain, certificate.guard_gain_kept
    if gain is not None and kept is not None:
        text = f"{kept:+.4g} of {gain:+.4g}"
        rows.append(("with the guard: change of utility by the regression's relevance", text))
    return rows
