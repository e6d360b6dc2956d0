"""Rankings of an exploration plan: production's lists with chance, and the propensities to log."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from saferank._core.flat import Floats, Ints
from saferank.data import RankingData
from saferank.errors import InputError, require
from saferank.evaluation.scored_policies import all_scores, check_policy
from saferank.safety.exploring import ExplorationPlan, Explorer
from saferank.safety.exploring.plan import ITEMS, LISTS
from saferank.safety.guard import Guard
from saferank.serving.rankings import ShownRows, session_pairs, with_sessions


def explored_rankings(
    plan: ExplorationPlan,
    data: RankingData,
    production_from: str,
    *,
    k: int | None = None,
    session: str | None = None,
    sessions: pa.Table | None = None,
) -> tuple[pa.Table, list[str]]:
    """Rankings as a table, with the propensity of each document at its rank, and notes.

    The data have production's scores, and `production_from` says where they come from. With
    `sessions` every row of it gets a ranking of its query (column `session_id`); else every query
    gets one, drawn for `session`.
    """
    length = plan.k if k is None else k
    require(length >= 1, "k", "at least 1", length)
    _check_production(plan, production_from)
    scores = all_scores(check_policy(None, data, "production"), data, "production")
    policy = plan.policy(scores, data)
    notes = [f"What is served: {plan.chosen}. {plan.outlook.sentence}"]
    if length < plan.k:
        notes.append(
            f"Warning: the plan is of lists of {plan.k}, and only {length} ranks are here."
        )
    if sessions is None and session is None:
        notes.append(
            "This is a single draw per query: what is served is random. Give --session for one "
            "user, or --sessions for many."
        )
    if sessions is None:
        queries, names = np.arange(data.queries), [session or "0"] * data.queries
    else:
        queries, names = session_pairs(data, sessions)
    longest = min(length, int(data.sizes.max(initial=1)))
    ids = np.asarray(data.ids()[0])[queries].tolist()
    rankings = [
        _rank(policy, scores, data, query, longest, own, name)
        for query, own, name in zip(queries.tolist(), names, ids, strict=True)
    ]
    shown = ShownRows.of(data, queries, rankings)
    columns = shown.columns(scores[shown.positions])
    columns["propensity"] = shown.at_ranks(policy.propensities(data))
    table = pa.table(columns)
    if sessions is None:
        return table, notes
    return with_sessions(table, names, data.sizes[queries], longest), notes


def _rank(
    policy: Explorer | Guard, scores: Floats, data: RankingData, query: int, k: int, session: str,
    name: object,
) -> Ints:  # fmt: skip
    """Positions for one session."""
    first, last = data.offsets[query], data.offsets[query + 1]
    if first == last:
        return np.zeros(0, dtype=np.int64)
    own = scores[first:last]
    if isinstance(policy, Explorer):
        ranking = policy.rank_query(own, k, session, name)
    else:
        new = np.asarray(policy.new, dtype=np.float64)[first:last]
        ranking = policy.rank_query(new, own, k, session, name)
    return ranking + int(first)


def _check_production(plan: ExplorationPlan, production_from: str) -> None:
    """Refuse another production than the one that the plan was made for."""
    if production_from == plan.production_from:
        return
    wanted = {
        LISTS: "production's lists (a table of query_id, doc_id, rank)",
        ITEMS: "left out: the plan goes by the production_score of the items",
    }.get(plan.production_from, "the ranker that the plan was made with")
    raise InputError(f"`--production` must be {wanted}.")
