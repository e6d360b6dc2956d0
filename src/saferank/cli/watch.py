"""`saferank watch`: after shipping."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saferank.cli import log_options as options
from saferank.cli.output import Json, print_json, print_table
from saferank.cli.outputs import check_outputs

if TYPE_CHECKING:
    from saferank.logs.counting import EngineChoice
    from saferank.serving.watching import Drift, Watch

ROLL_BACK, CONTINUE = 3, 4


@dataclass(frozen=True)
class _Limits:
    """What may be lost, and how sure it must be."""

    guardrail: Annotated[
        list[str] | None,
        typer.Option("--guardrail", metavar="COLUMN", help="A numeric column to watch, too."),
    ] = None
    tolerance: Annotated[
        float, typer.Option(help="Share of production's clicks that may be lost.")
    ] = 0.01
    guardrail_tolerance: Annotated[
        float, typer.Option(help="The same of each guardrail's value.")
    ] = 0.02
    confidence: Annotated[float, typer.Option(help="That all intervals hold at every look.")] = 0.95
    planned: Annotated[
        float | None,
        typer.Option(
            help="Sessions at which intervals are narrowest. [ten times the first day's]",
            show_default=False,
        ),
    ] = None
    least: Annotated[int, typer.Option(help="Sessions below which nothing is decided.")] = 1000


@dataclass(frozen=True)
class _Certified:
    """What was certified, to tell whether it still is what is served."""

    items: Annotated[
        Path | None,
        typer.Option(
            help="The items: are there new queries and documents, or other production scores?",
            show_default=False,
        ),
    ] = None
    item_column: Annotated[
        list[str] | None,
        typer.Option(
            "--item-column", metavar="NAME=YOURS", help="Your name of a column of the items."
        ),
    ] = None
    run: Annotated[
        Path | None,
        typer.Option(
            help="With --items, the run: does its click model still fit?", show_default=False
        ),
    ] = None

    def drift(self, log: list[str], column: list[str] | None, engine: EngineChoice) -> Drift | None:
        """How far the log is from it; None where no items are given."""
        from saferank.clicks import ClickModel
        from saferank.data import read_items
        from saferank.errors import InputError
        from saferank.learning import Ranker
        from saferank.serving.watching import find_drift

        if self.items is None:
            if self.run is not None:
                raise InputError("`--run` is held against the log by its items: give --items, too.")
            return None
        ranker = None if self.run is None else Ranker.load(self.run)
        own = options.columns_of(self.item_column, "--item-column")
        read = read_items if ranker is None else ranker.read_items
        with options.items_by("--item-column"):
            items = read(self.items, columns=own)
        model = None if ranker is None else ranker.provenance.click_model
        return find_drift(
            log, items, columns=options.columns_of(column),
            click_model=None if model is None else ClickModel.from_dict(model), engine=engine,
        )  # fmt: skip


def watch(
    log: options.Log,
    limits: _Limits,
    certified: _Certified,
    engine: options.EngineOptions,
    column: options.Column = None,
    chart: Annotated[
        Path | None,
        typer.Option(help="Write a page (.html), or the chart alone (.svg, .png, .pdf)."),
    ] = None,
    json: Json = False,
) -> None:
    """Judge guarded traffic, valid however often one looks: continue, ship wider or roll back.

    The log has one row per shown document with session_id, query_id, click, arm (new or production)
    and share (the chance of the new ranker). Exit code 0 says ship wider, 3 roll back, 4 continue.

    With --items also whether the traffic is still what was certified.

    Example: saferank watch served/log/*.parquet --items items.parquet --chart watch.html
    """
    from saferank._core.charts import save_chart
    from saferank.serving import watching

    check_outputs([chart], log)
    experiment = watching.read_experiment(
        log,
        columns=options.columns_of(column),
        values=limits.guardrail or (),
        engine=engine.choice(),
    )
    judged = watching.watch(
        experiment, tolerance=limits.tolerance, guardrail_tolerance=limits.guardrail_tolerance,
        confidence=limits.confidence, planned=limits.planned, least=limits.least,
    )  # fmt: skip
    drift = certified.drift(log, column, engine.choice())
    sentences = [] if drift is None else drift.sentences()
    if chart is not None and chart.suffix == ".html":
        watching.write_watch_page(chart, judged, sentences)
    elif chart is not None:
        save_chart(watching.watch_chart(judged), chart)
    if json:
        drifted = {} if drift is None else {"drift": drift.to_dict()}
        print_json(judged.to_dict() | drifted)
    else:
        _tell(judged, len(experiment.days))
        for sentence in sentences:
            typer.echo(sentence)
    if judged.verdict != "ship wider":
        raise typer.Exit(ROLL_BACK if judged.verdict == "roll back" else CONTINUE)


def _tell(judged: Watch, days: int) -> None:
    typer.echo(judged.sentence())
    rows = [
        (each["name"], each["production"], each["estimate"], each["lower"], each["upper"])
        for each in judged.to_dict()["metrics"]
    ]
    print_table(
        f"By {judged.sessions:,} sessions on {days} {'day' if days == 1 else 'days'}",
        ["per session", "production", "difference", "lower", "upper"],
        rows,
    )
    for note in judged.notes():
        typer.echo(note)
    typer.echo(f"Next: {judged.next_step()}")
