"""Fields of UBI documents, wherever an export has them: nested, with dotted names, or in `_source`.

JSON is read with the types that are asked for, never guessed from its first lines: a field that
only some documents have is null in the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from saferank.errors import InputError
from saferank.logs.engines.running import DuckDB
from saferank.logs.sources import Files

_SOURCE = "_source"
_NUMBER = r"^[^0-9-]*(-?\d+)"


def ubi_table(engine: DuckDB, files: Files, names: Sequence[str], **paths: Sequence[str]) -> Any:
    """An Ibis table of text fields by `names`, and of others by the first path that is there.

    `hits` becomes a list of texts and `ordinal` a whole number; the first of `names` is required.
    """
    wanted = {name: (name,) for name in names} | {key: tuple(each) for key, each in paths.items()}
    every = [path for each in wanted.values() for path in each]
    if files.format == "json":
        tree = _struct(every)
        columns = {name: _spelled(kind) for name, kind in tree.items()}
        table = engine.read_json(files.paths, {**columns, _SOURCE: _spelled(tree)})
    else:
        table = engine.read(files)
    fields = {key: _first(table, each) for key, each in wanted.items()}
    required = wanted[names[0]][0]
    if fields[names[0]] is None:
        raise InputError(
            f"`{Path(files.paths[0]).name}` must have the field `{required}` of User Behavior "
            f"Insights; it has {', '.join(table.columns[:8])}."
        )
    return table.select(**{key: _typed(column, key) for key, column in fields.items()})


def _struct(paths: Sequence[str]) -> dict[str, Any]:
    """Dotted paths as nested names; the ends are texts or, of hits, lists of them."""
    tree: dict[str, Any] = {}
    for path in sorted(paths, key=len):
        *above, last = path.split(".")
        node = tree
        for name in above:
            node = node.setdefault(name, {})
            if not isinstance(node, dict):
                break  # `ordinal` is a number or {index: ...}: its text tells both
        else:
            node[last] = "VARCHAR[]" if last.startswith("query_response_") else "VARCHAR"
    return tree


def _spelled(tree: Any) -> str:
    if not isinstance(tree, dict):
        return str(tree)
    return "STRUCT(" + ", ".join(f'"{name}" {_spelled(kind)}' for name, kind in tree.items()) + ")"


def _first(table: Any, paths: Sequence[str]) -> Any | None:
    """The first of the paths that a row has, at the top or in `_source`."""
    every = (_at(table, whole) for path in paths for whole in (path, f"{_SOURCE}.{path}"))
    there = [column for column in every if column is not None]
    if not there:
        return None
    alike = [column for column in there if column.type() == there[0].type()]
    return there[0].coalesce(*alike[1:]) if alike[1:] else there[0]


def _at(table: Any, path: str) -> Any | None:
    """A column by its name with dots, or a field of nested structures."""
    if path in table.columns:
        return table[path]
    for cut in range(path.count("."), 0, -1):
        parts = path.split(".")
        head = ".".join(parts[:cut])
        if head in table.columns:
            column = table[head]
            for name in parts[cut:]:
                if not (column.type().is_struct() and name in column.type().names):
                    return None
                column = column[name]
            return column
    return None


def _typed(column: Any | None, key: str) -> Any:
    import ibis

    if key == "hits":
        kind = "array<string>"
        return ibis.null(kind) if column is None else column.cast(kind)
    if column is None:
        return ibis.null("int64" if key == "ordinal" else "string")
    if key != "ordinal":
        return column.cast("string")
    text = column.cast("string")
    return text.re_extract(_NUMBER, 1).nullif("").cast("int64")
