"""A row of the log for each rule that is broken; asked for only when there is one to show."""

from __future__ import annotations

from typing import Any

from saferank.logs.engines.running import Engine
from saferank.logs.schema import Log


def example(engine: Engine, log: Log, place: int, tallied: Any) -> str:
    """A row that breaks the rule of a place, as text."""
    if log.has_sessions and place == log.conflict:
        group = tallied.filter(tallied.place == place).limit(1)
        return _two_documents(engine, log, group.to_pyarrow().to_pylist()[0])
    hidden = {"place", "judged", "unit"} & {*log.source.columns}
    row = log.source.filter(log.source.place == place).drop(*sorted(hidden)).limit(1)
    return _text(engine.fetch(row).to_pylist()[0])


def _two_documents(engine: Engine, log: Log, group: dict[str, Any]) -> str:
    """A session of the group's query with two documents at a rank."""
    kept = log.kept(log.table)
    there = kept.filter(kept.query_id == group["query_id"])
    pairs = there.group_by("session_id", "rank").agg(
        one=there.doc_id.min(), other=there.doc_id.max()
    )
    row = engine.fetch(pairs.filter(pairs.one != pairs.other).limit(1)).to_pylist()[0]
    return (
        f"session_id {row['session_id']!r} shows {row['one']!r} and {row['other']!r} at "
        f"rank {row['rank']} of query_id {group['query_id']!r}"
    )


def _text(row: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value!r}" for name, value in row.items())
