"""Users, sessions and queries with more clicks than people make, by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa

from saferank.logs.counting import Counted

MOST: Final = 1_000_000
"""Robots of a kind that are named."""


class _Rule(NamedTuple):
    """A share of at least so many results that no person clicks."""

    plural: str
    results: int
    share: float


_RULES: Final = {
    "user_id": _Rule("users", 30, 0.9),
    "session_id": _Rule("sessions", 5, 1.0),
    "query_id": _Rule("queries", 100, 0.9),
}


@dataclass(frozen=True, eq=False)
class Robots:
    """Who clicks like a robot: ids by the log's column, and their clicks."""

    named: dict[str, pa.Array]
    """Under `user_id`, `session_id` and `query_id`, as far as the log has them."""
    clicks: dict[str, int]

    @property
    def most_clicks(self) -> int:
        """Clicks that are certainly theirs: kinds overlap, so the largest of them."""
        return max(self.clicks.values(), default=0)

    def table(self) -> pa.Table:
        """A list that `count --exclude` takes: one row per robot, under its column."""
        kinds = {name: ids for name, ids in self.named.items() if len(ids)}
        rows = [pa.table({name: ids}) for name, ids in kinds.items()]
        if not rows:
            return pa.table({name: pa.array([], pa.string()) for name in self.named})
        return pa.concat_tables(rows, promote_options="default")

    def sentence(self) -> str:
        """How many of each kind, and examples.

        >>> Robots({"query_id": pa.array([7])}, {"query_id": 95}).sentence()
        '1 queries with 90% of 100 or more results clicked (query_id 7).'
        """
        parts = []
        for name, ids in self.named.items():
            shown = ", ".join(map(str, ids[:3].to_pylist()))
            some = f" ({name} {shown}{', ...' if len(ids) > 3 else ''})" if len(ids) else ""
            plural, results, share = _RULES[name]
            clicked = f"with {share:.0%} of {results} or more results clicked"
            parts.append(f"{len(ids):,} {plural} {clicked}{some}")
        return "; ".join(parts) + "."


def find_robots(log: Counted) -> Robots:
    """Look for robots among the users, sessions and queries of a log, as far as it has them."""
    suspects = {}
    if log.log.users is not None:
        suspects["user_id"] = _by_rows(log, log.log.users, ("user_id",))
    if log.log.has_sessions:
        suspects["session_id"] = _by_rows(log, log.log.table, ("session_id", "query_id"))
    suspects["query_id"] = _by_query(log)
    return Robots(
        {name: table[name].combine_chunks().unique() for name, table in suspects.items()},
        {name: sum(table["clicks"].to_pylist()) for name, table in suspects.items()},
    )


def _by_rows(log: Counted, table: Any, keys: tuple[str, ...]) -> pa.Table:
    """Those of the first key with too many clicks: a pass over the rows of the log."""
    kept = log.log.kept(table)
    kept = kept.filter(kept[keys[0]].notnull())
    each = kept.group_by(*keys).agg(shown=kept.count(), clicks=kept.count(where=kept.clicked))
    return log.engine.fetch(_wild(each, keys[0]))


def _by_query(log: Counted) -> pa.Table:
    kept = log.log.kept(log.tallied)
    each = kept.group_by("query_id").agg(shown=kept.impressions.sum(), clicks=kept.clicks.sum())
    return _wild(each, "query_id").to_pyarrow()


def _wild(each: Any, key: str) -> Any:
    rule = _RULES[key]
    wild = each.filter((each.shown >= rule.results) & (each.clicks >= rule.share * each.shown))
    ordered = wild.order_by(wild.clicks.desc(), wild[key]).limit(MOST)
    return ordered.select(key, clicks=ordered.clicks.cast("int64"))
