"""`saferank report`: the page of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from saferank.cli.judging_options import HideIds, Run
from saferank.cli.outputs import check_outputs


def report(
    run: Run,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The page. [RUN/report.html]")
    ] = None,
    comparison: Annotated[
        Path | None, typer.Option(help="What `compare --json` wrote, to list the candidates.")
    ] = None,
    hide_ids: HideIds = False,
) -> None:
    """Write the page of a run as it was last certified: one self-contained HTML file.

    Example: saferank report run -o page.html
    """
    from saferank._core.files import read_json
    from saferank.learning import Ranker
    from saferank.report import write_page
    from saferank.safety import Assessment, Comparison, hiding

    page = run / "report.html" if output is None else output
    check_outputs([page], [run / "ranker.json", run / "assessment.json"])
    assessment = Assessment.load(run)
    assessment = hiding.hide_ids(assessment) if hide_ids else assessment
    compared = None if comparison is None else Comparison.from_dict(read_json(comparison))
    path = write_page(page, assessment, Ranker.load(run).provenance, run.name, compared)
    typer.echo(assessment.decision.sentence)
    typer.echo(f"Written to {path}.")
