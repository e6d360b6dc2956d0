"""Policies by their scores: a ranker, one score per document, or a function of the data.

Data is taken some queries at a time, so that what is computed of it needs no more memory for more
queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank.data import RankingData
from saferank.errors import InputError, require
from saferank.learning import Ranker
from saferank.learning.recipe import check_rank_weights
from saferank.metrics import dcg_weights
from saferank.policies import ProductionPolicy
from saferank.policies.production import exposure_of_lists

Policy = Ranker | Callable[[RankingData], npt.ArrayLike] | npt.ArrayLike
Deployed = Literal["sampled", "sorted"]
"""Rankings drawn from Plackett-Luce over the scores, or sorted by them."""

DOCUMENTS_AT_A_TIME = 1 << 16


@dataclass(frozen=True, eq=False)
class DataBlock:
    """Some queries of the data: which, where their documents are, and they themselves."""

    queries: Ints
    positions: Ints | slice
    data: RankingData


def data_blocks(data: RankingData, documents: int = DOCUMENTS_AT_A_TIME) -> Iterator[DataBlock]:
    """The data from its first query to its last, about `documents` at a time, without copying."""
    for first, last in flat.query_ranges(data.offsets, documents):
        yield _slice(data, first, last)


def _slice(data: RankingData, first: int, last: int) -> DataBlock:
    if (first, last) == (0, data.queries) and data.labels is None:
        return DataBlock(np.arange(last), slice(0, data.documents), data)
    cuts = data.offsets[first : last + 1]
    documents = slice(int(cuts[0]), int(cuts[-1]))

    def of(values: flat.Array | None) -> flat.Array | None:
        return None if values is None else values[documents]

    view = RankingData(
        data.features[documents],
        cuts - cuts[0],
        doc_ids=of(data.doc_ids),
        query_ids=None if data.query_ids is None else data.query_ids[first:last],
        production=of(data.production),
        schema=data.schema,
        groups=None if data.groups is None else data.groups.take(documents),
    )
    return DataBlock(np.arange(first, last), documents, view)


def chosen(data: RankingData, queries: npt.ArrayLike) -> DataBlock:
    """The given queries, in the given order."""
    wanted = np.asarray(queries, dtype=np.int64)
    positions, _ = flat.gather(data.offsets, wanted)
    return DataBlock(wanted, positions, data.subset(wanted))


def check_policy(policy: Policy | None, data: RankingData, name: str) -> Policy:
    """The policy, its scores checked where it is an array; None: production's in the data."""
    if policy is None:
        if data.production is None:
            raise InputError(f"`{name}` must be given: the items have no production_score.")
        return data.production
    if isinstance(policy, Ranker) or callable(policy):
        return policy
    return flat.check_values(name, policy, data.offsets)


def scores_of(policy: Policy, part: DataBlock, name: str = "scores") -> Floats:
    """One score per document of the part."""
    if isinstance(policy, Ranker):
        return policy.scores(part.data)
    if callable(policy):
        return flat.check_values(name, policy(part.data), part.data.offsets)
    return np.ascontiguousarray(np.asarray(policy, dtype=np.float64)[part.positions])


def all_scores(policy: Policy, data: RankingData, name: str = "scores") -> Floats:
    """One score per document of the data, some queries at a time."""
    scores = np.empty(data.documents)
    for part in data_blocks(data):
        scores[part.positions] = scores_of(policy, part, name)
    return scores


def exposure_of(
    scores: Floats,
    weights: Floats,
    offsets: Ints,
    deployed: Deployed,
    filled: Floats | None = None,
) -> Floats:
    """Exposure of each document under the way in which scores become rankings.

    `filled` is production's, where its lists are not always full: the new ranker's are as long.
    """
    require(deployed in ("sampled", "sorted"), "deployed", "'sampled' or 'sorted'", deployed)
    return exposure_of_lists(scores, weights, offsets, in_order=deployed == "sorted", filled=filled)


def rank_weights(weights: npt.ArrayLike | None, *policies: object) -> Floats:
    """Weights as given, else those that the first ranker learned with, else DCG's of 5 ranks."""
    if weights is None:
        rankers = [policy for policy in policies if isinstance(policy, Ranker)]
        weights = rankers[0].provenance.weights if rankers else dcg_weights(5)
    vector = check_rank_weights(weights)
    require(bool(vector.any()), "weights", "positive at some rank", vector)
    return vector


def production_policy(
    production: Policy | ProductionPolicy | None, data: RankingData, deployed: Deployed = "sampled"
) -> ProductionPolicy:
    """What production does: its policy as it is, or its scores drawn from (or sorted by)."""
    if isinstance(production, ProductionPolicy):
        same = np.array_equal(production.offsets, data.offsets)
        require(same, "production", f"a policy on the data's documents ({data!r})", production.kind)
        return production
    scores = all_scores(check_policy(production, data, "production"), data, "production")
    make = ProductionPolicy.sampled if deployed == "sampled" else ProductionPolicy.sorted
    return make(scores, data.offsets)


def production_exposure(
    production: Policy | ProductionPolicy | None,
    data: RankingData,
    weights: Floats,
    deployed: Deployed,
) -> Floats:
    """Production's exposures: of its policy, or of scores deployed as the new ranker's are."""
    return production_policy(production, data, deployed).exposure(weights)


def query_shares(traffic: npt.ArrayLike | None, queries: int) -> Floats:
    """Each query's share of the traffic; equal shares where it is not known."""
    if traffic is None:
        return np.full(queries, 1 / max(queries, 1))
    sessions = np.asarray(traffic, dtype=np.float64)
    require(sessions.shape == (queries,), "traffic", f"{queries} values", sessions.shape)
    sane = np.isfinite(sessions) & (sessions >= 0)
    flat.require_each(sane, "traffic", "finite and at least 0", sessions)
    total = float(sessions.sum())
    require(total > 0, "traffic", f"positive for one of the {queries} queries", total)
    share: Floats = sessions / sessions.sum()
    return share
