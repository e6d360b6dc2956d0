"""Serve what was certified: promise, weights and ways of ranking come from the run's assessment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from saferank._core import flat
from saferank._core.flat import Array, Floats
from saferank.data import RankingData
from saferank.errors import InputError, require
from saferank.evaluation.scored_policies import Deployed, Policy
from saferank.learning import Ranker
from saferank.learning.ranked_lists import ranking_table
from saferank.safety.assessment import FILE, Assessment
from saferank.safety.drawing import draw
from saferank.safety.guard import Guard
from saferank.safety.guarded import Mode


@dataclass(frozen=True, eq=False)
class Serving:
    """A saved ranker as it was certified to be served."""

    ranker: Ranker
    deployed: Deployed
    certified: Assessment | None
    guard: bool

    @classmethod
    def of_run(
        cls,
        run: str | Path,
        *,
        guard: bool = False,
        keep: float | None = None,
        slack: float | None = None,
        deployed: Deployed | None = None,
        mode: str | None = None,
    ) -> Serving:
        """The run's ranker; an option that differs from what was certified is refused."""
        ranker = Ranker.load(run)
        certified = Assessment.load(run) if (Path(run) / FILE).is_file() else None
        if guard and certified is None:
            raise InputError(
                "`--guard` serves what was certified, and this run was not: run `saferank certify "
                "RUN --items ITEMS --guard` first."
            )
        if certified is None:
            require(keep is None and slack is None, "keep and slack", "given with --guard", keep)
            return cls(ranker, deployed or "sampled", None, False)
        certificate = certified.certificate
        for name, asked, was in (
            ("keep", keep, certificate.promise.keep),
            ("slack", slack, certificate.promise.slack),
            ("deployment", deployed, certificate.deployed),
            ("guard-mode", mode, certificate.guard_mode),
        ):
            if asked is not None and asked != was:
                raise InputError(
                    f"`{name}` {asked} differs from what was certified ({was}): leave it out, or "
                    f"run `saferank certify` with it first."
                )
        return cls(ranker, certificate.deployed, certified, guard)

    def warnings(self) -> list[str]:
        """Where what is served is not what was found fit to be shipped."""
        certified = self.certified
        if certified is None:
            return []
        if not certified.decision.ship:
            return [f"Warning: the last verdict on this run is: {certified.decision.sentence}"]
        if certified.decision.guard is not None and not self.guard:
            return ["Warning: this run was found fit to be shipped with the guard: give --guard."]
        return []

    def guarded(self, production: Policy | None) -> Guard:
        """The guard that was certified, around this ranker."""
        assert self.certified is not None
        certificate, fit = self.certified.certificate, self.certified.fit
        temperature = None if fit is None or fit.kind != "sampled" else fit.temperature
        mode: Mode = "best" if certificate.guard_mode == "best" else "mix"
        return Guard(
            self.ranker, production, certificate.promise,
            weights=certificate.weights, deployed=certificate.deployed, mode=mode,
            examination="any" if certificate.examination == "any" else "fitted",
            production_kind=certificate.production_kind,
            production_temperature=1.0 if temperature is None else temperature,
        )  # fmt: skip


def read_sessions(path: str | Path) -> pa.Table:
    """A table of `query_id, session_id`: who is to get a ranking of which query."""
    from saferank.data.table_files import read_table

    table = read_table(path)
    lacking = [name for name in ("query_id", "session_id") if name not in table.column_names]
    require(not lacking, str(path), "a table of query_id and session_id", table.column_names)
    return table


def scores_of_lists(table: pa.Table, data: RankingData) -> Floats:
    """Scores that sort documents as production listed them (`query_id, doc_id, rank`).

    Documents that were not listed come after those that were, in the order of the items.
    """
    names = ("query_id", "doc_id", "rank")
    lacking = [name for name in names if name not in table.column_names]
    require(not lacking, "production's lists", "a table of query_id, doc_id, rank", lacking)
    listed: dict[tuple[str, str], float] = {}
    for query, document, rank in zip(*(table[name].to_pylist() for name in names), strict=True):
        key = (str(query), str(document))
        require(key not in listed, "production's lists", "with each document once per query", key)
        number = isinstance(rank, int | float) and not isinstance(rank, bool) and rank == rank
        require(number, "rank of production's lists", "a number", rank)
        listed[key] = -float(rank)
    query_ids, doc_ids = data.ids()
    queries = np.asarray(query_ids)[flat.query_of(data.offsets)]
    pairs = zip(queries.tolist(), np.asarray(doc_ids).tolist(), strict=True)
    last = min(listed.values(), default=0.0) - 1
    scores = np.array([listed.get((str(q), str(d)), last) for q, d in pairs], dtype=np.float64)
    served = flat.query_sums((scores > last).astype(np.int64), data.offsets)
    if data.queries and int(served.min()) == 0:
        query = query_ids[int(np.argmin(served))]
        raise InputError(f"production's lists must have every query of the items; {query!r} lacks.")
    return scores


def rankings(
    serving: Serving,
    data: RankingData,
    production: Policy | None = None,
    *,
    k: int | None = None,
    session: str | None = None,
    sessions: pa.Table | None = None,
    lists_given: bool = False,
) -> tuple[pa.Table, list[str]]:
    """Rankings as a table, and what a user should know of them.

    `lists_given`: the scores of `production` are those of `scores_of_lists`. With `sessions` every
    row of it gets a ranking of its query (column `session_id`); else every query gets one, drawn
    for `session`.
    """
    length = serving.ranker.k if k is None else k
    require(length >= 1, "k", "at least 1", length)
    length = min(length, int(data.sizes.max(initial=1)))  # all documents, where k is larger
    notes = serving.warnings()
    if production is not None and not isinstance(production, Ranker) and not callable(production):
        # scores travel with the items, so that some queries of them take theirs along
        data = replace(data, production=np.asarray(production, dtype=np.float64))
        production = None
    guard = serving.guarded(production) if serving.guard else None
    if guard is not None and guard.blind and not lists_given:
        raise InputError(
            "`--guard` needs the lists that production made (--production LISTS, a table of "
            "query_id, doc_id, rank): what production does is known from the log only, and no "
            "score makes its lists."
        )
    if guard is not None:
        notes.append(guard.report(data).sentence())
    stochastic = guard is not None or serving.deployed == "sampled"
    if sessions is not None:
        return _for_sessions(serving, guard, data, length, sessions), notes
    if stochastic and session is None:
        notes.append(
            "This is a single draw per query: the certified policy is random. Give --session for "
            "one user, or --sessions for many."
        )
    known = _propensities(guard, data)
    return _ranked(serving, guard, data, length, session or "0", known), notes


def _propensities(guard: Guard | None, data: RankingData) -> Floats | None:
    """P(document at rank) of what is served, where it is known."""
    return None if guard is None or guard.blind else guard.propensities(data)


def _ranked(
    serving: Serving,
    guard: Guard | None,
    data: RankingData,
    k: int,
    session: str,
    known: Floats | None,
) -> pa.Table:
    if guard is None:
        scores = serving.ranker.scores(data)
        return ranking_table(data, draw(scores, data, k, session, serving.deployed), scores)
    ranked = guard.rank(data, k, session)
    table = ranking_table(data, ranked, guard.scores(data, session))
    if known is None:
        return table
    query, rank = np.nonzero(ranked >= 0)
    told = rank < known.shape[1]  # beyond the ranks of the promise no probability is known
    chance = known[ranked[query, rank], np.minimum(rank, known.shape[1] - 1)]
    return table.append_column("propensity", pa.array(chance, mask=~told))


def _for_sessions(
    serving: Serving, guard: Guard | None, data: RankingData, k: int, sessions: pa.Table
) -> pa.Table:
    names = data.ids()[0]
    places = {str(name): place for place, name in enumerate(names.tolist())}
    wanted = [str(value) for value in sessions["query_id"].to_pylist()]
    unknown = next((name for name in wanted if name not in places), None)
    require(unknown is None, "query_id of the sessions", "a query of the items", unknown)
    by_session: dict[str, list[int]] = {}
    for query, session in zip(wanted, sessions["session_id"].to_pylist(), strict=True):
        by_session.setdefault(str(session), []).append(places[query])
    tables: list[Any] = []
    known = _propensities(guard, data)
    for session, queries in by_session.items():
        chosen: Array = np.unique(np.asarray(queries, dtype=np.int64))
        own = None if known is None else known[flat.gather(data.offsets, chosen)[0]]
        table = _ranked(serving, guard, data.subset(chosen), k, session, own)
        tables.append(table.append_column("session_id", pa.array([session] * table.num_rows)))
    if tables:
        return pa.concat_tables(tables)
    return _ranked(serving, guard, data, k, "0", known).slice(0, 0)
