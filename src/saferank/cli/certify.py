"""`saferank certify`: is a ranker safe to ship in place of production?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saferank.cli.log_options import ItemColumn, RankFrom, columns_of
from saferank.cli.output import Json, print_json, print_table

if TYPE_CHECKING:
    from saferank.evaluation import LogRows
    from saferank.safety import Assessment

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
    sorted_: Sorted = False,
    guard: Annotated[
        bool, typer.Option("--guard", help="Judge the ranker with the guard in place.")
    ] = False,
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
    found = assessed(
        run, items, counts, production, column=column, bias=bias, skip_bad=skip_bad,
        keep=keep, slack=slack,
        weights=weights, deployed="sorted" if sorted_ else "sampled", guard=guard, by=by,
        production_kind=production_policy, tolerance=tolerance, confidence=confidence,
        method=method, same_sessions=same_sessions,
        log=log, log_column=log_column, rank_from=rank_from,
    )  # fmt: skip
    found = hidden(found) if hide_ids else found
    if run.is_dir():
        found.save(run)
    if json:
        print_json({"verdict": found.decision.sentence, **found.to_dict()})
    else:
        _tell(found)
    if not found.decision.ship:
        raise typer.Exit(NOT_TO_SHIP)


def _tell(found: Assessment) -> None:
    typer.echo(found.decision.sentence)
    if found.flatters is not None:
        typer.echo(f"Warning: {found.flatters}")
    by_clicks = _click_rows(found)
    if by_clicks:
        print_table("By the clicks of sessions to judge by", ("what", "value"), by_clicks)
    print_table(_worst_case_title(found), ("what", "value"), _worst_case_rows(found))
    typer.echo("This assumes:")
    for sentence in found.decision.assumes:
        typer.echo(f"  - {sentence}")
    if found.decision.next_step:
        typer.echo(f"Next: {found.decision.next_step}")


def assessed(
    run: Path,
    items: Path,
    counts: Path | None,
    production: Path | None,
    *,
    column: list[str] | None = None,
    bias: str | None = None,
    skip_bad: bool = False,
    weights: str | None = None,
    log: list[str] | None = None,
    log_column: list[str] | None = None,
    rank_from: int | None = None,
    **options: Any,
) -> Assessment:
    """The assessment of a saved ranker on items, and counts where there are any."""
    from saferank.cli.inputs import read_click_model, read_logged, read_weights
    from saferank.clicks import ClickModel
    from saferank.errors import InputError
    from saferank.learning import Ranker
    from saferank.safety import assess

    ranker = Ranker.load(run)
    users = None
    if counts is not None:
        own = None if ranker.card.users is None else ClickModel.from_dict(ranker.card.users)
        if bias is None and own is None:
            raise InputError(
                "`--bias` must be given with counts: this ranker was learned with no click model."
            )
        users = own if bias is None and own else read_click_model(str(bias), counts)
    if not ranker.card.weights and weights is None and users is None:
        raise InputError(
            "`--weights` must be given: this ranker's file says nothing of rank weights; "
            "--weights dcg:5, for example."
        )
    data, counted, told = read_logged(items, counts, users, skip_bad, column=column, ranker=ranker)
    told = [*ranker.differences(data), *told]
    for sentence in told:
        typer.echo(sentence, err=True)
    shown = data.production if production is None else Ranker.load(production)
    return assess(
        ranker, data, production=shown, counts=counted, users=users,
        weights=None if weights is None else read_weights(weights),
        log=None if not log else _log_rows(log, counts, log_column, rank_from), **options,
    )  # fmt: skip


def _log_rows(
    log: list[str], counts: Path | None, column: list[str] | None, rank_from: int | None
) -> LogRows:
    """The rows of the log, of which those to judge by are as the counts were split."""
    from saferank.counts import CountTable
    from saferank.errors import InputError
    from saferank.evaluation import LogRows

    if counts is None:
        raise InputError("`--counts` must be given with --log: the counts of its sessions.")
    columns = columns_of(column)
    return LogRows(
        log, CountTable.open(counts).split, columns, 1 if rank_from is None else rank_from
    )


def hidden(found: Assessment) -> Assessment:
    """The assessment without ids."""
    from saferank.safety.hiding import hide_ids

    return hide_ids(found)


def _click_rows(found: Assessment) -> list[tuple[str, object]]:
    what = "with the guard" if found.guarded else "as it is"
    rows: list[tuple[str, object]] = []
    if found.clicks is not None:
        clicks, gap, bound = found.clicks, found.clicks.difference, found.clicks.bound
        rows += [
            (f"change of clicks per session, {what}", f"{clicks.share(gap.estimate):+.1%} "
             f"({clicks.share(gap.lower):+.1%} to {clicks.share(gap.upper):+.1%})"),
            (f"...at least, with confidence {bound.confidence:.0%}",
             f"{clicks.share(bound.lower):+.1%}"),
            ("...of which sampling error takes", f"{clicks.share(bound.sampling):.1%}"),
            ("...and what the log hardly shows", f"{clicks.share(bound.withheld):.1%}"),
            ("clicks per session: production", f"{clicks.production:.4f}"),
        ]  # fmt: skip
    for name in ("production", "new", "difference"):
        part = getattr(found, name)
        if part is not None:
            text = f"{part.estimate:.4f} ({part.lower:.4f} to {part.upper:.4f})"
            rows.append((f"utility (on the click model's scale of relevance): {name}", text))
    if found.support is not None:
        rows.append(
            ("sessions to judge by (effective)",
             f"{found.support.sessions:,} ({found.support.effective:,.0f})")
        )  # fmt: skip
    if found.fit is not None:
        rows.append(("production", found.fit.sentence))
    return rows


def _worst_case_title(found: Assessment) -> str:
    """The worst case is always told; whether the verdict rests on it is said, too."""
    if found.decision.rule == "clicks" and not found.guarded:
        return "Worst case, whatever users want (the verdict does not rest on it)"
    return "Worst case, whatever users want"


def _worst_case_rows(found: Assessment) -> list[tuple[str, object]]:
    one = found.certificate
    alone = "without the guard: " if found.guarded else ""
    loose = ", with what frequencies leave open" if one.production_kind == "observed" else ""
    return [
        ("promise", str(one.promise)),
        ("rank weights", f"{' '.join(f'{w:.3g}' for w in one.weights)} ({one.weights_from})"),
        ("rankings", f"new: {one.deployed}, production: {one.production_kind}"),
        ("queries", one.queries),
        (f"{alone}promise holds for every query", "yes" if one.holds else "no"),
        (f"{alone}promise holds on average", "yes" if one.holds_on_average else "no"),
        (f"{alone}traffic on queries that keep it", f"{one.share_holding:.1%}"),
        (
            f"{alone}worst loss beyond the share given up{loose}, mean",
            f"{one.mean_loss / one.mean_total:.2%}",
        ),
        (
            f"{alone}worst loss beyond the share given up{loose}, worst query",
            f"{one.distribution.loss[-1]:.2%}",
        ),
        (f"{alone}largest loss at all, mean", f"{one.curve.mean[-1] / one.mean_total:.2%}"),
        ("with the guard: queries it steps in on", f"{one.guard_share:.1%}"),
        ("with the guard: traffic of the new ranker", f"{one.guard_mixing:.1%}"),
    ]
