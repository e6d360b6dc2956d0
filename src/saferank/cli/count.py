"""`saferank count`: a click log to counts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from saferank.cli import log_options as options
from saferank.cli.output import Json, print_json
from saferank.cli.outputs import check_outputs


@dataclass(frozen=True)
class _Split:
    """Sessions to judge by."""

    judge: Annotated[
        float,
        typer.Option(help="Share of the sessions that are set aside to judge rankers by; 0: none."),
    ] = 0.2
    seed: Annotated[int, typer.Option(help="Which sessions are set aside.")] = 0


def count(
    log: options.Log,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The Parquet file to write.", show_default=False)
    ],
    reading: options.LogReading,
    split: _Split,
    engine: options.EngineOptions,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave bad rows out and tell of them.")
    ] = False,
    json: Json = False,
) -> None:
    """Count impressions and clicks of each query, document and rank of a click log.

    The log has one row per shown document (query_id, doc_id, rank from 1, click, and maybe
    session_id), or is already summed (impressions, clicks instead of click). Counts come in two
    parts: sessions to learn from, and sessions to judge by, which `certify` uses. A hash of the
    session_id tells them apart; without one, whole queries are set aside. With --feedback,
    purchases or values are counted in place of clicks, and all that follows is about them.

    Example: saferank count clicks/*.parquet --column rank=position -o counts.parquet
    """
    from saferank import logs

    check_outputs([output], kinds=["counts"])
    table = logs.count(
        log,
        output=output,
        engine=engine.choice(),
        columns=options.columns_of(reading.column),
        where=reading.where or (),
        top=reading.top,
        rank_from=1 if reading.rank_from is None else reading.rank_from,
        exclude=reading.exclude,
        skip_bad=skip_bad,
        use_sessions=not reading.ignore_sessions,
        judge=split.judge,
        seed=split.seed,
        feedback=reading.feedback,
    )
    assert table.report is not None
    if json:
        print_json({"output": str(output), **table.report.to_dict()})
        return
    for sentence in table.report.sentences():
        typer.echo(sentence)
    typer.echo(f"Written to {output}.")
