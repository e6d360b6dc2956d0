"""When to stop: by queries held out, or with few queries by cross-validation.

Training goes through stages (a regression, a start that imitates production, the ranker). With
queries held out each stage keeps its best step on them. With few queries all stages are run on
every fold but one, stopped by that one; the number of steps that is best on average over the folds
is then taken on all queries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from saferank._core.flat import Floats
from saferank._core.seeds import generator
from saferank.errors import require
from saferank.learning.descent import GoalQueries, History, Settings
from saferank.learning.families import Family, Run, Scorer
from saferank.learning.problem import Log

HELD_OUT = 0.15
"""Share of the queries that training is stopped by."""

FEW = 50
"""Up to this many queries, a share to stop by is too few to tell a good step from a bad one."""

FOLDS = 5

STEADY = 0.1
"""What the learning rate is multiplied by where it cannot fall."""

Curves = Mapping[str, History]
"""Histories by stage."""


def split(log: Log, validation: Log | None, seed: int, *, promise: bool) -> tuple[Log, Log | None]:
    """Training and validation queries, seen ones only; without `validation` 15 % are held out.

    With few queries none are: when to stop is then chosen by cross-validation (`folds`). Not with
    a promise: queries that had no part in learning are then among those that must keep it, and as
    learning starts at production, a bad choice among its steps is no random ranker.
    """
    train = log.seen()
    require(train.total > 0, "counts", "of at least one session", train.total)
    if validation is not None:
        seen = validation.seen()
        require(seen.total > 0, "validation", "of at least one session", 0)
        return train, seen
    queries = train.queries
    if train.portion is not None:
        require(queries > FEW, "shards", f"of more than {FEW} queries with sessions", queries)
    if queries == 1:
        return train, train  # nothing to hold out: the one query has to serve for both
    if queries <= FEW and not promise:
        return train, None
    order = generator(seed, "held out").permutation(queries)
    count = min(max(1, round(HELD_OUT * queries)), queries - 1)
    return train.subset(np.sort(order[count:])), train.subset(np.sort(order[:count]))


def folds(log: Log, seed: int) -> list[tuple[Log, Log]]:
    """The queries cut into folds: for each, all others to train on and itself to stop by."""
    order = generator(seed, "folds").permutation(log.data.queries)
    parts = np.array_split(order, min(FOLDS, order.size))
    return [
        (log.subset(np.sort(np.setdiff1d(order, own))), log.subset(np.sort(own))) for own in parts
    ]


@dataclass(frozen=True)
class Pass:
    """One pass through the stages: its queries, and what stops each stage."""

    log: Log
    validation: Log | None
    """Queries to stop by; None: every stage has its number of steps."""
    folder: Path | None
    steps: Mapping[str, int] = field(default_factory=dict)
    label: str = ""
    steady: bool = False
    """The learning rate never falls: steps of several passes can be compared."""
    histories: dict[str, History] = field(default_factory=dict)

    def fit(
        self,
        stage: str,
        family: Family,
        start: Scorer,
        train: GoalQueries,
        check: GoalQueries,
        run: Run,
    ) -> Scorer:
        """Train a stage; its history is kept under its name."""
        settings = run.settings
        if self.validation is None:
            if self.steps[stage] == 0:
                return start
            settings = exactly(settings, self.steps[stage])
        elif self.steady:
            settings = steady(settings)
        run = replace(
            run,
            settings=settings,
            checkpoint=self.folder and self.folder / stage,
            label=f"{self.label}{run.label}",
        )
        scorer, self.histories[stage] = family.fit(start, train, check, run)
        return scorer


def fit_in_passes(
    train: Callable[[Pass], Scorer],
    log: Log,
    validation: Log | None,
    seed: int,
    folder: Path | None,
) -> tuple[Scorer, Curves]:
    """Train through all stages; also the history of each, on average over folds if there are."""
    if validation is not None:
        only = Pass(log, validation, folder)
        return train(only), only.histories
    runs, sessions = [], []
    parts = folds(log, seed)
    for number, (others, own) in enumerate(parts, start=1):
        place = folder and folder / f"fold-{number}"
        fold = Pass(others, own, place, steady=True, label=f"fold {number} of {len(parts)}: ")
        train(fold)
        runs.append(fold.histories)
        sessions.append(own.counts.total)
    curves = mean_curves(runs, np.array(sessions, dtype=np.float64))
    best = {stage: curve.steps[curve.best()] for stage, curve in curves.items()}
    return train(Pass(log, None, folder and folder / "all", best)), curves


def mean_curves(runs: Sequence[Curves], sessions: Floats) -> dict[str, History]:
    """The mean curve of each stage, folds weighted by their sessions."""
    shares = sessions / sessions.sum()
    return {stage: mean_curve([run[stage] for run in runs], shares) for stage in runs[0]}


def mean_curve(histories: Sequence[History], shares: Floats) -> History:
    """The values of several runs averaged step by step, as far as all of them went.

    >>> short, long = History([0, 50], [0.0, 1.0]), History([0, 100], [0.0, 4.0])
    >>> mean_curve([short, long], np.array([0.5, 0.5]))
    History(steps=[0, 50], values=[0.0, 1.5])
    """
    last = min(history.steps[-1] for history in histories)
    steps = sorted({step for history in histories for step in history.steps if step <= last})
    values = [np.interp(steps, history.steps, history.values) for history in histories]
    return History(steps, (shares @ np.stack(values)).tolist())


def exactly(settings: Settings, steps: int) -> Settings:
    """Settings with which training goes on to the given step (or round), and no further."""
    return replace(
        steady(settings), steps=steps, rounds=steps, patience=steps + 1, plateau=steps + 1
    )


def steady(settings: Settings) -> Settings:
    """Settings whose learning rate is small from the start and never falls, with longer waits."""
    return replace(
        settings,
        learning_rate=settings.learning_rate * STEADY,
        min_validation_interval=2 * settings.min_validation_interval,
        plateau=settings.patience,
        rate_falls=0,
    )
