r"""Guarded traffic as an experiment: who got which ranker was drawn with a known chance.

A list of a query whose share of the new ranker is :math:`\lambda`, with value y (its clicks, or
another column's sum), says

.. math:: x = (y - m)\,\Big(\frac{1[new]}{\lambda} - \frac{1[production]}{1 - \lambda}\Big)

of the difference of the two, whatever m is: m is the mean of the days before. The lists of a
session are added up, as they depend on each other. Lists whose share is 0 or 1 compare nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from saferank._core.flat import Floats, Ints
from saferank._core.scratch import scratch_folder
from saferank.errors import InputError, require
from saferank.logs.counting import EngineChoice
from saferank.logs.engines.running import Engine, opened
from saferank.logs.schema import day_of, identity
from saferank.logs.sources import LogName, find

CLICKS = "clicks"
NAMES = ("session_id", "query_id", "click", "arm", "share", "day")
NEW, PRODUCTION = "new", "production"


@dataclass(frozen=True, eq=False)
class Metric:
    """What each day says of one value, per session."""

    name: str
    sessions: Ints
    sums: Floats
    squares: Floats
    production: float
    """Per session, had all been production's: its lists weigh 1/(1 - share). All days."""
    missing: int
    """Lists without a value, which say nothing."""


@dataclass(frozen=True, eq=False)
class Experiment:
    """The days of guarded traffic, and what could not be used of it."""

    days: tuple[str, ...]
    metrics: tuple[Metric, ...]
    lists: int
    alone: int
    """Lists whose share is 0 or 1: nothing to compare them with."""
    unusable: int
    """Lists without a session, with an unknown arm, or with a share that is no probability."""
    new_lists: int


def read_experiment(
    log: LogName,
    *,
    columns: Mapping[str, str] | None = None,
    values: Sequence[str] = (),
    engine: str | EngineChoice = "duckdb",
) -> Experiment:
    """Read the log that guarded serving left: one row per shown document.

    Parameters
    ----------
    log : files, folders, globs, a table of the engine, or a table in memory, with the columns
        `session_id`, `query_id`, `click`, `arm` ("new" or "production") and `share` (the chance
        that this session had of the new ranker for this query); `day` where there is one.
    columns : your names of these.
    values : numeric columns beside clicks whose sums per list are watched, too.
    engine : as in `count`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = {"session_id": [1, 2], "query_id": [7, 7], "click": [1, 0], "arm": ["new",
    ...         "production"], "share": [0.5, 0.5]}
    >>> read_experiment(pa.table(rows)).metrics[0].sessions
    array([2])
    """
    names = {name: name for name in NAMES} | dict(columns or {})
    unknown = sorted(set(names) - set(NAMES))
    require(not unknown, "column", f"one of {', '.join(NAMES)}", ", ".join(unknown))
    choice = engine if isinstance(engine, EngineChoice) else EngineChoice(engine)
    with (
        scratch_folder(choice.spill) as folder,
        opened(choice.name, memory=choice.memory, spill=folder) as running,
    ):
        lists = _lists(running.read(find(log)), names, values)
        return _experiment(running, lists, [CLICKS, *values])


def _lists(table: Any, names: Mapping[str, str], values: Sequence[str]) -> Any:
    """One row per list: session, query, day, arm, share, and the sums of clicks and values."""
    import ibis

    needed = [names[name] for name in NAMES if name != "day"]
    missing = [name for name in [*needed, *values] if name not in table.columns]
    if missing:
        raise InputError(
            f"the log must have the columns session_id, query_id, click, arm and share to be "
            f"watched; it lacks `{missing[0]}`: name yours with --column."
        )
    day = day_of(table, names["day"])
    arm = table[names["arm"]].cast("string")
    share = table[names["share"]]
    require(share.type().is_numeric(), "share", "numbers", str(share.type()))
    rows = table.select(
        session=identity(table[names["session_id"]], "session_id"),
        query=identity(table[names["query_id"]], "query_id"),
        day=ibis.literal("all") if day is None else day,
        new=ibis.cases((arm == NEW, True), (arm == PRODUCTION, False)),
        share=share.cast("float64"),
        **{f"value_{i}": table[name].cast("float64") for i, name in
           enumerate([names["click"], *values])},
    )  # fmt: skip
    keys = ["session", "query", "day", "new", "share"]
    # a list of which any value is missing has none: it says nothing, rather than less
    sums = {
        f"value_{i}": rows[f"value_{i}"].isnull().any().ifelse(None, rows[f"value_{i}"].sum())
        for i in range(1 + len(values))
    }
    return rows.group_by(keys).agg(**sums)


def _experiment(engine: Engine, lists: Any, names: Sequence[str]) -> Experiment:
    sane = lists.session.notnull() & lists.new.notnull() & lists.share.between(0, 1)
    compared = sane & (lists.share > 0) & (lists.share < 1)
    facts = engine.fetch(
        lists.agg(
            lists=lists.count(),
            sane=lists.count(where=sane),
            compared=lists.count(where=compared),
            new=lists.count(where=compared & lists.new),
        )
    ).to_pylist()[0]
    if not facts["compared"]:
        raise InputError(
            "the log must have lists whose share of the new ranker is between 0 and 1: of "
            f"{facts['lists']:,} lists none compares the two."
        )
    usable = lists.filter(compared)
    days, metrics = None, []
    for index, name in enumerate(names):
        days, metric = _metric(engine, usable, f"value_{index}", name, days)
        metrics.append(metric)
    assert days is not None
    return Experiment(
        days, tuple(metrics), facts["lists"], facts["sane"] - facts["compared"],
        facts["lists"] - facts["sane"], facts["new"],
    )  # fmt: skip


def _metric(
    engine: Engine, lists: Any, column: str, name: str, days: tuple[str, ...] | None
) -> tuple[tuple[str, ...], Metric]:
    """Sums of one value, day by day: its means first, then the scores around them."""
    value = lists[column]
    by_day = lists.group_by("day").agg(
        lists=value.count(), total=value.sum().fill_null(0.0), missing=value.isnull().sum()
    )
    rows = sorted(engine.fetch(by_day).to_pylist(), key=lambda row: str(row["day"]))
    days = days or tuple(str(row["day"]) for row in rows)
    centres = _means_before(rows)
    score = _scores(lists.filter(value.notnull()), column, centres)
    sessions = score.group_by("session", "day").agg(x=score.x.sum(), old=score.old.sum())
    daily = sessions.group_by("day").agg(
        n=sessions.count(), x=sessions.x.sum(), xx=(sessions.x * sessions.x).sum(),
        old=sessions.old.sum(),
    )  # fmt: skip
    rows_by_day = {str(row["day"]): row for row in engine.fetch(daily).to_pylist()}
    columns = {
        key: np.array(
            [rows_by_day[day][key] if day in rows_by_day else 0 for day in days], dtype=np.float64
        )
        for key in ("n", "x", "xx", "old")
    }
    n = columns["n"].astype(np.int64)
    return days, Metric(
        name, n, columns["x"], columns["xx"],
        float(columns["old"].sum() / max(int(n.sum()), 1)),
        int(sum(row["missing"] for row in rows)),
    )  # fmt: skip


def _means_before(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The mean of the days before each day; the first day's own for the first."""
    centres, lists, total = {}, 0, 0.0
    for row in rows:
        before = (lists, total) if lists else (row["lists"], row["total"])
        centres[str(row["day"])] = before[1] / max(before[0], 1)
        lists, total = lists + row["lists"], total + row["total"]
    return centres


def _scores(lists: Any, column: str, centres: Mapping[str, float]) -> Any:
    """What each list says of the difference (x), and of production's value (old)."""
    import ibis

    centre = ibis.cases(*((lists.day == day, mean) for day, mean in centres.items()), else_=0.0)
    weight = lists.new.ifelse(1 / lists.share, -1 / (1 - lists.share))
    return lists.select(
        "session", "day", x=(lists[column] - centre) * weight,
        old=lists.new.ifelse(0.0, lists[column] / (1 - lists.share)),
    )  # fmt: skip
