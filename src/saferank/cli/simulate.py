"""`saferank simulate`: clicks of simulated users on a collection."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saferank.cli.output import Json, print_json, print_table
from saferank.cli.outputs import check_outputs
from saferank.errors import InputError

if TYPE_CHECKING:
    from saferank.clicks import Users
    from saferank.counts import Counts
    from saferank.data import RankingData


def whole_number(text: str) -> int:
    """A number of sessions, also as 1e9.

    >>> whole_number("1e9"), whole_number("250_000")
    (1000000000, 250000)
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value.is_integer():  # which infinity and NaN are not
        raise InputError(f"`sessions` must be a whole number such as 1e6; got {text!r}.")
    return int(value)


@dataclass(frozen=True)
class _World:
    """What is ranked."""

    data: Annotated[
        str,
        typer.Option(
            help="A collection's folder, an items table, or synthetic[:small|mslr|yahoo|istella]."
        ),
    ] = "synthetic"
    part: Annotated[str, typer.Option(help="train, validation or test.")] = "train"


@dataclass(frozen=True)
class _Traffic:
    """Who clicks, and on what."""

    sessions: Annotated[str, typer.Option(help="How many, such as 1e6.")] = "1e6"
    users: Annotated[
        str,
        typer.Option(
            help="trust, position, adversarial, noise, cascade, dcm, or a bias.json to click by."
        ),
    ] = "trust"
    k: Annotated[int, typer.Option("-k", "--ranks", help="Ranks shown.", min=1)] = 5
    temperature: Annotated[
        float, typer.Option(help="Production's scores are divided by it: low is peaked.")
    ] = 1.0
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Always sort by production's score.")
    ] = False
    seed: Annotated[int, typer.Option(help="The same seed gives the same clicks.")] = 0
    judge: Annotated[
        float, typer.Option(help="Share of the sessions to judge by, not to learn from; 0: none.")
    ] = 0.2


def simulate(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The Parquet file to write.", show_default=False)
    ],
    world: _World,
    traffic: _Traffic,
    rows: Annotated[
        bool, typer.Option("--rows", help="A log with one row per shown document, not counts.")
    ] = False,
    items: Annotated[
        Path | None,
        typer.Option(help="Also write the items with production's scores, for `saferank learn`."),
    ] = None,
    json: Json = False,
) -> None:
    """Simulate users on a collection and write counts, or a row log.

    Production's scores are the items' `production_score`, or those of a regression on the labels of
    a few queries.

    Example: saferank simulate --rows --sessions 20000 -o clicks.parquet --items items.parquet
    """
    from saferank import clicks
    from saferank.data import write_items

    kind = "log" if rows else "counts"
    check_outputs([output, items], [world.data, traffic.users], [kind, "items"])
    number = whole_number(traffic.sessions)
    collection, highest = _data(world.data, world.part, traffic.seed)
    if collection.production is None:
        scores = clicks.stand_in_production(collection, traffic.seed)
        collection = replace(collection, production=scores)
    assert collection.production is not None
    users = _users(traffic.users, traffic.k)
    task = (collection, collection.production, users, number, traffic.seed)
    how: dict[str, Any] = {
        "temperature": traffic.temperature,
        "deterministic": traffic.deterministic,
        "highest_grade": highest,
    }
    if rows:
        written = clicks.simulate_rows(*task, output, **how)
        result: dict[str, Any] = {"sessions": number, "rows": written}
    else:
        result = _write_counts(
            clicks.simulate(*task, judge=traffic.judge, **how), collection, output
        )
    if items is not None:
        write_items(collection, items)
    if json:
        print_json({"output": str(output), **result})
    elif rows:
        typer.echo(f"{number:,} sessions in {result['rows']:,} rows are in {output}.")
    else:
        _tell(result, output)


def _write_counts(counts: Counts, collection: RankingData, output: Path) -> dict[str, Any]:
    """Write counts; what is in them."""
    from saferank.counts.counts_file import save_counts

    save_counts(counts, collection, output)
    return {
        "sessions": counts.total,
        "judge_sessions": counts.part("judge").total,
        "queries": counts.queries,
        "impressions": counts.impressions.sum(axis=0),
        "clicks": counts.clicks.sum(axis=0),
    }


def _tell(result: dict[str, Any], output: Path) -> None:
    typer.echo(
        f"{result['sessions']:,} sessions of {result['queries']:,} queries are in {output}, of "
        f"which {result['judge_sessions']:,} are to judge by."
    )
    pairs = zip(result["impressions"], result["clicks"], strict=True)
    table = [
        (rank, int(shown), int(clicked), float(clicked / max(shown, 1)))
        for rank, (shown, clicked) in enumerate(pairs, start=1)
    ]
    print_table("What was shown and clicked", ["rank", "impressions", "clicks", "rate"], table)


def _data(name: str, part: str, seed: int) -> tuple[RankingData, float | None]:
    """The data and its highest grade (None: of an items table nobody has said)."""
    from saferank.data import load, read_items, synthetic

    word, _, preset = name.partition(":")
    if word == "synthetic":
        collection = synthetic(preset or "small", seed=seed)  # type: ignore[arg-type]
    elif Path(name).is_dir():
        collection = load(name)
    else:
        return read_items(name), None
    if part not in collection.parts():
        raise InputError(f"`part` must be one of {list(collection.parts())}; got {part!r}.")
    return collection.parts()[part], collection.highest_grade


def _users(name: str, k: int) -> Users:
    from saferank.clicks import USERS, ClickModel

    if name in USERS:
        return USERS[name](k)
    if name.endswith(".json"):
        return ClickModel.load(name).at(k)
    raise InputError(f"`users` must be one of {', '.join(USERS)} or a .json file; got {name!r}.")
