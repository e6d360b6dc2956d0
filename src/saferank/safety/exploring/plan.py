"""A plan for the next log: what is served, what it costs at most, and what the log will tell."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from saferank._core.files import atomic_folder, read_json, write_json
from saferank._core.flat import Floats
from saferank._core.records import from_dict
from saferank.data import RankingData
from saferank.data.table_files import read_table, write_table
from saferank.errors import InputError, require
from saferank.evaluation.scored_policies import Deployed, Policy, all_scores, check_policy
from saferank.safety.exploring.explorer import Explorer, Serves
from saferank.safety.exploring.moves import Moves
from saferank.safety.exploring.outlook import Outlook
from saferank.safety.guard import Guard
from saferank.safety.guarded import Mode
from saferank.safety.promise import Promise

FILE = "plan.json"
_SCORES = "scores.parquet"
_HOLDS = (FILE, _SCORES)
_FORMAT = 1
_BETWEEN = "\x1f"
LISTS, ITEMS = "lists", "items"
"""Where production's order comes from: its lists, or the score of the items."""


@dataclass(frozen=True)
class ExplorationPlan:
    """Which randomisation to serve, and all that was compared.

    See Also
    --------
    explore : makes one; `policy` serves it.
    """

    chosen: str
    outlooks: tuple[Outlook, ...]
    """Production as it is first, then the candidates, best first."""
    promise: Promise
    weights: tuple[float, ...]
    """Of the K ranks; the promise is for them, or for every way of looking at as many ranks."""
    every: bool
    sessions: float
    judge: float
    """Share of the sessions that is set aside to judge by: errors are of the others."""
    kind: str
    target: float
    depth: int
    production_kind: Serves
    production_temperature: float
    production_from: str
    production_sentence: str
    assumes: tuple[str, ...]
    moves: tuple[tuple[float, ...], ...] | None = None
    """Where places of production's list are shown, unless a guard is served."""
    temperature: float | None = None
    optimism: dict[str, float] | None = None
    """An optimistic score per query and document, in a table beside the plan's file."""

    @property
    def k(self) -> int:
        """Ranks that are shown."""
        return len(self.weights)

    @property
    def outlook(self) -> Outlook:
        """Of what is served."""
        return next(one for one in self.outlooks if one.name == self.chosen)

    def policy(
        self, production: Policy | None, data: RankingData | None = None
    ) -> Explorer | Guard:
        """What serves the plan; `production` are scores, a ranker, or None for those of the items.

        `data` is needed where the plan is not made of moves.
        """
        if self.moves is not None:
            return Explorer(
                Moves(np.array(self.moves), self.k), production, self.production_kind,
                self.production_temperature,
            )  # fmt: skip
        if data is None:
            raise InputError("`data` must be given: this plan is served by scores of documents.")
        own = all_scores(check_policy(production, data, "production"), data, "production")
        new: Floats = own
        mode: Mode = "mix"
        deployed: Deployed = "sampled"
        if self.chosen == "temperature":
            assert self.temperature is not None
            new = own / self.temperature
        elif self.chosen == "uniform":
            new = np.zeros(data.documents)
        else:
            new, mode, deployed = self._optimism_of(data), "best", "sorted"
        return Guard(
            new, own, self.promise, weights=self.weights, deployed=deployed,
            production_kind=self.production_kind, mode=mode,
            production_temperature=self.production_temperature,
            examination="any" if self.every else "fitted",
        )  # fmt: skip

    def _optimism_of(self, data: RankingData) -> Floats:
        assert self.optimism is not None
        names = document_names(data)
        lacking = next((name for name in names if name not in self.optimism), None)
        shown = None if lacking is None else tuple(lacking.split(_BETWEEN))
        require(lacking is None, "items", "those that the plan was made for", shown)
        return np.array([self.optimism[name] for name in names])

    def sentences(self) -> list[str]:
        """What the numbers mean, and what they rest on."""
        best = self.outlook
        promised = f"{self.promise}, on every query, whatever relevance is"
        needed = best.sessions_needed
        enough = (
            f"{self.chosen} cannot tell alpha at every rank, however many sessions"
            if needed is None
            else f"{self.chosen} needs about {needed:,.0f} sessions for an error of "
            f"{self.target:g} at every rank ({self.kind} bias)"
        )
        return [
            f"What is served {promised}.",
            f"* is what is served; - cannot be told.{self._broken()}",
            "can lose: of the largest possible utility, on the worst query with the worst "
            f"relevance.{self._expected()}",
            "error: standard error of log(alpha / alpha at rank 1) at the worst rank, as `saferank "
            f"bias` will have it; {self.judge:.0%} of the sessions are set aside to judge by.",
            f"least shown: impressions of the least shown of production's first {self.depth} "
            "documents, of the middle query by traffic.",
            f"{enough}.",
            *self.assumes,
        ]

    def _expected(self) -> str:
        loss = self.outlook.expected_loss
        if loss is None:
            return ""
        return f" {self.chosen} is expected to lose {loss:.2%}, by the click model and the counts."

    def _broken(self) -> str:
        names = [one.name for one in self.outlooks if not one.keeps]
        return f" Without keeping the promise: {', '.join(names)}." if names else ""

    def to_dict(self) -> dict[str, Any]:
        """The plan for JSON."""
        record = asdict(self)
        del record["optimism"]
        return {**record, "format": _FORMAT}

    def save(self, folder: str | Path) -> None:
        """Write the plan as a folder, whole or not at all."""
        with atomic_folder(Path(folder), holds=_HOLDS) as temporary:
            write_json(temporary / FILE, self.to_dict(), "exploration plan")
            if self.optimism is not None:
                names = [name.split(_BETWEEN) for name in self.optimism]
                columns = {
                    "query_id": [name[0] for name in names],
                    "doc_id": [name[1] for name in names],
                    "score": list(self.optimism.values()),
                }
                write_table(pa.table(columns), temporary / _SCORES, "optimistic scores")

    @classmethod
    def load(cls, folder: str | Path) -> ExplorationPlan:
        """Read a plan from its folder."""
        place = Path(folder)
        record = read_json(place / FILE)
        rule = f"a plan of format {_FORMAT}"
        sane = isinstance(record, dict) and record.get("format") == _FORMAT
        require(sane, str(place), rule, record.get("format") if isinstance(record, dict) else None)
        plan = from_dict(cls, {k: v for k, v in record.items() if k != "format"}, "plan")
        plan._check()
        return replace(plan, optimism=_read_optimism(place)) if plan.needs_optimism else plan

    @property
    def needs_optimism(self) -> bool:
        """Whether it is served by optimistic scores of documents."""
        return self.chosen == "optimistic"

    def _check(self) -> None:
        names = [one.name for one in self.outlooks]
        require(self.chosen in names, "plan.chosen", f"one of {', '.join(names)}", self.chosen)
        require(self.k >= 1, "plan.weights", "of at least one rank", self.k)
        if self.moves is None:
            guarded = self.chosen in ("temperature", "uniform", "optimistic")
            require(guarded, "plan.moves", "given", self.chosen)
            warm = self.chosen != "temperature" or (self.temperature or 0.0) > 0
            require(warm, "plan.temperature", "positive", self.temperature)
            return
        rows = {len(row) for row in self.moves}
        require(rows == {len(self.moves)}, "plan.moves", "a square matrix", sorted(rows))
        Moves(np.array(self.moves), self.k)


def is_plan(folder: str | Path) -> bool:
    """Whether a folder holds a plan."""
    return (Path(folder) / FILE).is_file()


def document_names(data: RankingData) -> list[str]:
    """One name per query and document."""
    query_ids, doc_ids = data.ids()
    owner = np.repeat(np.asarray(query_ids), data.sizes)
    pairs = zip(owner.tolist(), np.asarray(doc_ids).tolist(), strict=True)
    return [f"{query}{_BETWEEN}{document}" for query, document in pairs]


def _read_optimism(place: Path) -> dict[str, float]:
    table = read_table(place / _SCORES)
    names = ("query_id", "doc_id", "score")
    sane = all(name in table.column_names for name in names)
    require(sane, _SCORES, f"a table of {', '.join(names)}", table.column_names)
    rows = zip(*(table[name].to_pylist() for name in names), strict=True)
    scores = {f"{query}{_BETWEEN}{document}": score for query, document, score in rows}
    finite = all(isinstance(score, float) and np.isfinite(score) for score in scores.values())
    require(finite, _SCORES, "of finite scores", "a value that is not")
    return scores


def weights_of(weights: npt.ArrayLike) -> tuple[float, ...]:
    """Rank weights for a record."""
    return tuple(float(value) for value in np.asarray(weights))
