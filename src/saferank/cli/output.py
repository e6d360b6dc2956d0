"""How results are printed: a table for people, JSON for scripts."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def print_json(record: Any) -> None:
    """One JSON document on standard output; NaN becomes null."""
    typer.echo(json.dumps(_plain(record), indent=2, ensure_ascii=False, allow_nan=False))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table; numbers to the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left")
    body = [list(row) for row in rows]
    for index, column in enumerate(columns):
        numeric = bool(body) and all(isinstance(row[index], int | float) for row in body)
        table.add_column(column, justify="right" if numeric else "left")
    for row in body:
        table.add_row(*[Text(_cell(value)) for value in row])
    Console().print(table)


def _cell(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _plain(record: Any) -> Any:
    if isinstance(record, dict):
        return {str(key): _plain(value) for key, value in record.items()}
    if isinstance(record, list | tuple):
        return [_plain(value) for value in record]
    if hasattr(record, "tolist"):
        return _plain(record.tolist())
    if isinstance(record, float) and not math.isfinite(record):
        return None
    return record
