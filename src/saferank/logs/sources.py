"""What a user names as a log: files, folders, globs, hive partitions, or a table of an engine."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.request import url2pathname

import pyarrow as pa
import pyarrow.parquet as pq

from saferank.data.damage import refuse_damaged
from saferank.data.frames import ArrowTable, as_arrow, is_table
from saferank.errors import InputError, require

FORMATS: dict[str, tuple[str, ...]] = {
    "parquet": (".parquet", ".pq"),
    "csv": (".csv", ".csv.gz", ".tsv", ".tsv.gz"),
    "json": (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz", ".json", ".json.gz"),
}
_ENDINGS = {ending: form for form, endings in FORMATS.items() for ending in endings}
HIVE = ("folders", "columns")
_LONGEST_HEADER = 1 << 20
_REMOTE = re.compile(r"^[a-z][a-z0-9+.-]*://", re.IGNORECASE)


@dataclass(frozen=True)
class Files:
    """Files of one format that are read as one table; `root` is the folder of hive partitions."""

    paths: tuple[str, ...]
    format: str
    root: str | None = None
    local: bool = True


@dataclass(frozen=True)
class TableName:
    """A table that the engine already knows."""

    name: str


@dataclass(frozen=True, eq=False)
class InMemory:
    """A table of this process: a DataFrame or an Arrow table."""

    table: pa.Table


Source = Files | TableName | InMemory
LogName = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | ArrowTable


def find(log: LogName) -> Source:
    """The table in memory, the files that a log names, or the engine's table when it is no path."""
    if is_table(log):
        said = log.schema.metadata if isinstance(log, pa.Table) else None
        return InMemory(as_arrow(log, "log").replace_schema_metadata(said))
    given = [log] if isinstance(log, str | os.PathLike) else list(log)
    names = [_without_scheme(os.fspath(name)) for name in given]
    if not names:
        raise InputError("`log` must name at least one file or table; got none.")
    if any(_REMOTE.match(name) for name in names):
        return Files(tuple(names), _one_format(names), local=False)
    if len(names) == 1 and not _is_path(names[0]):
        return TableName(names[0])
    # a file that is named in two ways is read once
    files = {Path(path).resolve(): path for name in reversed(names) for path in _expand(name)}
    paths = sorted(files.values())
    return Files(tuple(paths), _one_format(paths), root=_hive_root(paths))


def _without_scheme(name: str) -> str:
    """`file:///a%20b` as the path it names; everything else as it is."""
    return url2pathname(name[7:]) if name.lower().startswith("file:///") else name


def _is_path(name: str) -> bool:
    looks = os.sep in name or "*" in name or "?" in name or _format(name) is not None
    return looks or Path(name).exists()


def _expand(name: str) -> list[str]:
    """Files of one argument: itself, those below a folder, or those that a glob matches."""
    if Path(name).is_file():
        return [name]
    matches = [name] if Path(name).is_dir() else _matches(name)
    if not matches:
        raise InputError(f"`log` must name files that exist; nothing matches {name!r}.")
    files = [file for path in matches for file in _below(Path(path))]
    if not files:
        endings = ", ".join(sorted(_ENDINGS))
        raise InputError(f"`log` must hold files ending in {endings}; found none in {name!r}.")
    return files


def _matches(pattern: str) -> list[str]:
    """Paths of a glob, which may be absolute: `Path.glob` takes relative ones only."""
    return glob.glob(pattern, recursive=True)  # noqa: PTH207


def _below(path: Path) -> list[str]:
    if path.is_file():
        return [str(path)]
    inside = (file for file in path.rglob("*") if not _hidden(file.relative_to(path)))
    return [str(file) for file in inside if _format(file.name) is not None and file.is_file()]


def _hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def _format(name: str) -> str | None:
    lower = name.lower()
    return next((form for ending, form in _ENDINGS.items() if lower.endswith(ending)), None)


def _one_format(paths: Iterable[str]) -> str:
    formats = {path: _format(path) or "parquet" for path in paths}
    if len(set(formats.values())) > 1:
        first, *rest = formats
        other = next(path for path in rest if formats[path] != formats[first])
        raise InputError(f"`log` must be files of one format; got {first!r} and {other!r}.")
    return next(iter(formats.values()))


def _hive_root(paths: Sequence[str]) -> str | None:
    """The folder above the first `name=value` folder of the paths."""
    parts = Path(paths[0]).parts
    cut = next((index for index, part in enumerate(parts[:-1]) if "=" in part), None)
    if cut is None:
        return None
    return str(Path(*parts[:cut])) if cut else "."


def check_output(source: Source, output: Path) -> None:
    """Refuse an output that is a file of the log."""
    if not isinstance(source, Files) or not source.local or not output.exists():
        return
    same = next((path for path in source.paths if output.samefile(path)), None)
    require(same is None, "output", "another file than the log", str(output))


def settle_hive(
    source: Files, hive: str | None, columns: Callable[[Files], Iterable[str]]
) -> Files:
    """The files with or without the columns that folders such as `day=2026-01-31` name.

    A log whose files have such a column themselves is refused, unless `hive` says whose values
    count: those of the `folders`, or the files' own `columns`. `columns` tells a source's names.
    """
    require(hive in (None, *HIVE), "hive", f"one of {', '.join(HIVE)}", hive)
    if source.root is None or hive == "folders":
        return source
    plain = replace(source, root=None)
    if hive == "columns":
        return plain
    own = {name.casefold() for name in columns(plain)}
    named = [key for path in source.paths for key in _hive_keys(path)]
    twice = next((key for key in named if key.casefold() in own), None)
    if twice is not None:
        raise InputError(
            f"`{twice}` is a column of the files and of their folders ({twice}=...): say whose "
            f"values count with --hive folders or --hive columns."
        )
    return source


def _hive_keys(path: str) -> list[str]:
    """Columns that the folders of a path name; engines look at all of them."""
    folders = Path(path).absolute().parts[:-1]
    return [part.split("=", 1)[0] for part in folders if "=" in part]


def check_columns(files: Files, columns: Iterable[str]) -> None:
    """Refuse files whose columns cannot be told, before any engine starts."""
    if files.format == "parquet":
        _check_parquet(files, columns)
        return
    if files.format == "csv":
        _check_csv(files, columns)
    header = 1 if files.format == "csv" else 0
    if all(_lines_at_start(path) <= header for path in files.paths):
        raise InputError(f"the log must have rows to count; {files.paths[0]!r} has none.")


def _check_parquet(files: Files, columns: Iterable[str]) -> None:
    """Refuse damaged Parquet files, and partitions whose columns differ in what is needed.

    Only the files' footers are read, before any engine starts.
    """
    wanted = set(columns)
    first: dict[str, str] = {}
    for path in files.paths:
        fields = [f for f in _footer(path) if f.name in wanted]
        kinds = {f.name: _kind(f.type) for f in fields}
        for name in kinds:
            times = sum(f.name == name for f in fields)
            require(times == 1, f"{name} of {path}", "one column", f"{times} columns")
        first = first or kinds
        for name in sorted(wanted):
            here, there = kinds.get(name), first.get(name)
            if here != there:
                raise InputError(
                    f"`{name}` must be the same in every file of the log; got "
                    f"{here or 'no such column'} in {path!r} and "
                    f"{there or 'no such column'} in {files.paths[0]!r}."
                )


def _check_csv(files: Files, columns: Iterable[str]) -> None:
    """Refuse CSV files that have a needed column twice: engines rename the second and go on."""
    wanted = set(columns)
    for path in files.paths:
        names = [name.strip().strip('"') for name in re.split(r"[,;\t|]", _first_line(path))]
        for name in sorted(wanted.intersection(names)):
            times = names.count(name)
            require(times == 1, f"{name} of {path}", "one column", f"{times} columns")


def _first_line(path: str) -> str:
    return _start(path).split(b"\n", 1)[0].decode("utf-8-sig", "replace")


def _lines_at_start(path: str) -> int:
    """Lines that are not blank in what is looked at of a file."""
    return sum(bool(line.strip()) for line in re.split(rb"[\r\n]", _start(path)))


def _start(path: str) -> bytes:
    with refuse_damaged(path), pa.input_stream(path) as stream:
        return bytes(stream.read(_LONGEST_HEADER))


def _footer(path: str) -> list[pa.Field]:
    with refuse_damaged(path):
        schema = pq.read_schema(path)
        require(bool(schema.names), path, "a table with columns", "none")  # also decodes the names
        return list(schema)


def _kind(kind: pa.DataType) -> str:
    """The type as far as it matters: whole numbers of any width are one kind."""
    if pa.types.is_dictionary(kind):
        return _kind(kind.value_type)
    if pa.types.is_integer(kind):
        return "whole numbers"
    if pa.types.is_floating(kind):
        return "floating-point numbers"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "strings"
    return str(kind)
