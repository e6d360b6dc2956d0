"""The world of the study of rounds: users, relevance that may drift, and the truth of a policy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats
from saferank._core.seeds import generator
from saferank.clicks import ClickModel, Users
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.policies import ProductionPolicy
from saferank.policies.production import total_weights
from saferank.safety.drawing import rank_by_table
from saferank.safety.promise import Promise

JUDGE = 0.2
"""Share of the sessions to judge by."""


@dataclass(frozen=True, eq=False)
class RoundsWorld:
    """Queries, users who click, what the learner believes of them, and the first production."""

    items: RankingData
    relevance: Floats
    """Of each document, in [0, 1]."""
    users: Users
    click_model: ClickModel
    production: ProductionPolicy
    scores: Floats
    """Production's."""
    sessions: int
    """Per round."""
    seed: int
    drifts_at: int | None = None
    """The round from which half of the queries have another relevance."""

    def drifted(self, number: int) -> bool:
        """Whether a round comes after the drift."""
        return self.drifts_at is not None and number >= self.drifts_at

    def truth(self, number: int) -> Floats:
        """Relevance in a round: after the drift, that of half of the queries is dealt anew."""
        if not self.drifted(number):
            return self.relevance
        rng = generator(self.seed, "drift")
        changed = self.relevance.copy()
        for query in np.flatnonzero(rng.random(self.items.queries) < 0.5):
            first, last = self.items.offsets[query], self.items.offsets[query + 1]
            changed[first:last] = rng.permutation(changed[first:last])
        return changed

    def simulate(self, served: ProductionPolicy, number: int) -> Counts:
        """Sessions of a round, in parts: rankings drawn from what is served, and their clicks."""
        rng = generator(self.seed, "round", number)
        k = self.click_model.ranks
        queries = np.sort(rng.integers(self.items.queries, size=self.sessions))
        positions, offsets = flat.gather(self.items.offsets, queries)
        drawn = rank_by_table(
            served.rank_probabilities(k)[positions], np.zeros(positions.size), offsets,
            rng.random((self.sessions, 1 + k)), k,
        )  # fmt: skip
        documents = np.where(drawn >= 0, positions[drawn], -1)
        clicked = self.click(documents, self.chances(number), rng)
        judge = rng.random(self.sessions) < JUDGE
        parts = (
            self._counted(documents[part], clicked[part], queries[part]) for part in (~judge, judge)
        )
        return Counts.of_parts(*parts)

    def chances(self, number: int) -> Floats:
        """P(click) of each document at each rank in a round, where it is looked at."""
        return self.users.probability(self.truth(number))

    def click(
        self, documents: flat.Ints, chance: Floats, rng: np.random.Generator
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Whether users click what they are shown, sessions x ranks, by a round's `chances`."""
        clicked = np.zeros(documents.shape, dtype=np.bool_)
        looking = np.ones(len(documents), dtype=np.bool_)
        patience = self.users.patience
        for rank in range(documents.shape[1]):
            there = looking & (documents[:, rank] >= 0)
            own = chance[documents[:, rank], rank]
            clicked[:, rank] = there & (rng.random(len(documents)) < own)
            if patience is not None:
                on = np.where(
                    clicked[:, rank], patience.after_click[rank], patience.after_skip[rank]
                )
                looking = there & (rng.random(len(documents)) < on)
        return clicked

    def _counted(self, documents: flat.Ints, clicked: flat.Array, queries: flat.Ints) -> Counts:
        shown, got = np.zeros((2, self.items.documents, documents.shape[1]), dtype=np.int64)
        for rank in range(documents.shape[1]):
            there = documents[:, rank] >= 0
            np.add.at(shown[:, rank], documents[there, rank], 1)
            np.add.at(got[:, rank], documents[there & clicked[:, rank], rank], 1)
        sessions = np.bincount(queries, minlength=self.items.queries)
        return Counts(self.items.offsets, shown, got, sessions)

    def utilities(self, policy: ProductionPolicy, number: int) -> Floats:
        """True utility of a policy on each query, in a round."""
        omega = policy.exposure(self.click_model.exposure_weights)
        return flat.query_sums(omega * self.truth(number), self.items.offsets)

    def broken(self, policy: ProductionPolicy, number: int, promise: Promise) -> int:
        """Queries whose true utility is below what is promised against the first production."""
        totals = total_weights(self.items.offsets, self.click_model.exposure_weights)
        least = promise.keep * self.utilities(self.production, number) - promise.slack * totals
        return int(np.count_nonzero(self.utilities(policy, number) < least - 1e-7))
