"""`saferank shard`: items and counts to a folder of shards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from saferank.cli import log_options as options
from saferank.cli.output import Json, print_json


def shard(
    items: Annotated[
        str,
        typer.Option(
            help="Items: a Parquet file, folder or glob, or a table of the engine.",
            show_default=False,
        ),
    ],
    counts: Annotated[
        Path,
        typer.Option(help="Counts, as `saferank count` writes them.", show_default=False),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The folder to write.", show_default=False)
    ],
    engine: options.EngineOptions,
    shards: Annotated[int, typer.Option(help="How many; at least as many as workers.")] = 8,
    column: options.ItemColumn = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Let counts have documents without an item.")
    ] = False,
    json: Json = False,
) -> None:
    """Cut items and their counts into shards of whole queries, for several machines.

    By one pass over each, on DuckDB within its memory or on Spark; a hash of the query_id says
    which shard a query belongs to. `learn --items SHARDS` takes the folder, and with torchrun each
    worker reads its own shards only. Each shard is an ordinary table of items with a file of
    counts, which `certify` and `rank` take.

    Example: saferank shard --items items.parquet --counts counts.parquet --shards 8 -o shards
    """
    from saferank import logs

    report = logs.shard(
        items,
        counts,
        output,
        shards=shards,
        engine=engine.choice(),
        columns=options.columns_of(column),
        skip_bad=skip_bad,
    )
    if json:
        print_json({"output": str(output), **report.to_dict()})
        return
    for sentence in report.sentences():
        typer.echo(sentence)
    typer.echo(f"Written to {output}.")
