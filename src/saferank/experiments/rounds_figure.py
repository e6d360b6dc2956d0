"""Figure 8, rounds: results that survive being killed, the chart, and a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from saferank._core.charts import save_chart
from saferank._core.progress import bar
from saferank._core.records import from_dict
from saferank.errors import InputError
from saferank.experiments.rounds_study import (
    METHODS,
    USERS,
    RoundMeasure,
    Skylines,
    make_world,
    play,
)
from saferank.experiments.study import open_collection
from saferank.learning import Settings

SETTINGS = Settings(steps=150, learning_rate=0.03, min_validation_interval=15)
"""For the linear scorers of this study."""
VERSION = 2
"""Of results: those of another version are not used (1: PDGD lost small chances of rankings)."""


@dataclass(frozen=True)
class RoundsPlan:
    """What is run.

    >>> RoundsPlan("synthetic:small:60").rounds
    6
    """

    data: str
    seeds: int = 3
    rounds: int = 6
    sessions: int = 5000
    """Per round."""
    users: tuple[str, ...] = USERS
    methods: tuple[str, ...] = tuple(METHODS)


@dataclass(frozen=True)
class RoundsRow:
    """A method with some users, over all seeds."""

    method: str
    users: str
    last: float
    """Utility in the last round, as a share of the first production's."""
    worst: float
    """Utility in the worst round of any seed."""
    regret: float
    """Sum over rounds of what was missing to the skyline, in production's utility."""
    below: int
    """Rounds in which the average fell below what is promised (keep 0.9, slack 0.01)."""
    broken: int
    """Rounds in which any query did."""
    rounds: int
    level: int
    """Seeds in which some round reached the skyline's level."""
    level_at: float | None
    """The first such round, in the middle of these seeds."""


def run_rounds(plan: RoundsPlan, folder: Path) -> list[RoundMeasure]:
    """Run what has no result yet; results lie in one file per method, users and seed."""
    collection = open_collection(plan.data, folder / "data")
    tasks = [
        (users, method, seed)
        for seed in range(plan.seeds)
        for users in plan.users
        for method in plan.methods
    ]
    measures: list[RoundMeasure] = []
    skylines = Skylines(SETTINGS)
    with bar("Rounds", len(tasks)) as advance:
        for users, method, seed in tasks:
            study = f"{plan.data}-{plan.rounds}x{plan.sessions}"
            name = f"{study}-{users}-{method}-{seed}-{VERSION}"
            path = folder / "results" / f"{_file_name(name)}.json"
            kept = _read(path)
            if kept is None:
                world = make_world(
                    collection, users, sessions=plan.sessions, rounds=plan.rounds, seed=seed
                )
                kept = list(play(world, method, users, plan.rounds, skylines))
                _write(path, kept)
            measures += kept
            advance()
    return measures


def _file_name(words: str) -> str:
    return "".join(sign if sign.isalnum() else "-" for sign in words)


def _write(path: Path, measures: Sequence[RoundMeasure]) -> None:
    from saferank._core.files import write_json

    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"measures": [asdict(one) for one in measures]})


def _read(path: Path) -> list[RoundMeasure] | None:
    """The measures of a task; None where they are missing or damaged."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return [from_dict(RoundMeasure, one, "measure") for one in record["measures"]]
    except (OSError, ValueError, LookupError, TypeError, InputError):
        return None


def summarise(measures: Sequence[RoundMeasure]) -> list[RoundsRow]:
    """One row per method and users."""
    rows = []
    for users in dict.fromkeys(one.users for one in measures):
        for method in dict.fromkeys(one.method for one in measures):
            own = [one for one in measures if (one.users, one.method) == (users, method)]
            if not own:
                continue
            last = max(one.number for one in own)
            level = _first_level(own)
            rows.append(
                RoundsRow(
                    method, users,
                    last=float(np.mean([one.utility for one in own if one.number == last])),
                    worst=min(one.utility for one in own),
                    regret=sum(one.skyline - one.utility for one in own)
                    / len({one.seed for one in own}),
                    below=sum(one.utility < 0.9 - 0.01 for one in own),
                    broken=sum(one.broken > 0 for one in own),
                    rounds=len(own),
                    level=len(level),
                    level_at=float(np.median(level)) if level else None,
                )
            )  # fmt: skip
    return rows


def _first_level(measures: Sequence[RoundMeasure]) -> list[int]:
    """The first round at the skyline's level, of the seeds that have one."""
    rounds: dict[int, int] = {}
    for one in sorted(measures, key=lambda one: one.number):
        if one.utility >= one.skyline:
            rounds.setdefault(one.seed, one.number)
    return list(rounds.values())


SOLID, DASHED, DOTTED = [1, 0], [6, 3], [2, 2]
LOOKS: dict[str, tuple[str, list[int]]] = {
    "IPS": ("#e69f00", DASHED),
    "DR": ("#d55e00", DASHED),
    "safe DR": ("#882255", DASHED),
    "PRPO": ("#cc79a7", DASHED),
    "DR, certified and guarded": ("#0072b2", SOLID),
    "PRPO, certified and guarded": ("#56b4e9", SOLID),
    "keep, certified and guarded": ("#44aa99", SOLID),
    "DR, certified, guarded and explored": ("#009e73", SOLID),
    "DR, certified against the last": ("#332288", SOLID),
    "PDGD": ("#666666", DOTTED),
    "DBGD": ("#aaaaaa", DOTTED),
    "skyline": ("#000000", [1, 4]),
}
"""Colour and dash of each line: what is certified is solid, what is not dashed, online dotted."""


def draw_rounds(measures: Sequence[RoundMeasure], title: str) -> Any:
    """Utility over rounds beside the first production's, one panel for each kind of users."""
    import altair as alt

    values = [
        {"users": one.users, "method": method, "round": one.number, "utility": utility}
        for one in measures
        for method, utility in ((one.method, one.utility), ("skyline", one.skyline))
    ]
    looks = {
        name: look for name, look in LOOKS.items() if any(row["method"] == name for row in values)
    }
    colours = alt.Scale(domain=list(looks), range=[colour for colour, _ in looks.values()])
    dashes = alt.Scale(domain=list(looks), range=[dash for _, dash in looks.values()])
    chart = alt.Chart({"values": values})
    line = chart.mark_line(strokeWidth=2).encode(
        x=alt.X("round:O", title="round", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("mean(utility):Q", title="utility, production = 1", scale=alt.Scale(zero=False)),
        color=alt.Color("method:N", title=None, scale=colours),
        strokeDash=alt.StrokeDash("method:N", title=None, scale=dashes),
    )
    once = chart.transform_aggregate(rows="count()", groupby=["users"])
    rule = once.mark_rule(color="#555", strokeWidth=0.7).encode(y=alt.datum(1))
    return (
        alt.layer(rule, line)
        .properties(width=215, height=210)
        .facet(column=alt.Column("users:N", title=None, sort=list(USERS)))
        .properties(title=title)
        .configure_legend(
            orient="bottom", columns=4, labelLimit=400, columnPadding=30, symbolSize=500,
            symbolStrokeWidth=2.5, labelFontSize=12,
        )
    )  # fmt: skip


def reproduce_rounds(plan: RoundsPlan, folder: Path) -> tuple[list[RoundsRow], Path]:
    """Run, draw to `folder/figure-8.svg`, and summarise."""
    measures = run_rounds(plan, folder)
    path = folder / "figure-8.svg"
    data = "/".join(Path(plan.data).parts[-2:])  # where a folder lies is nobody's affair
    title = f"Figure 8. Rounds of serving and learning ({data}, {plan.seeds} seeds)"
    save_chart(draw_rounds(measures, title), path)
    return summarise(measures), path
