"""`saferank rank`: rankings from a saved ranker, guarded if asked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from saferank.cli.certify import GuardMode, Items, Keep, Run, Slack
from saferank.cli.log_options import ItemColumn, columns_of
from saferank.cli.output import print_json
from saferank.cli.outputs import check_outputs


def rank(
    run: Run,
    items: Items,
    column: ItemColumn = None,
    k: Annotated[
        int | None, typer.Option("-k", help="Documents per query. [as the ranker was learned for]")
    ] = None,
    guard: Annotated[
        bool,
        typer.Option("--guard", help="With the guard, as `saferank certify --guard` certified it."),
    ] = False,
    guard_mode: GuardMode = None,
    keep: Keep = None,
    slack: Slack = None,
    production: Annotated[
        Path | None,
        typer.Option(
            help="Production: its saved ranker or LightGBM file, or its lists (.parquet or .csv of "
            "query_id, doc_id, rank); else production_score.",
            show_default=False,
        ),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option(
            help="Session id: the same one always gets the same rankings. [one draw for all]",
            show_default=False,
        ),
    ] = None,
    sessions: Annotated[
        Path | None,
        typer.Option(
            help="Table of `query_id, session_id`: a ranking for each of its rows.",
            show_default=False,
        ),
    ] = None,
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
    """Rank the documents of items with a saved ranker; columns query_id, doc_id, rank, score.

    Promise, rank weights and how rankings are made are those that were certified. With --guard a
    column `propensity` has the probability of each document at its rank: log it, and `saferank
    count --column propensity=propensity` takes it.

    Example: saferank rank run --items items.parquet --guard --session 4711 -o rankings.parquet
    """
    from saferank.data.table_files import read_table, write_table
    from saferank.learning import Ranker
    from saferank.serving.production_lists import scores_of_lists
    from saferank.serving.rankings import Serving, rankings, read_sessions

    check_outputs([output], [items, production, sessions], ["rankings"])
    deployed: Any = None if sorted_ is None else "sorted" if sorted_ else "sampled"
    serving = Serving.of_run(
        run, guard=guard, keep=keep, slack=slack, deployed=deployed, mode=guard_mode
    )
    data = serving.ranker.read_items(items, columns=columns_of(column))
    listed = production is not None and production.suffix in (".parquet", ".csv")
    shown: Any = data.production
    if production is not None:
        lists = read_table(production) if listed else None
        shown = Ranker.load(production) if lists is None else scores_of_lists(lists, data)
    table, notes = rankings(
        serving, data, shown, k=k, session=session, lists_given=listed,
        sessions=None if sessions is None else read_sessions(sessions, columns_of(column)),
    )  # fmt: skip
    for sentence in (*serving.ranker.differences(data), *notes):
        typer.echo(sentence, err=True)
    if output is None:
        print_json(table.to_pylist())
        return
    write_table(table, output, "rankings")
    typer.echo(f"Written to {output}.", err=True)
