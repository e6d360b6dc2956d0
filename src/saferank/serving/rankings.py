"""Serve what was certified: promise, weights and ways of ranking come from the run's assessment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from saferank._core.flat import Floats, Ints
from saferank.data import RankingData
from saferank.errors import InputError, require
from saferank.evaluation.scored_policies import Deployed, Policy, all_scores, check_policy
from saferank.learning import Ranker
from saferank.safety.assessment import FILE, ITEMS, Assessment
from saferank.safety.drawing import SALT, draw_query
from saferank.safety.guard import Guard
from saferank.safety.guarded import mode_of


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
        if guard and certified is not None and not certified.guarded:
            raise InputError(
                "`--guard` serves what was certified, and this run was certified without a guard: "
                "run `saferank certify RUN --items ITEMS --guard` first."
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

    def guarded(self, production: Policy | None, new: Policy | None = None) -> Guard:
        """The guard that was certified, around this ranker (or scores of it)."""
        assert self.certified is not None
        certificate, fit = self.certified.certificate, self.certified.fit
        temperature = None if fit is None or fit.kind != "sampled" else fit.temperature
        return Guard(
            self.ranker if new is None else new, production, certificate.promise,
            weights=certificate.weights, deployed=certificate.deployed,
            mode=mode_of(certificate.guard_mode), holdout=certificate.guard_holdout,
            examination="any" if certificate.examination == "any" else "fitted",
            production_kind=certificate.production_kind,
            production_temperature=1.0 if temperature is None else temperature,
        )  # fmt: skip

    def check_production(self, production: Policy | None, *, lists_given: bool) -> None:
        """Refuse another production than the one that was certified against."""
        assert self.certified is not None
        needs_lists = self.guarded(None).needs_lists
        if needs_lists != lists_given:
            raise InputError(_LISTS if needs_lists else _NO_LISTS)
        was = self.certified.production_from
        now = production.fingerprint() if isinstance(production, Ranker) else ITEMS
        if not lists_given and was is not None and was != now:
            raise InputError(
                "`--production` must be the ranker that this run was certified against."
                if was != ITEMS
                else "`--production` must be left out: this run was certified against the "
                "production_score of the items."
            )

    def check_groups(self, data: RankingData) -> None:
        """Refuse items without the groups whose floors were certified."""
        assert self.certified is not None
        floors = self.certified.certificate.floors
        column = None if data.groups is None else data.groups.column
        if floors is not None and column != floors.column:
            raise InputError(
                f"`--group` must be {floors.column}: floors of its groups were certified."
            )


_LISTS = (
    "`--guard` needs the lists that production made (--production LISTS, a table of query_id, "
    "doc_id, rank): what production does is known from the log only, and no score makes its lists."
)
_NO_LISTS = (
    "`--production` must not be lists: this run was certified against a score that production's "
    "lists are made by, and its guard needs that score."
)


def read_sessions(path: str | Path, columns: Mapping[str, str] | None = None) -> pa.Table:
    """A table of `query_id, session_id`: who is to get a ranking of which query.

    `columns` are the user's own names of these.
    """
    table = read_named(path, columns)
    lacking = [name for name in ("query_id", "session_id") if name not in table.column_names]
    require(not lacking, str(path), "a table of query_id and session_id (or --session-column "
            "NAME=YOURS)", table.column_names)  # fmt: skip
    return table


def read_named(path: str | Path, columns: Mapping[str, str] | None = None) -> pa.Table:
    """A table, its columns called as here where `columns` has the user's own names of them."""
    from saferank.data.table_files import read_table

    table = read_table(path)
    yours = {own: name for name, own in (columns or {}).items() if name not in table.column_names}
    return table.rename_columns([yours.get(name, name) for name in table.column_names])


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
    notes = serving.warnings()
    new, old, guard = serving.ranker.scores(data), None, None
    if serving.guard:
        assert serving.certified is not None
        promised = len(serving.certified.certificate.weights)
        if length < promised:
            notes.append(
                f"Warning: the promise is of lists of {promised}, and only {length} ranks are here."
            )
        serving.check_production(production, lists_given=lists_given)
        serving.check_groups(data)
        if serving.certified.certificate.production_kind != "uniform":
            old = all_scores(check_policy(production, data, "production"), data, "production")
        guard = serving.guarded(old, new)
        notes.append(guard.report(data).sentence())
    length = min(length, int(data.sizes.max(initial=1)))  # all documents, where k is larger
    shown = _Shown(serving, guard, data, new, np.zeros(data.documents) if old is None else old)
    if sessions is not None:
        return shown.for_sessions(length, sessions), notes
    if (guard is not None or serving.deployed == "sampled") and session is None:
        notes.append(
            "This is a single draw per query: the certified policy is random. Give --session for "
            "one user, or --sessions for many."
        )
    every = np.arange(data.queries)
    return shown.table(length, every, [session or "0"] * data.queries), notes


def session_pairs(data: RankingData, sessions: pa.Table) -> tuple[Ints, list[str]]:
    """The query and the session of each ranking that is asked for, each pair once."""
    places = {str(name): place for place, name in enumerate(data.ids()[0].tolist())}
    wanted = [str(value) for value in sessions["query_id"].to_pylist()]
    unknown = next((name for name in wanted if name not in places), None)
    require(unknown is None, "query_id of the sessions", "a query of the items", unknown)
    pairs = dict.fromkeys(zip(wanted, map(str, sessions["session_id"].to_pylist()), strict=True))
    queries = np.array([places[query] for query, _ in pairs], dtype=np.int64)
    return queries, [session for _, session in pairs]


def with_sessions(table: pa.Table, names: Sequence[str], sizes: Ints, k: int) -> pa.Table:
    """Rankings with the session of each of their rows."""
    owner = np.repeat(np.arange(len(names)), np.minimum(sizes, k))
    return table.append_column("session_id", pa.array(np.asarray(names, dtype=object)[owner]))


@dataclass(frozen=True, eq=False)
class ShownRows:
    """Rankings as rows: whose they are, which document, and its rank from 0."""

    data: RankingData
    queries: Ints
    owner: Ints
    positions: Ints
    rank: Ints

    @classmethod
    def of(cls, data: RankingData, queries: Ints, rankings: Sequence[Ints]) -> ShownRows:
        """Of positions of documents, a ranking per query."""
        sizes = [positions.size for positions in rankings]
        nothing = np.zeros(0, dtype=np.int64)
        return cls(
            data,
            queries,
            np.repeat(np.arange(len(rankings)), sizes),
            np.concatenate([nothing, *rankings]),
            np.concatenate([nothing, *(np.arange(size) for size in sizes)]),
        )

    def columns(self, score: Floats) -> dict[str, pa.Array]:
        """The columns that all rankings have."""
        query_ids, doc_ids = self.data.ids()
        return {
            "query_id": pa.array(np.asarray(query_ids)[self.queries][self.owner]),
            "doc_id": pa.array(np.asarray(doc_ids)[self.positions]),
            "rank": pa.array((self.rank + 1).astype(np.int32)),
            "score": pa.array(score),
        }

    def at_ranks(self, propensities: Floats) -> pa.Array:
        """Of each row its probability; missing beyond the ranks of the table."""
        within = self.rank < propensities.shape[1]
        chance = propensities[self.positions, np.minimum(self.rank, propensities.shape[1] - 1)]
        return pa.array(chance, mask=~within)


@dataclass(frozen=True, eq=False)
class _Shown:
    """What is shown to sessions: every score is computed once, however many sessions there are."""

    serving: Serving
    guard: Guard | None
    data: RankingData
    new: Floats
    old: Floats

    def for_sessions(self, k: int, sessions: pa.Table) -> pa.Table:
        """A ranking for each row of `query_id, session_id`, in their order."""
        queries, names = session_pairs(self.data, sessions)
        return with_sessions(self.table(k, queries, names), names, self.data.sizes[queries], k)

    def table(self, k: int, queries: Ints, sessions: Sequence[str]) -> pa.Table:
        """One row per shown document; with a guard also what the next log needs to know."""
        names = np.asarray(self.data.ids()[0])[queries].tolist()
        rows = [self._one(k, *own) for own in zip(queries.tolist(), names, sessions, strict=True)]
        shown = ShownRows.of(self.data, queries, [row[0] for row in rows])
        is_new = np.array([row[1] for row in rows], dtype=np.bool_)[shown.owner]
        columns = shown.columns(
            np.where(is_new, self.new[shown.positions], self.old[shown.positions])
        )
        if self.guard is not None and not self.guard.blind:
            columns["propensity"] = shown.at_ranks(self.guard.propensities(self.data))
        if self.guard is not None and self.guard.mixes:
            columns["arm"] = pa.array(np.where(is_new, "new", "production"))
            columns["share"] = pa.array(np.array([row[2] for row in rows])[shown.owner])
        return pa.table(columns)

    def _one(self, k: int, query: int, name: object, session: str) -> tuple[Ints, bool, float]:
        """Positions for one session, whether they are the new ranker's, and with which chance."""
        first, last = self.data.offsets[query], self.data.offsets[query + 1]
        new, old = self.new[first:last], self.old[first:last]
        if first == last:
            return np.zeros(0, dtype=np.int64), True, 1.0
        if self.guard is None:
            words = (SALT, session, name)
            return first + draw_query(new, self.serving.deployed, k, words), True, 1.0
        groups = None if self.data.groups is None else self.data.groups.codes[first:last]
        ranking = self.guard.rank_query(new, old, k, session, name, groups)
        return first + ranking, *self.guard.arm(new, old, session, name, groups)
