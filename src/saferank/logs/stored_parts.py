"""The parts of counts that were written before: as they say, or drawn where they are older."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from saferank.counts.count_table import COLUMNS, KEYS
from saferank.counts.split import GIVEN, OFF, Split
from saferank.logs.drawn_parts import draw
from saferank.logs.engines.running import DuckDB
from saferank.logs.parts import Parts
from saferank.logs.tally import INVERSE, JUDGE_COLUMNS, added_sessions, check_sessions, total

SUMS = COLUMNS[len(KEYS) :]


def parts_of(local: DuckDB, table: Any, split: Split | None, folder: Path) -> Parts:
    """Counts of a table of the local DuckDB, whose rows keep the rules.

    `split` is what the counts say of themselves.
    """
    import ibis

    if "part" in table.columns:
        judged = table.part == "judge"
        split = GIVEN if split is None or split.off else split
    else:
        judged = ibis.literal(False)
        split = OFF if split is not None and split.off else Split("drawn")
    by_query = None
    if "sessions" in table.columns:
        more = ["cluster"] if "cluster" in table.columns else []
        by_query = added_sessions([table.select("query_id", "sessions", *more, judged=judged)])
        check_sessions(by_query)
    if split.by == "drawn" and "part" not in table.columns:
        return draw(local, _added(table), by_query, split, folder)
    judge = [judged.ifelse(table[name], 0) for name in SUMS]
    columns = dict(zip(JUDGE_COLUMNS, judge, strict=True))
    return Parts(split, table.select(*COLUMNS, **columns, **_inverse(table)), by_query)


def _inverse(table: Any) -> dict[str, Any]:
    """What adds up of propensities, where they are recorded."""
    if "propensity" not in table.columns:
        return {}
    return {INVERSE: (table.impressions.cast("float64") / table.propensity).coalesce(0.0)}


def _added(table: Any) -> Any:
    """Rows of the same query, document and rank as one."""
    sums = {name: total(table[name]) for name in SUMS}
    inverse = {name: column.sum() for name, column in _inverse(table).items()}
    return table.group_by(*KEYS).agg(**sums, **inverse)
