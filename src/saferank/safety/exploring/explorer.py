"""Serves production's lists with moves: rankings for sessions, and the propensities to log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank.data import RankingData
from saferank.errors import require
from saferank.evaluation.scored_policies import (
    DataBlock,
    Policy,
    check_policy,
    data_blocks,
    scores_of,
)
from saferank.policies import ProductionPolicy
from saferank.policies.production import chances_of_lists
from saferank.safety.drawing import SALT, draw_query
from saferank.safety.exploring.moves import Moves

Serves = Literal["sorted", "sampled"]


@dataclass(frozen=True, eq=False)
class Explorer:
    """Serves production's lists, in which documents change places by chance.

    It is served as a `Guard` is: the same session always sees the same ranking, and the
    probabilities of what is served are exact.

    Parameters
    ----------
    moves
        With which probability a place of production's list is shown at a rank.
    production
        Production's ranker, a function of the data or scores; by default the production_score.
    production_kind
        "sorted" or "sampled": what production does with its scores. Lists that production made are
        sorted by scores that sort so.
    production_temperature
        What sampled scores are divided by.
    salt
        Two explorers with different salts choose independently of each other.

    Examples
    --------
    >>> items = RankingData(np.eye(3), offsets=[0, 3], production=[3.0, 2.0, 1.0])
    >>> explorer = Explorer(Moves.of_swaps(np.array([[0.0, 0.1], [0.0, 0.0]]), 2))
    >>> explorer.propensities(items)
    array([[0.9, 0.1],
           [0.1, 0.9],
           [0. , 0. ]])
    >>> explorer.rank(items, 3, session="a").shape
    (1, 3)
    """

    moves: Moves
    production: Policy | None = None
    production_kind: Serves = "sorted"
    production_temperature: float = 1.0
    salt: str = SALT

    def __post_init__(self) -> None:
        sane = self.production_kind in ("sorted", "sampled")
        require(sane, "production_kind", "sorted or sampled", self.production_kind)
        temperature = self.production_temperature
        require(0 < temperature < np.inf, "production_temperature", "positive", temperature)

    def propensities(self, data: RankingData) -> Floats:
        """P(document at rank) of what is served, exactly: documents x K."""
        policy = check_policy(self.production, data, "production")
        table = np.zeros((data.documents, self.moves.k))
        for part in data_blocks(data):
            scores = scores_of(policy, part, "production") / self.production_temperature
            in_order = self.production_kind == "sorted"
            make = ProductionPolicy.sorted if in_order else ProductionPolicy.sampled
            table[part.positions] = self.table(part, make(scores, part.data.offsets))
        return table

    def table(self, part: DataBlock, production: ProductionPolicy) -> Floats:
        """P(document at rank) of some queries, by what production does there."""
        return moved(self.moves, production, part.data.offsets)

    def exposure(self, data: RankingData, weights: npt.ArrayLike) -> Floats:
        """Exposure of each document with the given rank weights."""
        omega: Floats = self.propensities(data) @ np.asarray(weights, dtype=np.float64)
        return omega

    def rank(self, data: RankingData, k: int, session: str | int) -> Ints:
        """Positions of the first k documents of each query for one session; -1 past the end."""
        policy = check_policy(self.production, data, "production")
        rankings = np.full((data.queries, k), -1, dtype=np.int64)
        for part in data_blocks(data):
            scores = scores_of(policy, part, "production")
            start = data.offsets[part.queries[0]]
            for index, (query, name) in enumerate(
                zip(part.queries.tolist(), part.data.ids()[0], strict=True)
            ):
                first, last = part.data.offsets[index], part.data.offsets[index + 1]
                if last > first:
                    own = self.rank_query(scores[first:last], k, session, name)
                    rankings[query, : own.size] = start + first + own
        return rankings

    def rank_query(
        self, production: npt.ArrayLike, k: int, session: str | int, query: object
    ) -> Ints:
        """The first k documents of one query for one session, from production's scores of it."""
        require(k >= 1, "k", "at least 1", k)
        scores = np.ascontiguousarray(production, dtype=np.float64) / self.production_temperature
        words = (f"{self.salt}/list", session, query)
        order = draw_query(scores, self.production_kind, scores.size, words)
        return self.moves.rank(order, k, (self.salt, session, query))


def moved(moves: Moves, production: ProductionPolicy, offsets: Ints) -> Floats:
    """P(document at rank) of production's lists with moves."""
    sizes = flat.repeat_per_document(flat.sizes(offsets), offsets)
    places = min(moves.places, int(sizes.max(initial=1)))
    if production.table is not None:
        return moves.table(production.table, np.minimum(sizes, production.table.shape[1]))
    assert production.scores is not None
    in_order = production.kind == "sorted"
    return moves.table(
        chances_of_lists(production.scores, places, offsets, in_order=in_order), sizes
    )
