"""Which curves each figure shows, and so which jobs it needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from saferank.errors import require
from saferank.experiments.jobs import REFERENCES, Job, Log, Production
from saferank.experiments.study import Conditions, Study

FEW = 10**6
"""Figure 7 asks about few sessions: at most this many."""


@dataclass(frozen=True)
class Curve:
    """One line of a figure: a method at every number of sessions."""

    panel: str
    label: str
    method: str
    delta: str | None = None
    users: str = "trust"
    strong: bool = False
    """Whether production is the strong one."""

    def conditions(self, study: Study) -> Conditions:
        """The study's conditions, or those of a strong production ranker."""
        if self.strong:
            return replace(study.conditions, fraction=study.strong)
        return study.conditions

    def jobs(self, study: Study, collection: str) -> Iterator[Job]:
        """The jobs of the curve, over sessions and seeds."""
        for sessions in self.sessions(study):
            for seed in range(study.seeds):
                yield self.job(study, collection, sessions, seed)

    def job(self, study: Study, collection: str, sessions: int, seed: int) -> Job:
        """One job of the curve."""
        production = Production(collection, self.conditions(study), seed)
        users = "none" if self.method in REFERENCES else self.users
        return Job(Log(production, users, sessions), self.method, self.delta)

    def sessions(self, study: Study) -> tuple[int, ...]:
        """The numbers of sessions at which the curve has points."""
        if self.method in REFERENCES:
            return (0,)
        return tuple(n for n in study.sessions if not self.strong or n <= FEW)


def _prpo(panel: str, deltas: tuple[str, ...], users: str) -> list[Curve]:
    return [Curve(panel, f"δ = {delta}", "prpo", delta, users) for delta in deltas]


def _safe_dr(panel: str, users: str) -> list[Curve]:
    deltas = ("0.01", "0.1", "0.45", "0.95")
    return [Curve(panel, f"δ = {delta}", "safe-dr", delta, users) for delta in deltas]


def _methods(panel: str, users: str = "trust", *, strong: bool = False) -> list[Curve]:
    """The methods of the main figure; delta is written out, so that figures share their jobs."""
    named = (
        ("plain clicks", "naive", None),
        ("IPS", "ips", None),
        ("DM", "dm", None),
        ("DR", "dr", None),
        ("safe DR", "safe-dr", "0.95"),
        ("PRPO", "prpo", "100/N"),
    )
    return [Curve(panel, label, method, delta, users, strong) for label, method, delta in named]


def _others(users: str, panel: str) -> list[Curve]:
    shown = [curve for curve in _methods(panel, users) if curve.method not in ("naive", "dm")]
    return [*shown, Curve(panel, "PRPO, δ = 0.5", "prpo", "0.5", users)]


CURVES: dict[int, tuple[Curve, ...]] = {
    2: tuple(_methods("")),
    3: (
        *_prpo("PRPO", ("0.01/N", "100/N", "1/log N", "1"), "trust"),
        *_safe_dr("safe DR", "trust"),
    ),
    4: (
        *_prpo("PRPO", ("0.25", "0.5", "0.65", "1"), "adversarial"),
        *_safe_dr("safe DR", "adversarial"),
    ),
    5: (
        *_others("cascade", "cascade users"),
        *_others("misspecified", "half the trust bias"),
        *_others("quarter-adversarial", "a quarter of clicks turned round"),
    ),
    7: tuple(_methods("", strong=True)),
}
"""The curves of each figure that has any. Figure 1 needs no jobs, figure 6 those of 2 and 4."""

FIGURES = (1, 2, 3, 4, 5, 6, 7)


def curves_of(figure: int) -> tuple[Curve, ...]:
    """The curves whose jobs a figure needs."""
    require(figure in FIGURES, "figure", f"one of {', '.join(map(str, FIGURES))}, or all", figure)
    if figure == 6:
        return CURVES[2] + CURVES[4]
    return CURVES.get(figure, ())


def references(curves: tuple[Curve, ...]) -> list[Curve]:
    """Production and skyline beside the curves, for each production ranker that they have."""
    strengths = sorted({curve.strong for curve in curves})
    return [
        Curve("", method, method, strong=strong) for strong in strengths for method in REFERENCES
    ]


def plan(figures: tuple[int, ...], study: Study, collection: str) -> list[Job]:
    """Every job that the figures need, once."""
    curves = tuple(curve for figure in figures for curve in curves_of(figure))
    wanted = [*references(curves), *curves]
    return list(dict.fromkeys(job for curve in wanted for job in curve.jobs(study, collection)))
