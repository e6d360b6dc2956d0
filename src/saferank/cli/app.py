"""`saferank`: its commands, each in a module of its own, and how errors reach the user."""

from __future__ import annotations

import os
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
    explore,
    export,
    learn,
    logs,
    rank,
    report,
    reproduce,
    serve,
    shard,
    simulate,
    watch,
)
from saferank.cli.option_groups import with_groups

app = typer.Typer(
    help="Learn a ranker from a click log, and tell whether it is safe to ship.",
    pretty_exceptions_enable=False,
)
for _command in (
    demo.demo,
    simulate.simulate,
    count.count,
    shard.shard,
    bias.bias,
    learn.learn,
    certify.certify,
    compare.compare,
    rank.rank,
    explore.explore,
    export.export,
    report.report,
    serve.serve,
    watch.watch,
    reproduce.reproduce,
):
    app.command(_command.__name__)(with_groups(_command))
app.add_typer(data.app, name="data")
app.add_typer(logs.app, name="logs")


START_HERE = """Learn a ranker from a click log, and tell whether it is safe to ship.

  saferank demo                                   the whole pipeline on an embedded collection
  saferank logs check LOG --items ITEMS           is my log good enough?
  saferank simulate --rows -o clicks.parquet --items items.parquet
                                                  a log to try the commands on
  saferank COMMAND --help                         options, and an example
  saferank --help                                 all commands"""


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"saferank {saferank.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Learn a ranker from a click log, and tell whether it is safe to ship."""
    del version
    speak_in_lines()
    if context.invoked_subcommand is None:
        typer.echo(START_HERE)


def main() -> None:
    """Run the command line; bad input ends with one sentence and exit code 2."""
    # read when OpenMP is loaded, which is later: its threads (LightGBM's) sleep while they wait
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    sys.exit(ending.run(app))
