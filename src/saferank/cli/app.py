"""`saferank`: its commands, each in a module of its own, and how errors reach the user."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import saferank
from saferank._core.progress import speak_in_lines
from saferank.cli import (
    bias,
    certify,
    compare,
    count,
    data,
    demo,
    ending,
    export,
    learn,
    logs,
    rank,
    report,
    reproduce,
    simulate,
    watch,
)

app = typer.Typer(
    help="Learn a ranker from a click log, and tell whether it is safe to ship.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.demo)
app.command("simulate")(simulate.simulate)
app.command("count")(count.count)
app.command("bias")(bias.bias)
app.command("learn")(learn.learn)
app.command("certify")(certify.certify)
app.command("compare")(compare.compare)
app.command("rank")(rank.rank)
app.command("export")(export.export)
app.command("report")(report.report)
app.command("watch")(watch.watch)
app.command("reproduce")(reproduce.reproduce)
app.add_typer(data.app, name="data")
app.add_typer(logs.app, name="logs")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"saferank {saferank.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Learn a ranker from a click log, and tell whether it is safe to ship."""
    del version
    speak_in_lines()


def main() -> None:
    """Run the command line; bad input ends with one sentence and exit code 2."""
    sys.exit(ending.run(app))
