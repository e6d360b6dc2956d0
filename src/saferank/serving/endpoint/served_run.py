"""A run as the endpoint serves it: what was certified, one query at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from saferank._core.flat import Floats, Ints
from saferank.data import RankingData, Scaling
from saferank.data.features import NUMBERS
from saferank.errors import InputError, require
from saferank.learning import Ranker
from saferank.policies.production import chances_of_lists
from saferank.safety.drawing import SALT, draw_query
from saferank.safety.guard import Guard
from saferank.safety.one_query import ServedList
from saferank.scorers.networks import NetworkScorer
from saferank.serving.endpoint.ranking_requests import Id, RankingRequest
from saferank.serving.rankings import Serving


@dataclass(frozen=True, eq=False)
class Shown:
    """What was shown for a request, as it is answered and logged."""

    doc_ids: list[Id]
    scores: Floats
    arm: str
    share: float
    propensities: list[float | None]


@dataclass(frozen=True, eq=False)
class ServedRun:
    """A saved ranker with all that was certified of how it is served."""

    serving: Serving
    production: Ranker | None = None
    """Production's ranker, where it scores by features; else requests carry its scores."""

    @classmethod
    def load(
        cls, run: str | Path, *, production: str | Path | None = None, uncertified: bool = False
    ) -> ServedRun:
        """Read a run; one that is not certified to be shipped is refused unless `uncertified`."""
        serving = Serving.of_run(run)
        certified = serving.certified
        if certified is None and not uncertified:
            raise InputError(
                f"`{run}` must be certified to be served: run `saferank certify RUN --items ITEMS` "
                "first, or give --uncertified."
            )
        if certified is not None and not certified.decision.ship and not uncertified:
            raise InputError(
                f"`{run}` was found not fit to be shipped; --uncertified serves it all the same. "
                f"The verdict: {certified.decision.sentence}"
            )
        if certified is not None and certified.guarded:
            serving = replace(serving, guard=True)
            if certified.certificate.promise.has_floors:
                raise InputError(
                    "`run` was certified with floors for groups, and requests name no groups: "
                    "serve it with `saferank rank --guard --group COLUMN`."
                )
        ranker = None if production is None else Ranker.load(production)
        served = cls(serving, ranker)
        if serving.guard and served.guard.production_kind != "uniform":
            lists = served.guard.needs_lists
            serving.check_production(ranker, lists_given=lists)
        return served

    @cached_property
    def guard(self) -> Guard:
        """The guard that was certified; scores are given to it."""
        return self.serving.guarded(None)

    @property
    def ranker(self) -> Ranker:
        """The ranker."""
        return self.serving.ranker

    @cached_property
    def fingerprint(self) -> str:
        """A name for what the ranker computes."""
        return self.ranker.fingerprint()

    @property
    def way(self) -> str:
        """How rankings are made, in words."""
        if not self.serving.guard:
            return self.serving.deployed
        guard = self.guard
        text = "share that keeps the promise" if guard.blind else f"guard, {guard.mode}"
        holdout = f", {guard.holdout:.1%} held out" if guard.holdout else ""
        return text + holdout

    def describe(self) -> dict[str, Any]:
        """What requests must bring, for people and programs."""
        features = [{"name": f.name, "kind": f.kind} for f in self.ranker.features.features]
        return {
            "served": self.way, "deployed": self.serving.deployed, "k": self.ranker.k,
            "fingerprint": self.fingerprint, "features": features, "needs": self.needs,
            "verdict": None if self.serving.certified is None
            else self.serving.certified.decision.sentence,
        }  # fmt: skip

    @property
    def needs(self) -> list[str]:
        """What requests must have of production: its score or its rank of each document."""
        lists = self.serving.guard and self.guard.needs_lists
        guarded = self.serving.guard and self.guard.production_kind != "uniform"
        scores = guarded and not lists and self.production is None
        names = {"production": scores or self.ranker.adds_production, "production_rank": lists}
        return [name for name, needed in names.items() if needed]

    def rank(self, request: RankingRequest, session: Id) -> Shown:
        """The documents for a session; the same one always gets the same ranking."""
        with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is refused below
            new = self._scores(request)
        finite = bool(np.isfinite(new).all())
        require(finite, "features", "such that scores are finite", "a score that is not")
        k = min(self.ranker.k if request.k is None else request.k, request.documents)
        if not self.serving.guard:
            positions, chances = self._alone(new, k, session, request.query_id)
            return _shown(request, ServedList(positions, True, 1.0, chances), new)
        old = self._production(request)
        served = self.guard.serve_query(new, old, k, session, request.query_id)
        return _shown(request, served, new if served.is_new else old)

    def _alone(self, new: Floats, k: int, session: Id, query: Id) -> tuple[Ints, Floats]:
        """A ranking without a guard, and P(document at rank) of each."""
        way = self.serving.deployed
        positions = draw_query(new, way, k, (SALT, session, query))
        if way == "sorted":
            return positions, np.ones(k)
        table = chances_of_lists(new, k, np.array([0, new.size]), in_order=False)
        return positions, table[positions, np.arange(k)]

    @cached_property
    def _quick(self) -> Ranker:
        """The ranker, with what does not change from request to request made beforehand."""
        scorer, scaling = self.ranker.scorer, self.ranker.scaling
        if not isinstance(scorer, NetworkScorer) or scorer.hidden is None:
            return self.ranker
        standard = scaling.as_standard()
        own = scaling if standard is None else Scaling("none", scaling.width)
        return replace(self.ranker, scorer=scorer.prepare(standard), scaling=own)

    @cached_property
    def _only_numbers(self) -> bool:
        return all(feature.kind in NUMBERS for feature in self.ranker.features.features)

    def _scores(self, request: RankingRequest) -> Floats:
        features = request.features
        if isinstance(features, pa.Table):
            return self.ranker.scores(self._named(request, features))
        width = self.ranker.scaling.width
        fits = features.shape[1] == width
        require(fits, "features", f"{width} per document, as the ranker has", features.shape[1])
        plain = self._only_numbers
        require(plain, "features", "columns by name: the ranker knows categories or dates", "lists")
        cuts = np.array([0, request.documents])
        return self._quick.score_matrix(features, cuts, request.production)

    def _data(self, request: RankingRequest) -> RankingData:
        if isinstance(request.features, pa.Table):
            return self._named(request, request.features)
        cuts, schema = np.array([0, request.documents]), self.ranker.features
        return RankingData(request.features, cuts, production=request.production, schema=schema)

    def _named(self, request: RankingRequest, table: pa.Table) -> RankingData:
        """Features by name, of the kinds and with the categories that the ranker knows."""
        columns = {name: table[name] for name in table.column_names}
        count = request.documents
        own: dict[str, Any] = {"query_id": np.zeros(count, np.int64), "doc_id": np.arange(count)}
        if request.production is not None:
            own["production_score"] = request.production
        taken = sorted({*own, "label", "production_score"} & set(columns))
        require(not taken, "features", f"without a column `{', '.join(taken)}`", "one")
        return self.ranker.read_items(pa.table(columns | own))

    def _production(self, request: RankingRequest) -> Floats:
        """Production's scores, by which its arm is made."""
        if self.guard.production_kind == "uniform":
            return np.zeros(request.documents)
        if self.guard.needs_lists:
            ranks = request.production_rank
            if ranks is None:
                raise InputError(
                    "`production_rank` must be given: the guard needs the list that production "
                    "made (its rank of each document from 1, null where it is not listed)."
                )
            return scores_of_ranks(ranks)
        if self.production is not None:
            return self.production.scores(self._data(request))
        if request.production is None:
            raise InputError(
                "`production` must be given: the guard needs production's score of each document."
            )
        return request.production

    def warm_up(self) -> None:
        """Compile what serving needs, before the first request waits for it."""
        schema = self.ranker.features
        features = pa.table(
            {f.name: pa.array(["", ""] if f.kind == "category" else [0.0, 1.0])
             for f in schema.features if f.kind != "date"}
        )  # fmt: skip
        dates = [f.name for f in schema.features if f.kind == "date"]
        for name in dates:
            features = features.append_column(name, pa.array([0, 1], pa.date32()))
        asked = RankingRequest(
            "", "", ["a", "b"], features, production=np.array([1.0, 0.0]),
            production_rank=np.array([1.0, np.nan]),
        )  # fmt: skip
        for session in range(8):
            self.rank(asked, session)


def scores_of_ranks(ranks: Floats) -> Floats:
    """Scores that sort documents as production ranked them; NaN comes after those, in order."""
    listed = ~np.isnan(ranks)
    sane = bool(listed.any() and np.all(ranks[listed] >= 1))
    require(sane, "production_rank", "from 1, of at least one document", ranks[listed][:3].tolist())
    different = bool(np.unique(ranks[listed]).size == listed.sum())
    require(different, "production_rank", "one document at a rank", "two at one")
    return np.where(listed, -ranks, -float(ranks[listed].max()) - 1)


def _shown(request: RankingRequest, served: ServedList, scores: Floats) -> Shown:
    positions = served.positions
    chances: list[float | None] = [None] * positions.size
    if served.propensities is not None:
        chances[: served.propensities.size] = served.propensities.tolist()
    return Shown(
        [request.doc_ids[place] for place in positions.tolist()],
        scores[positions],
        "new" if served.is_new else "production",
        served.share,
        chances,
    )
