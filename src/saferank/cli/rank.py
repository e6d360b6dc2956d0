"""`saferank rank`: rankings from a saved ranker, guarded if asked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from saferank.cli.certify import Items, Production, Run, Slack, Sorted
from saferank.cli.output import print_json


def rank(
    run: Run,
    items: Items,
    k: Annotated[int, typer.Option("-k", help="Documents a query.")] = 5,
    guard: Annotated[
        float | None, typer.Option(help="Keep this share of production's utility on every query.")
    ] = None,
    slack: Slack = None,
    production: Production = None,
    session: Annotated[
        str, typer.Option(help="Session id: the same one always gets the same rankings.")
    ] = "0",
    sorted_: Sorted = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Parquet file to write; else JSON.")
    ] = None,
) -> None:
    """Rank the documents of items with a saved ranker; columns query_id, doc_id, rank.

    Rankings are drawn from the scores (the policy that was certified), or sorted with --sorted.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from saferank.data import read_items
    from saferank.evaluation import Deployed
    from saferank.files import whole_file
    from saferank.rankers import Ranker
    from saferank.safety import Guard
    from saferank.safety.guard import draw

    ranker, data = Ranker.load(run), read_items(items)
    deployed: Deployed = "sorted" if sorted_ else "sampled"
    if guard is None:
        ranked = draw(ranker.scores(data), data, k, session, deployed)
    else:
        shown = data.production if production is None else Ranker.load(production)
        limit = 0.01 if slack is None else slack
        guarded = Guard(ranker, shown, keep=guard, slack=limit, deployed=deployed)
        ranked = guarded.rank(data, k, session)
        typer.echo(guarded.report(data).sentence(), err=True)
    query, place = np.nonzero(ranked >= 0)
    query_ids, doc_ids = data.ids()
    table = pa.table(
        {
            "query_id": query_ids[query],
            "doc_id": doc_ids[ranked[query, place]],
            "rank": (place + 1).astype(np.int32),
        }
    )
    if output is None:
        print_json(table.to_pylist())
        return
    with whole_file(output) as temporary:
        pq.write_table(table, temporary, compression="zstd")
    typer.echo(f"Written to {output}.", err=True)
