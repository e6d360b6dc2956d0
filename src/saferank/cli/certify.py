"""`saferank certify`: is a ranker safe to ship in place of production?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saferank.cli.log_options import ItemColumn, RankFrom, columns_of
from saferank.cli.output import Json, print_json, print_table

if TYPE_CHECKING:
    from saferank.cli.inputs import ItemsAndCounts
    from saferank.clicks import ClickModel
    from saferank.evaluation import LogRows
    from saferank.learning import Ranker
    from saferank.safety import Assessment, Certificate

Run = Annotated[Path, typer.Argument(help="Folder of a learned ranker.", show_default=False)]
Items = Annotated[Path, typer.Option(help="Items: Parquet, CSV or LETOR text.")]
CountsFile = Annotated[
    Path | None, typer.Option(help="Counts: traffic of queries, and estimates from clicks.")
]
Production = Annotated[
    Path | None,
    typer.Option(help="Production's saved ranker or LightGBM file; else production_score."),
]
Keep = Annotated[
    float | None, typer.Option(help="Share of production's utility to keep. [the ranker's; 0.9]")
]
Slack = Annotated[
    float | None, typer.Option(help="...up to this share of the largest. [the ranker's; 0.01]")
]
Sorted = Annotated[bool, typer.Option("--sorted", help="Rankings are sorted by score, not drawn.")]

HideIds = Annotated[
    bool,
    typer.Option("--hide-ids", help="Short hashes in place of query and document ids."),
]

NOT_TO_SHIP = 3


ProductionPolicyOption = Annotated[
    str,
    typer.Option(
        "--production-policy",
        help="What production does: auto (by the log), sampled, sorted, observed, "
        "recorded or uniform.",
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        help="Rank weights: dcg:K, or numbers such as 1,0.5,0.3. [the ranker's]",
        show_default=False,
    ),
]
ExaminationOption = Annotated[
    str,
    typer.Option(
        "--examination",
        metavar="any|fitted|dcg|FILE",
        help="What the promise is for: the rank weights as fitted, any way of looking down the "
        "list, DCG's, or those of a file (bias.json, or a JSON list).",
    ),
]
GuardMode = Annotated[
    str | None,
    typer.Option(
        "--guard-mode",
        help="What the guard serves: best (most gain within the promise) or mix (the new ranker "
        "to some sessions, production to others). [best]",
        show_default=False,
    ),
]
JudgedLog = Annotated[
    list[str] | None,
    typer.Option(
        "--log",
        help="The log that was counted, for intervals by its sessions; files, folders or globs.",
        show_default=False,
    ),
]
LogColumn = Annotated[
    list[str] | None,
    typer.Option(
        "--log-column",
        metavar="NAME=YOURS",
        help="Your name of a column of the log: rank=position.",
    ),
]
SameSessions = Annotated[
    bool,
    typer.Option(
        "--same-sessions",
        help="Estimate from the sessions that it was learned from: this flatters it.",
    ),
]


def certify(
    run: Run,
    items: Items,
    column: ItemColumn = None,
    counts: CountsFile = None,
    production: Production = None,
    production_policy: ProductionPolicyOption = "auto",
    keep: Keep = None,
    slack: Slack = None,
    weights: Weights = None,
    examination: ExaminationOption = "fitted",
    sorted_: Sorted = False,
    guard: Annotated[
        bool, typer.Option("--guard", help="Judge the ranker with the guard in place.")
    ] = False,
    guard_mode: GuardMode = None,
    by: Annotated[
        str,
        typer.Option(
            help="auto, promise (for any relevance), clicks (a high-confidence test) or both."
        ),
    ] = "auto",
    tolerance: Annotated[
        float, typer.Option(help="Share of production's clicks that may be lost.")
    ] = 0.0,
    confidence: Annotated[float, typer.Option(help="Of intervals and of the test.")] = 0.95,
    doubt: Annotated[
        float | None,
        typer.Option(
            help="Ship only what is surely good enough though the click model may be wrong by "
            "this: 0.2 is 20 %. [not asked; how far it may be wrong is told]",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="normal, clustered, bootstrap, bernstein or cantelli. [clustered; normal with "
            "--log]",
            show_default=False,
        ),
    ] = None,
    bias: Annotated[
        str | None, typer.Option(help="bias.json or a click model by name. [the ranker's]")
    ] = None,
    log: JudgedLog = None,
    log_column: LogColumn = None,
    rank_from: RankFrom = None,
    same_sessions: SameSessions = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave counts without items out.")
    ] = False,
    hide_ids: HideIds = False,
    json: Json = False,
) -> None:
    """Certify a ranker against production: exit code 0 to ship, 3 not to, and why.

    The sessions set aside by `saferank count` make the estimate. The assessment is kept in the
    run's folder, for `saferank report` and `saferank rank`.

    Example: saferank certify run --items items.parquet --counts counts.parquet --guard
    """
    from saferank.cli.inputs import ItemsAndCounts, read_guard_mode
    from saferank.safety import Rule

    assessment = assess_run(
        run, ItemsAndCounts(items, counts, column, skip_bad), production=production, bias=bias,
        keep=keep, slack=slack, weights=weights, examination=examination,
        deployed="sorted" if sorted_ else "sampled", production_kind=production_policy,
        rule=Rule(
            by, tolerance, confidence, method, guard, same_sessions,
            guard_mode=read_guard_mode(guard_mode), doubt=doubt,
        ),
        log=_log_rows(log, counts, log_column, rank_from),
    )  # fmt: skip
    assessment = without_ids(assessment) if hide_ids else assessment
    if run.is_dir():
        assessment.save(run)
    if json:
        print_json({"verdict": assessment.decision.sentence, **assessment.to_dict()})
    else:
        _tell(assessment)
    if not assessment.decision.ship:
        raise typer.Exit(NOT_TO_SHIP)


def _tell(assessment: Assessment) -> None:
    typer.echo(assessment.decision.sentence)
    if assessment.flatters is not None:
        typer.echo(f"Warning: {assessment.flatters}")
    by_clicks = _click_rows(assessment)
    if by_clicks:
        print_table("By the clicks of sessions to judge by", ("what", "value"), by_clicks)
    print_table(_worst_case_title(assessment), ("what", "value"), _worst_case_rows(assessment))
    typer.echo("This assumes:")
    for sentence in assessment.decision.assumes:
        typer.echo(f"  - {sentence}")
    if assessment.decision.next_step:
        typer.echo(f"Next: {assessment.decision.next_step}")


def assess_run(
    run: Path,
    tables: ItemsAndCounts,
    *,
    production: Path | None,
    bias: str | None,
    keep: float | None,
    slack: float | None,
    weights: str | None,
    examination: str = "fitted",
    **options: Any,
) -> Assessment:
    """The assessment of a saved ranker on items, and counts where there are any."""
    from saferank.cli.inputs import read_examination, read_weights
    from saferank.errors import InputError
    from saferank.learning import Ranker
    from saferank.safety import assess
    from saferank.safety.promise import promise_of

    ranker = Ranker.load(run)
    click_model = None if tables.counts is None else _click_model(ranker, bias, tables.counts)
    if not ranker.provenance.weights and weights is None and click_model is None:
        raise InputError(
            "`--weights` must be given: this ranker's file says nothing of rank weights; "
            "--weights dcg:5, for example."
        )
    if weights is not None and examination not in ("any", "fitted"):
        raise InputError("`--weights` and `--examination` both give rank weights: leave one out.")
    data, counted, notes = tables.read(click_model, ranker=ranker)
    for sentence in (*ranker.differences(data), *notes):
        typer.echo(sentence, err=True)
    shown = data.production if production is None else Ranker.load(production)
    return assess(
        ranker, data, production=shown, counts=counted, click_model=click_model,
        promise=promise_of(ranker, keep, slack),
        weights=None if weights is None else read_weights(weights),
        examination=read_examination(examination), **options,
    )  # fmt: skip


def _click_model(ranker: Ranker, bias: str | None, counts: Path) -> ClickModel:
    """The click model that was asked for, else the one that the ranker was learned with."""
    from saferank.cli.inputs import read_click_model
    from saferank.clicks import ClickModel
    from saferank.errors import InputError

    own = ranker.provenance.click_model
    if bias is not None:
        return read_click_model(bias, counts)
    if own is None:
        raise InputError(
            "`--bias` must be given with counts: this ranker was learned with no click model."
        )
    return ClickModel.from_dict(own)


def _log_rows(
    log: list[str] | None, counts: Path | None, column: list[str] | None, rank_from: int | None
) -> LogRows | None:
    """The rows of the log, of which those to judge by are as the counts were split."""
    from saferank.counts import CountTable
    from saferank.errors import InputError
    from saferank.evaluation import LogRows

    if not log:
        return None
    if counts is None:
        raise InputError("`--counts` must be given with --log: the counts of its sessions.")
    columns = columns_of(column)
    return LogRows(
        log, CountTable.open(counts).split, columns, 1 if rank_from is None else rank_from
    )


def without_ids(assessment: Assessment) -> Assessment:
    """The assessment without ids."""
    from saferank.safety.hiding import hide_ids

    return hide_ids(assessment)


def _click_rows(assessment: Assessment) -> list[tuple[str, object]]:
    what = "with the guard" if assessment.guarded else "as it is"
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
            ("clicks per session: production", f"{clicks.production:.4f}"),
        ]  # fmt: skip
        if assessment.clicks_alone is not None:
            text = f"{clicks.share(assessment.clicks_alone.estimate):+.1%}"
            rows.append(("change of clicks per session, without the guard", text))
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
    by = "" if certificate.guard_mode != "best" else ", by its own exposures"
    rows: list[tuple[str, object]] = [
        ("with the guard: what is served", certificate.guard_mode),
        (f"with the guard: {left}{by}", f"{certificate.guard_mixing:.1%}"),
    ]
    gain, kept = certificate.guard_gain, certificate.guard_gain_kept
    if gain is not None and kept is not None:
        text = f"{kept:+.4g} of {gain:+.4g}"
        rows.append(("with the guard: change of utility by the regression's relevance", text))
    return rows
