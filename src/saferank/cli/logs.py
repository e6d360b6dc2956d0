"""`saferank logs`: look at click logs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saferank.cli import log_options as options
from saferank.cli.option_groups import with_groups
from saferank.cli.output import Json, print_json, print_table
from saferank.cli.outputs import check_outputs

if TYPE_CHECKING:
    from saferank.data import RankingData
    from saferank.logs import LogHealth

app = typer.Typer(help="Look at click logs.", no_args_is_help=True)

NOT_GOOD_ENOUGH = 3


@app.callback()
def _root() -> None:
    """Look at click logs."""


@app.command("join")
def join(
    folder: Annotated[
        Path, typer.Argument(help="Folder of `saferank serve --log`.", show_default=False)
    ],
    window: Annotated[
        float, typer.Option(help="Seconds that clicks on what was shown are waited for.")
    ] = 1800.0,
    json: Json = False,
) -> None:
    """Join clicks onto what `saferank serve` showed, as it does itself while it runs.

    Example: saferank logs join served --window 0
    """
    from dataclasses import asdict

    from saferank.serving.endpoint.served_log import join_clicks

    joined = join_clicks(folder, window=window)
    if json:
        print_json(asdict(joined))
    else:
        typer.echo(joined.sentence())


@dataclass(frozen=True)
class _Beside:
    """What the log is held against."""

    items: Annotated[
        Path | None,
        typer.Option("--items", help="Items: was enough of them shown, and by their scores?"),
    ] = None
    documents: options.Documents = None
    item_column: Annotated[
        list[str] | None,
        typer.Option(
            "--item-column", metavar="NAME=YOURS", help="Your name of a column of the items."
        ),
    ] = None
    policy: options.PolicySaid = "auto"

    def read(self) -> RankingData | None:
        """The items, where there are any."""
        from saferank.data import read_items

        if self.items is None:
            return None
        source = options.item_source(self.items, self.documents)
        own = options.columns_of(self.item_column, "--item-column")
        with options.items_by("--item-column"):
            return read_items(source, columns=own)


@app.command("check")
@with_groups
def check(
    log: options.Log,
    beside: _Beside,
    reading: options.LogReading,
    engine: options.EngineOptions,
    chart: Annotated[
        Path | None, typer.Option("--chart", help="Write the click rates: .html, .svg, .png, .pdf.")
    ] = None,
    robots: Annotated[
        Path | None,
        typer.Option(
            "--robots",
            metavar="FILE",
            help="Write users, sessions and queries that click like robots, for --exclude.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Tell whether a click log is good enough to learn from, and what is wrong with it.

    Exit code 3 says that it is not good enough.

    Example: saferank logs check clicks.parquet --items items.parquet --chart rates.html
    """
    from saferank import data, logs, policies
    from saferank._core.charts import save_chart

    check_outputs([chart, robots], [beside.items], [None, "exclusions"])
    health = logs.check_log(
        log,
        items=beside.read(),
        engine=engine.choice(),
        columns=options.columns_of(reading.column),
        where=reading.where or (),
        top=reading.top,
        rank_from=reading.rank_from,
        exclude=reading.exclude,
        use_sessions=not reading.ignore_sessions,
        production=policies.production_finding,
        policy=policies.PolicyFinding(beside.policy),
        feedback=reading.feedback,
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


@dataclass(frozen=True)
class _Actions:
    """What the events mean."""

    click: Annotated[
        str, typer.Option("--click", metavar="ACTION", help="The action that is a click.")
    ] = "click"
    shown: Annotated[
        str,
        typer.Option(
            "--shown",
            metavar="auto|hits|events",
            help="What was shown: query_response_hit_ids, or impression events.",
        ),
    ] = "auto"
    impression: Annotated[
        str,
        typer.Option("--impression", metavar="ACTION", help="The action of an impression."),
    ] = "impression"


@app.command("ubi")
@with_groups
def ubi(
    queries: Annotated[
        Path, typer.Argument(help="The export of ubi_queries: JSON lines or Parquet.")
    ],
    events: Annotated[
        Path, typer.Argument(help="The export of ubi_events: JSON lines or Parquet.")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The log to write.", show_default=False)
    ],
    actions: _Actions,
    memory: options.Memory = None,
    json: Json = False,
) -> None:
    """Turn queries and events of User Behavior Insights (OpenSearch, Elasticsearch) into a log.

    The log has one row per shown document, with a 0/1 column for each action: click, and others
    such as add_to_cart or purchase for `count --feedback`.

    Example: saferank logs ubi ubi_queries.ndjson ubi_events.ndjson -o log.parquet
    """
    from saferank import logs

    check_outputs([output], [queries, events], ["log"])
    report = logs.read_ubi(queries, events, output, memory=memory, **vars(actions))
    if json:
        print_json({"output": str(output), **report.to_dict()})
        return
    for sentence in report.sentences():
        typer.echo(sentence)
    typer.echo(f"Written to {output}. Next: saferank logs check {output}")


def _print(health: LogHealth) -> None:
    highest = max(rate.rate for rate in health.by_rank)
    bars = [
        (rate.at, rate.impressions, rate.clicks, rate.rate, _bar(rate.rate, highest))
        for rate in health.by_rank[:20]
    ]
    say = health.report.feedback.say
    heads = ["rank", "impressions", say("clicks"), "rate", ""]
    print_table(say("Click rate by rank"), heads, bars)
    rows = [
        (f.severity, say(f.name), say(" ".join([f.meaning, f.advice]).strip()))
        for f in health.findings
    ]
    if health.report.feedback.note():
        typer.echo(health.report.feedback.note())
    print_table(f"This log is {health.verdict}", ["", "finding", "meaning, and what to do"], rows)


def _bar(value: float, highest: float, width: int = 30) -> str:
    return "█" * round(width * value / highest) if highest > 0 else ""
