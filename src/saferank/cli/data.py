"""`saferank data`: look into collections."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from saferank.cli.log_options import Documents, ItemColumn, columns_of, item_source
from saferank.cli.output import Json, print_json, print_table
from saferank.data.inspection import Inspection
from saferank.data.items.column_facts import ColumnFacts

app = typer.Typer(help="Look into ranking collections.", no_args_is_help=True)


@app.callback()
def _data() -> None:
    """Look into ranking collections."""


@app.command("inspect")
def inspect_command(
    path: Annotated[
        Path, typer.Argument(help="A collection's folder, a LETOR file or an items table.")
    ],
    name: Annotated[
        str | None, typer.Option(help="The collection, where its folder does not tell.")
    ] = None,
    documents: Documents = None,
    column: ItemColumn = None,
    json: Json = False,
) -> None:
    """Tell what is in a collection: queries, documents, features, grades, problems.

    Of an items table it tells what is done with each column.

    Example: saferank data inspect items.parquet --column query_id=term
    """
    from saferank.data import inspect, load, read_items
    from saferank.data.items import describe_columns

    columns: tuple[ColumnFacts, ...] = ()
    if path.is_dir():
        collection = load(path, name=name)
        inspections = {part: inspect(data) for part, data in collection.parts().items()}
        title = f"{collection.name}, grades 0..{collection.highest_grade:g}"
    else:
        items = read_items(item_source(path, documents), columns=columns_of(column))
        inspections, title = {"items": inspect(items)}, path.name
        if items.feature_names is not None or items.left_out:
            columns = describe_columns(items)
    if json:
        parts = {part: facts.to_dict() for part, facts in inspections.items()}
        listed = [asdict(facts) for facts in columns]
        print_json({"path": str(path), "collection": title, "parts": parts, "columns": listed})
        return
    if columns:
        rows = [(c.column, c.kind, _share(c.missing), c.values, c.use) for c in columns]
        print_table(f"{title}: columns", ["column", "kind", "missing", "values", "use"], rows)
    for part, facts in inspections.items():
        print_table(f"{title}: {part}", ["what", "value"], _rows(facts))
        for problem in facts.problems:
            typer.echo(f"  {problem}")


def _share(missing: float | None) -> str:
    return "" if missing is None else f"{missing:.1%}"


def _rows(facts: Inspection) -> list[tuple[str, object]]:
    smallest, median, largest = facts.documents_per_query
    grades = facts.grades or {}
    rows: list[tuple[str, object]] = [
        ("queries", facts.queries),
        ("documents", facts.documents),
        ("features", facts.features),
        ("documents per query: min, median, max", f"{smallest}, {median:g}, {largest}"),
        *((f"documents of grade {grade:g}", count) for grade, count in list(grades.items())[:20]),
        ("constant features", len(facts.constant_features)),
        ("duplicate rows", facts.duplicate_rows),
        ("non-finite values", facts.non_finite_values),
    ]
    if facts.queries_without_relevant is not None:
        rows.append(
            ("queries without a relevant document", f"{facts.queries_without_relevant:.1%}")
        )
    return rows
