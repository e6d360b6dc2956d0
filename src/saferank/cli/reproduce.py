"""`saferank reproduce`: the paper's figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from saferank.cli.output import Json, print_json, print_table
from saferank.cli.outputs import check_outputs
from saferank.errors import InputError, require


@dataclass(frozen=True)
class _Study:
    """What is run."""

    data: Annotated[
        str | None,
        typer.Option(help="A collection's folder, or synthetic:PRESET[:QUERIES]."),
    ] = None
    preset: Annotated[str, typer.Option(help="quick (minutes) or paper (days).")] = "quick"
    sessions: Annotated[
        str | None, typer.Option(help="Other numbers of sessions: 100,1e4,1e6.")
    ] = None
    seeds: Annotated[int | None, typer.Option(help="Another number of runs.")] = None


def reproduce(
    figure: Annotated[
        str, typer.Argument(help="1 to 7, several as 2,4, all of these, or 8 (rounds).")
    ],
    asked: _Study,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for figures, page and results.")
    ] = Path("runs/study"),
    workers: Annotated[
        int | None, typer.Option(help="Processes. [default: one per core]", show_default=False)
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="A Dask scheduler to run the jobs on.")
    ] = None,
    json: Json = False,
) -> None:
    """Run the paper's study and draw its figures; stopped and started again, it goes on.

    Example: saferank reproduce all --preset quick
    """
    if figure == "8":
        _rounds(asked, output, json)
        return
    from saferank.experiments import FIGURES, PRESETS
    from saferank.experiments import reproduce as run
    from saferank.experiments.study_page import file_names

    named = asked.preset in PRESETS
    require(named, "preset", f"one of {', '.join(PRESETS)}", asked.preset)
    numbers = None if asked.sessions is None else tuple(map(_whole, asked.sessions.split(",")))
    study = PRESETS[asked.preset].replace(data=asked.data, sessions=numbers, seeds=asked.seeds)
    figures = FIGURES if figure == "all" else tuple(map(_whole, figure.split(",")))
    check_outputs(output / name for name in file_names(figures))
    made = run(study, output, figures=figures, workers=workers, cluster=cluster)
    claims = [(c.figure, c.sentence, f.verdict) for c, f in made.written.claims]
    if json:
        print_json(
            {
                "page": str(made.written.page),
                "figures": [str(path) for path in made.written.figures],
                "jobs": made.outcome.jobs,
                "already": made.outcome.already,
                "failed": made.outcome.failed,
                "claims": made.written.tally(),
            }
        )
        return
    print_table("claims", ["figure", "claim", "result"], claims)
    typer.echo(f"{made.outcome}. The page is {made.written.page}.")


def _whole(text: str) -> int:
    try:
        return int(float(text))
    except (ValueError, OverflowError) as error:
        raise InputError(f"Numbers must be whole, such as 100 or 1e4; got {text!r}.") from error


def _rounds(asked: _Study, output: Path, json: bool) -> None:
    """Figure 8: rounds of log, learn, certify, serve and log again."""
    from dataclasses import asdict

    from saferank.experiments.rounds_figure import RoundsPlan, reproduce_rounds

    check_outputs([output / "figure-8.svg"])
    plan = RoundsPlan(
        asked.data or "synthetic:small:60",
        seeds=asked.seeds or 3,
        sessions=5000 if asked.sessions is None else _whole(asked.sessions),
    )
    rows, path = reproduce_rounds(plan, output)
    if json:
        print_json({"figure": str(path), "rows": [asdict(row) for row in rows]})
        return
    print_table(
        f"{plan.rounds} rounds of {plan.sessions:,} sessions, {plan.seeds} seeds; utility of the "
        "first production is 1",
        (
            "users", "method", "last round", "worst round", "regret", "skyline's level at",
            "average below", "query below",
        ),
        [
            (
                row.users, row.method, f"{row.last:.3f}", f"{row.worst:.3f}", f"{row.regret:.2f}",
                "never" if row.level_at is None else f"{row.level_at:g} ({row.level} seeds)",
                f"{row.below} of {row.rounds}", f"{row.broken} of {row.rounds}",
            )
            for row in rows
        ],
    )  # fmt: skip
    typer.echo(f"The figure is {path}.")
