"""`saferank reproduce`: the paper's figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import typer

from saferank.cli.output import Json, print_json, print_table
from saferank.cli.outputs import check_outputs
from saferank.errors import InputError, require

if TYPE_CHECKING:
    from saferank.experiments.reproducing import Columns, Reproduction


@dataclass(frozen=True)
class _Study:
    """What is run."""

    data: Annotated[
        list[str] | None,
        typer.Option(
            help="A collection's folder, or synthetic:PRESET[:QUERIES]; given several times, "
            "figures have a column for each."
        ),
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
    from saferank.experiments import FIGURES, PRESETS, reproduce_columns
    from saferank.experiments import reproduce as run
    from saferank.experiments.study_page import file_names

    named = asked.preset in PRESETS
    require(named, "preset", f"one of {', '.join(PRESETS)}", asked.preset)
    numbers = None if asked.sessions is None else tuple(map(_whole, asked.sessions.split(",")))
    study = PRESETS[asked.preset].replace(sessions=numbers, seeds=asked.seeds)
    studies = [study.replace(data=data) for data in asked.data or [study.data]]
    figures = FIGURES if figure == "all" else tuple(map(_whole, figure.split(",")))
    check_outputs(output / name for name in file_names(figures))
    how: _How = {"figures": figures, "workers": workers, "cluster": cluster}
    if len(studies) > 1:
        _tell_columns(reproduce_columns(studies, output, **how), json)
        return
    made = run(studies[0], output, **how)
    if json:
        print_json(_facts(made))
        return
    _tell_claims("claims", made)
    typer.echo(f"{made.outcome}. The page is {made.written.page}.")


class _How(TypedDict):
    """Which figures, and where their jobs run."""

    figures: tuple[int, ...]
    workers: int | None
    cluster: str | None


def _facts(made: Reproduction) -> dict[str, Any]:
    return {
        "page": str(made.written.page),
        "figures": [str(path) for path in made.written.figures],
        "jobs": made.outcome.jobs,
        "already": made.outcome.already,
        "failed": made.outcome.failed,
        "claims": made.written.tally(),
    }


def _tell_claims(title: str, made: Reproduction) -> None:
    claims = [(c.figure, c.sentence, f.verdict) for c, f in made.written.claims]
    print_table(title, ["figure", "claim", "result"], claims)


def _tell_columns(made: Columns, json: bool) -> None:
    if json:
        print_json(
            {
                "page": str(made.page),
                "figures": [str(path) for path in made.figures],
                "collections": {name: _facts(one) for name, one in made.studies.items()},
            }
        )
        return
    for name, one in made.studies.items():
        _tell_claims(f"claims on {name}", one)
        typer.echo(f"{name}: {one.outcome}.")
    typer.echo(f"The page of all is {made.page}.")


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
    data = asked.data or ["synthetic:small:60"]
    require(len(data) == 1, "data", "one collection for figure 8", ", ".join(data))
    plan = RoundsPlan(
        data[0],
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
