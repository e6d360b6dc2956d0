"""`saferank demo`: the whole pipeline on an embedded collection."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saferank.cli.output import Json, print_json, print_table
from saferank.cli.outputs import check_outputs

if TYPE_CHECKING:
    from saferank.walkthrough import Demo


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write to.")] = Path(
        "saferank-demo"
    ),
    queries: Annotated[int, typer.Option(help="Training queries.")] = 400,
    sessions: Annotated[int, typer.Option(help="Simulated sessions.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Everything random comes from it.")] = 0,
    json: Json = False,
) -> None:
    """Show the whole pipeline: a production ranker, its clicks, what is learned from them.

    Example: saferank demo -o saferank-demo
    """
    from saferank._core.files import check_folder
    from saferank.learning.ranker import FILES
    from saferank.walkthrough import CHARTS, RANKER, run_demo

    check_outputs(output / name for name in CHARTS)
    check_folder(output / RANKER, FILES)
    made = run_demo(output, queries=queries, sessions=sessions, seed=seed)
    lines = [asdict(line) for line in made.lines]
    if json:
        outcome = {"verdict": made.verdict, "page": str(made.page)}
        print_json({"sessions": sessions, "rankers": lines, "folder": str(output), **outcome})
        return
    _tell(made, sessions)
    typer.echo(f"Charts: {' and '.join(str(output / name) for name in CHARTS)}.")
    typer.echo(f"The PRPO ranker: {made.verdict}")
    typer.echo(f"Open the page: {made.page}")
    typer.echo("Next, with a log of your own: saferank logs check LOG --items ITEMS")


def _tell(made: Demo, sessions: int) -> None:
    """What was simulated and learned, as tables."""
    from saferank.data import inspect

    facts = inspect(made.collection.train)
    typer.echo(
        f"{made.collection.name}: {facts.queries:,} training queries with {facts.documents:,} "
        f"documents of {facts.features} features."
    )
    typer.echo(
        f"Production was trained on 3 % of the labels; {sessions:,} sessions were simulated on it."
    )
    print_table(
        "NDCG@5 on test queries (linear gains, queries without a relevant document left out)",
        ("ranker", "expected", "sorted", "share of production's utility"),
        [(line.ranker, line.expected, line.sorted, line.kept) for line in made.lines],
    )
    print_table(
        "Change of clicks on the logged queries: by sessions that taught nothing, and in truth",
        ("ranker", "estimate", "95 % interval", "at least", "truth"),
        [
            (
                line.ranker,
                f"{line.estimated:+.1%}",
                f"{line.lower:+.1%} to {line.upper:+.1%}",
                f"{line.at_least:+.1%}",
                f"{line.truth:+.1%}",
            )
            for line in made.lines
            if line.estimated is not None
        ],
    )
