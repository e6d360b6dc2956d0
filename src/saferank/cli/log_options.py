"""Options that commands on click logs share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saferank.errors import InputError

if TYPE_CHECKING:
    from saferank.data.items.two_tables import ItemStream
    from saferank.logs import EngineChoice

Log = Annotated[
    list[str],
    typer.Argument(
        help="Parquet, CSV or JSON-lines files, folders or globs, or a table of the engine.",
        show_default=False,
    ),
]
Column = Annotated[
    list[str] | None,
    typer.Option(
        "--column", metavar="NAME=YOURS", help="Your name of a column: rank=position, propensity=p."
    ),
]
ItemColumn = Annotated[
    list[str] | None,
    typer.Option(
        "--column", metavar="NAME=YOURS", help="Your name of a column of the items: doc_id=SKU."
    ),
]
Documents = Annotated[
    Path | None,
    typer.Option(
        "--documents",
        help="Features of documents alone (Parquet: doc_id, each once), joined to the items.",
        show_default=False,
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where", metavar="CONDITION", help="Rows to keep: device=mobile, day>=2026-01-31."
    ),
]
Top = Annotated[
    int | None, typer.Option("--top", metavar="K", help="Leave out ranks beyond K.", min=1)
]
IgnoreSessions = Annotated[
    bool,
    typer.Option(
        "--ignore-sessions",
        help="No search for repeated rows of a session, no count of sessions; cheaper.",
    ),
]
RankFrom = Annotated[
    int | None,
    typer.Option("--rank-from", metavar="0|1", help="The log's first rank.", min=0, max=1),
]
Exclude = Annotated[
    Path | None,
    typer.Option(
        "--exclude",
        metavar="FILE",
        help="Rows to leave out: CSV or Parquet with columns named as the log's.",
    ),
]
Feedback = Annotated[
    str,
    typer.Option(
        "--feedback",
        metavar="WHAT",
        help="What counts in place of clicks: a 0/1 column (purchase), columns with a value each "
        "(cart=1,purchase=5), or amounts with the most that counts ('revenue<=200').",
    ),
]
Engine = Annotated[
    str, typer.Option("--engine", help="duckdb, spark, or a URL that Ibis connects to.")
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory", metavar="SIZE", help="Memory limit, such as 4GB; by default 60 % of all."
    ),
]
Spill = Annotated[
    Path | None,
    typer.Option("--spill", help="Folder for what does not fit; by default beside the output."),
]


PolicySaid = Annotated[
    str,
    typer.Option(
        "--policy",
        help="What is known of production: auto (by the log), uniform (lists in random order), "
        "recorded (propensities), score (drawn by production_score), none.",
    ),
]
Hive = Annotated[
    str | None,
    typer.Option(
        "--hive",
        metavar="folders|columns",
        help="Whose values count where folders (day=...) and files have the same column.",
        show_default=False,
    ),
]


def item_source(items: Path, documents: Path | None) -> Path | ItemStream:
    """The items' table, the two that are joined, or all shards of a folder."""
    from saferank.data.items.two_tables import ItemTables
    from saferank.logs.shard_folder import ShardFolder, is_shard_folder

    if is_shard_folder(items):
        if documents is not None:
            raise InputError("`--documents` must be left out where items are shards.")
        return ShardFolder.open(items).items()
    return items if documents is None else ItemTables(items, documents)


def columns_of(pairs: list[str] | None, option: str = "--column") -> dict[str, str]:
    """`--column` options, or others of that form, as a mapping.

    >>> columns_of(["rank=position"])
    {'rank': 'position'}
    """
    mapping = {}
    for pair in pairs or []:
        name, sign, yours = pair.partition("=")
        if not (name and sign and yours):
            raise InputError(f"`{option}` must be NAME=YOURS, such as rank=position; got {pair!r}.")
        mapping[name.strip()] = yours.strip()
    return mapping


@contextmanager
def items_by(option: str) -> Iterator[None]:
    """Errors on columns of items name the option that they are given by, where another is meant."""
    try:
        yield
    except InputError as error:
        raise InputError(str(error).replace("--column", option)) from error


@dataclass(frozen=True)
class LogReading:
    """Which rows of the log are read, and how."""

    column: Column = None
    where: Where = None
    top: Top = None
    rank_from: RankFrom = None
    exclude: Exclude = None
    ignore_sessions: IgnoreSessions = False
    feedback: Feedback = "click"


@dataclass(frozen=True)
class EngineOptions:
    """Where it is counted."""

    engine: Engine = "duckdb"
    memory: Memory = None
    spill: Spill = None
    hive: Hive = None

    def choice(self) -> EngineChoice:
        """The engine with its options."""
        from saferank.logs import EngineChoice

        return EngineChoice(self.engine, self.memory, self.spill, self.hive)
