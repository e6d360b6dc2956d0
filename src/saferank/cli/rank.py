"""`saferank rank`: rankings from a saved ranker, guarded if asked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from saferank.cli.certify import Items, Production, Run, Slack
from saferank.cli.output import print_json
from saferank.cli.outputs import check_outputs


def rank(
    run: Run,
    items: Items,
    k: Annotated[
        int | None, typer.Option("-k", help="Documents per query. [as the ranker was learned for]")
    ] = None,
    guard: Annotated[
        float | None, typer.Option(help="Keep this share of production's utility on every query.")
    ] = None,
    slack: Slack = None,
    production: Production = None,
    session: Annotated[
        str, typer.Option(help="Session id: the same one always gets the same rankings.")
    ] = "0",
    sorted_: Annotated[
        bool | None,
        typer.Option(
            "--sorted/--sampled",
            help="Sort by score, or draw from the scores. [as last certified; else sampled]",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="File to write: .parquet, .csv, .json or .jsonl; else JSON here."
        ),
    ] = None,
) -> None:
    """Rank the documents of items with a saved ranker; columns query_id, doc_id, rank, score."""
    from saferank.data import read_items, write_table
    from saferank.rankers import Ranker, ranking_table
    from saferank.safety import Guard, certified_deployment
    from saferank.safety.guard import draw

    check_outputs([output], [items, production])
    ranker, data = Ranker.load(run), read_items(items)
    length = ranker.k if k is None else k
    deployed = certified_deployment(run)
    if sorted_ is not None:
        deployed = "sorted" if sorted_ else "sampled"
    if guard is None:
        scores = ranker.scores(data)
    else:
        shown = data.production if production is None else Ranker.load(production)
        limit = 0.01 if slack is None else slack
        guarded = Guard(ranker, shown, keep=guard, slack=limit, deployed=deployed)
        scores = guarded.scores(data, session)
        typer.echo(guarded.report(data).sentence(), err=True)
    table = ranking_table(data, draw(scores, data, length, session, deployed), scores)
    if output is None:
        print_json(table.to_pylist())
        return
    write_table(table, output)
    typer.echo(f"Written to {output}.", err=True)
