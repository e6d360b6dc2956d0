"""`saferank export`: a ranker for another engine, with a parity file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from saferank.cli.judging_options import NOT_TO_SHIP
from saferank.cli.output import Json, print_json
from saferank.cli.outputs import check_outputs

TARGETS = "onnx, lightgbm, xgboost-json, ranklib, solr, linear, mlflow"


@dataclass(frozen=True)
class _Graph:
    """What is exported."""

    sample: Annotated[
        bool,
        typer.Option("--sample", help="onnx, mlflow: draw rankings, from uniforms as an input."),
    ] = False
    guard: Annotated[
        bool,
        typer.Option(
            "--guard", help="onnx, mlflow: with the guard as certified; production is an input."
        ),
    ] = False
    k: Annotated[
        int | None,
        typer.Option("-k", help="Documents to rank in the graph. [as the ranker was learned for]"),
    ] = None
    correction: Annotated[
        bool,
        typer.Option(
            "--correction",
            help="Of a ranker that adds to production's score: only what it adds.",
        ),
    ] = False


@dataclass(frozen=True)
class _Parity:
    """Rows with the scores that the engine must give."""

    rows: Annotated[int, typer.Option(help="Rows of the parity file.")] = 10_000
    seed: Annotated[int, typer.Option(help="What these rows are drawn with.")] = 0
    check: Annotated[
        Path | None,
        typer.Option(help="Check an export by its parity file instead.", show_default=False),
    ] = None


def export(
    graph: _Graph,
    parity: _Parity,
    run: Annotated[
        Path | None,
        typer.Argument(help="Folder of a learned ranker, or a LightGBM file.", show_default=False),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            help=f"The format: {TARGETS}; lightgbm to a file that ends in .json is for Vespa.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="File to write; a folder for mlflow."),
    ] = None,
    json: Json = False,
) -> None:
    """Write a ranker for another engine, and beside it rows with the scores it must give.

    Nothing is written where the engine's rule gives other scores. --check runs the rows again,
    anywhere, and ends with exit code 3 where a score is not the ranker's.

    Example: saferank export run --to onnx -o ranker.onnx; saferank export --check ranker.onnx
    """
    from saferank.errors import InputError
    from saferank.serving import export as exports

    if parity.check is not None:
        if run is not None or to is not None or output is not None:
            raise InputError("`--check` takes an export alone, without RUN, --to and -o.")
        report = exports.check_export(parity.check)
    else:
        if run is None or to is None or output is None:
            raise InputError("RUN, --to and -o must be given to export; or --check FILE.")
        if to != "mlflow":
            check_outputs([output], [run])
        report = exports.export(
            run, to, output, rows=parity.rows, seed=parity.seed, **vars(graph),
        )  # fmt: skip
    if json:
        print_json(report.to_dict())
    else:
        for sentence in report.sentences():
            typer.echo(sentence)
        if parity.check is None:
            typer.echo(f"Written to {report.path} and {report.parity}.")
    if not report.holds:
        raise typer.Exit(NOT_TO_SHIP)
