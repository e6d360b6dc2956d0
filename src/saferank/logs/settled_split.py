"""How the log that is counted comes in parts: as it says itself, or as was asked for."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from saferank.counts.split import GIVEN, OFF, Split
from saferank.errors import InputError
from saferank.logs.schema import Log
from saferank.logs.sources import Files, InMemory, Source


def settle_split(log: Log, source: Source, part: str, judge: float, seed: int) -> Split:
    """Rows are split as asked for; counts keep what they say of themselves, if they agree.

    `part` is the log's name of the column that tells the part.
    """
    if judge == 0:
        return OFF
    if not log.summed:
        if log.hashed is None:
            return Split("query", judge, seed)
        return Split("user" if log.has_users else "session", judge, seed)
    said = _recorded(source, part)
    if not said:
        return GIVEN if log.has_parts else Split("drawn", judge, seed)
    first, *rest = said
    other = next((name for name in rest if said[name] != said[first]), None)
    if other is not None:
        raise InputError(
            f"the counts must be split in one way to be added; got {_words(said[first])} in "
            f"{_file(first)!r} and {_words(said[other])} in {_file(other)!r}: count both with "
            f"the same --judge and --seed, or add them without parts (--judge 0)."
        )
    split = said[first]
    if log.has_parts and split is not None and not split.off:
        return split
    return OFF if split is not None and split.off else Split("drawn", judge, seed)


def _recorded(source: Source, part: str) -> dict[str, Split | None]:
    """What each file of counts says of its parts; nothing where the source has no such place."""
    return {
        name: Split.of_metadata(schema.metadata, part in schema.names)
        for name, schema in _schemas(source).items()
    }


def metadata_of(source: Source) -> dict[str, dict[bytes, bytes]]:
    """What each file of counts says beside its rows."""
    return {name: schema.metadata or {} for name, schema in _schemas(source).items()}


def _schemas(source: Source) -> dict[str, pa.Schema]:
    if isinstance(source, InMemory):
        return {"log": source.table.schema}
    if isinstance(source, Files) and source.local and source.format == "parquet":
        return {path: pq.read_schema(path) for path in source.paths}
    return {}


def _words(split: Split | None) -> str:
    return "counts of before there were parts" if split is None else split.describe()


def _file(name: str) -> str:
    """The file without its folders: a message has room for no more."""
    return Path(name).name
