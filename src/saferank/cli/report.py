"""`saferank report`: the page of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from saferank.cli.certify import CountsFile, Keep, Production, Run, Slack, Sorted, assessed
from saferank.cli.outputs import check_outputs


def report(
    run: Run,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The page. [RUN/report.html]")
    ] = None,
    items: Annotated[
        Path | None, typer.Option(help="Certify on these items first; else as last certified.")
    ] = None,
    counts: CountsFile = None,
    production: Production = None,
    keep: Keep = None,
    slack: Slack = None,
    sorted_: Sorted = False,
    guard: Annotated[bool, typer.Option("--guard", help="Judge it with the guard.")] = False,
) -> None:
    """Write the page of a run: one self-contained HTML file for the person who decides."""
    from saferank.rankers import Ranker
    from saferank.report import write_page
    from saferank.safety import Assessment

    page = run / "report.html" if output is None else output
    check_outputs([page], [items, counts, production, run / "ranker.json", run / "assessment.json"])
    if items is None:
        found = Assessment.load(run)
    else:
        deployed = "sorted" if sorted_ else "sampled"
        found = assessed(
            run, items, counts, production, keep=keep, slack=slack, guard=guard, deployed=deployed
        )
        found.save(run)
    path = write_page(page, found, Ranker.load(run).card, run.name)
    typer.echo(found.decision.sentence)
    typer.echo(f"Written to {path}.")
