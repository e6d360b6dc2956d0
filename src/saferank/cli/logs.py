"""`saferank logs`: look at click logs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saferank.cli import log_options as options
from saferank.cli.output import Json, print_json, print_table
from saferank.cli.outputs import check_outputs

if TYPE_CHECKING:
    from saferank.logs import LogHealth

app = typer.Typer(help="Look at click logs.", no_args_is_help=True)

NOT_GOOD_ENOUGH = 3


@app.callback()
def _root() -> None:
    """Look at click logs."""


@app.command("check")
def check(
    log: options.Log,
    items: Annotated[
        Path | None,
        typer.Option("--items", help="Items: was enough of them shown, and by their scores?"),
    ] = None,
    item_column: Annotated[
        list[str] | None,
        typer.Option(
            "--item-column", metavar="NAME=YOURS", help="Your name of a column of the items."
        ),
    ] = None,
    chart: Annotated[
        Path | None, typer.Option("--chart", help="Write the click rates: .html, .svg, .png, .pdf.")
    ] = None,
    column: options.Column = None,
    where: options.Where = None,
    top: options.Top = None,
    rank_from: options.RankFrom = None,
    exclude: options.Exclude = None,
    robots: Annotated[
        Path | None,
        typer.Option(
            "--robots",
            metavar="FILE",
            help="Write users, sessions and queries that click like robots, for --exclude.",
        ),
    ] = None,
    ignore_sessions: options.IgnoreSessions = False,
    policy: options.PolicySaid = "auto",
    engine: options.Engine = "duckdb",
    memory: options.Memory = None,
    spill: options.Spill = None,
    hive: options.Hive = None,
    json: Json = False,
) -> None:
    """Tell whether a click log is good enough to learn from, and what is wrong with it.

    Exit code 3 says that it is not good enough.
    """
    from saferank import data, logs, policies
    from saferank._core.charts import save_chart

    check_outputs([chart, robots], [items], [None, "exclusions"])
    health = logs.check_log(
        log,
        items=None
        if items is None
        else data.read_items(items, columns=options.columns_of(item_column)),
        engine=options.engine_of(engine, memory, spill, hive),
        columns=options.columns_of(column),
        where=where or (),
        top=top,
        rank_from=rank_from,
        exclude=exclude,
        use_sessions=not ignore_sessions,
        production=policies.production_finding,
        policy=policies.PolicyFinding(policy),
    )
    if chart is not None:
        save_chart(logs.click_rate_chart(health), chart)
    if robots is not None:
        data.write_table(health.robots.table(), robots, "exclusions")
    if json:
        print_json(health.to_dict())
    else:
        _print(health)
    if health.verdict == "not good enough":
        raise typer.Exit(NOT_GOOD_ENOUGH)


def _print(health: LogHealth) -> None:
    highest = max(rate.rate for rate in health.by_rank)
    bars = [
        (rate.at, rate.impressions, rate.clicks, rate.rate, _bar(rate.rate, highest))
        for rate in health.by_rank[:20]
    ]
    print_table("Click rate by rank", ["rank", "impressions", "clicks", "rate", ""], bars)
    rows = [(f.severity, f.name, " ".join([f.meaning, f.advice]).strip()) for f in health.findings]
    print_table(f"This log is {health.verdict}", ["", "finding", "meaning, and what to do"], rows)


def _bar(value: float, highest: float, width: int = 30) -> str:
    return "█" * round(width * value / highest) if highest > 0 else ""
