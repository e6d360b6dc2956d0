"""`saferank rank`: rankings from a saved ranker, guarded if asked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saferank.cli.judging_options import GuardMode, Items, Keep, Run, Slack
from saferank.cli.log_options import Documents, ItemColumn, columns_of, item_source
from saferank.cli.memory_options import MemoryOptions
from saferank.cli.output import print_json
from saferank.cli.outputs import check_outputs

if TYPE_CHECKING:
    import pyarrow as pa

    from saferank._core.flat import Array
    from saferank.data import RankingData
    from saferank.evaluation.scored_policies import Deployed
    from saferank.learning import Ranker
    from saferank.serving.rankings import Serving


@dataclass(frozen=True)
class _Tables:
    """What is ranked."""

    items: Items
    documents: Documents = None
    column: ItemColumn = None
    group: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The column that names groups, where their floors were certified.",
            show_default=False,
        ),
    ] = None
    production: Annotated[
        Path | None,
        typer.Option(
            help="Production: its saved ranker or LightGBM file, or its lists (.parquet or .csv of "
            "query_id, doc_id, rank); else production_score.",
            show_default=False,
        ),
    ] = None

    @property
    def listed(self) -> bool:
        """Whether production is told by its lists."""
        return self.production is not None and self.production.suffix in (".parquet", ".csv")

    def shown(self, data: RankingData) -> Ranker | Array | None:
        """Production's ranker, scores that make its lists, or the items' production_score."""
        from saferank.learning import Ranker
        from saferank.serving.production_lists import scores_of_lists
        from saferank.serving.rankings import read_named

        if self.production is None:
            return data.production
        if self.listed:
            return scores_of_lists(read_named(self.production, columns_of(self.column)), data)
        return Ranker.load(self.production)


@dataclass(frozen=True)
class _Certified:
    """As it was certified."""

    guard: Annotated[
        bool,
        typer.Option("--guard", help="With the guard, as `saferank certify --guard` certified it."),
    ] = False
    guard_mode: GuardMode = None
    keep: Keep = None
    slack: Slack = None
    sorted_: Annotated[
        bool | None,
        typer.Option(
            "--sorted/--sampled",
            help="Sort by score, or draw from the scores. [as last certified; else sampled]",
            show_default=False,
        ),
    ] = None

    def refuse_for_plans(self) -> None:
        """None of these can be asked of a plan of `saferank explore`."""
        from saferank.errors import InputError

        asked = {
            "guard": self.guard or None, "guard-mode": self.guard_mode, "keep": self.keep,
            "slack": self.slack, "sorted": self.sorted_,
        }  # fmt: skip
        given = next((name for name, value in asked.items() if value is not None), None)
        if given is not None:
            raise InputError(
                f"`--{given}` must be left out: a plan of `saferank explore` has its own."
            )

    def serving(self, run: Path) -> Serving:
        """The run's ranker as it was certified to be served."""
        from saferank.serving.rankings import Serving

        how: dict[bool | None, Deployed | None] = {None: None, True: "sorted", False: "sampled"}
        return Serving.of_run(
            run, guard=self.guard, keep=self.keep, slack=self.slack, mode=self.guard_mode,
            deployed=how[self.sorted_],
        )  # fmt: skip


@dataclass(frozen=True)
class _Sessions:
    """For whom."""

    session: Annotated[
        str | None,
        typer.Option(
            help="Session id: the same one always gets the same rankings. [one draw for all]",
            show_default=False,
        ),
    ] = None
    sessions: Annotated[
        Path | None,
        typer.Option(
            help="Table of `query_id, session_id`: a ranking for each of its rows.",
            show_default=False,
        ),
    ] = None
    session_column: Annotated[
        list[str] | None,
        typer.Option(
            "--session-column",
            metavar="NAME=YOURS",
            help="Your name of a column of --sessions: session_id=visit.",
        ),
    ] = None

    def read(self, items: dict[str, str]) -> pa.Table | None:
        """The table of sessions, where one is given; `items` are your names of the items'."""
        from saferank.serving.rankings import read_sessions

        own = columns_of(self.session_column, "--session-column")
        return None if self.sessions is None else read_sessions(self.sessions, items | own)


def rank(
    run: Run,
    tables: _Tables,
    certified: _Certified,
    asked: _Sessions,
    memory: MemoryOptions,
    k: Annotated[
        int | None, typer.Option("-k", help="Documents per query. [as the ranker was learned for]")
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
    column `propensity` has the probability of each document at its rank, unless production is
    known by its lists only: log it, and `saferank count --column propensity=propensity` takes it.
    Where two rankers are mixed, `arm` and `share` say which one served and with which chance: log
    them for `saferank watch`. RUN may also be a plan of `saferank explore`:
    production's lists with the plan's randomisation, and their propensities.

    Example: saferank rank run --items items.parquet --guard --session 4711 -o rankings.parquet
    """
    from saferank.safety.exploring.plan import is_plan

    check_outputs([output], [tables.items, tables.production, asked.sessions], ["rankings"])
    if is_plan(run):
        certified.refuse_for_plans()
    with memory.limit((output or run).resolve().parent):
        if is_plan(run):
            table, notes = _explored(run, tables, asked, k)
        else:
            table, notes = _ranked(certified.serving(run), tables, asked, k)
    _write(table, notes, output)


def _ranked(
    serving: Serving, tables: _Tables, asked: _Sessions, k: int | None
) -> tuple[pa.Table, list[str]]:
    """Rankings of a ranker."""
    from saferank.data.items import read_groups
    from saferank.serving.rankings import rankings

    columns, source = columns_of(tables.column), item_source(tables.items, tables.documents)
    data = serving.ranker.read_items(source, columns=columns, group=tables.group)
    if tables.group is not None:
        data = replace(data, groups=read_groups(source, tables.group, data, columns=columns))
    sessions = asked.read(columns)
    table, notes = rankings(
        serving, data, tables.shown(data), k=k, session=asked.session, sessions=sessions,
        lists_given=tables.listed,
    )  # fmt: skip
    return table, [*serving.ranker.differences(data), *notes]


def _write(table: pa.Table, notes: list[str], output: Path | None) -> None:
    """Rankings to a file or as JSON, and what a user should know of them."""
    from saferank.data.table_files import write_table

    for sentence in notes:
        typer.echo(sentence, err=True)
    if output is None:
        print_json(table.to_pylist())
        return
    write_table(table, output, "rankings")
    typer.echo(f"Written to {output}.", err=True)


def _explored(
    folder: Path, tables: _Tables, asked: _Sessions, k: int | None
) -> tuple[pa.Table, list[str]]:
    """Rankings of an exploration plan."""
    from saferank.cli.explore import read_production
    from saferank.safety.exploring import ExplorationPlan
    from saferank.serving.explored import explored_rankings

    plan = ExplorationPlan.load(folder)
    columns = columns_of(tables.column)
    source = item_source(tables.items, tables.documents)
    data, production_from = read_production(source, tables.production, columns)
    sessions = asked.read(columns)
    return explored_rankings(
        plan, data, production_from, k=k, session=asked.session, sessions=sessions
    )
