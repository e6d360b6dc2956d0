"""Some queries behind a guard at a time: what is served of them, and rankings for a session."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saferank._core.flat import Floats, Ints
from saferank.data import RankingData
from saferank.evaluation.scored_policies import DataBlock
from saferank.safety.drawing import chances, rank_by_table, rank_decomposed
from saferank.safety.guarded import Guarded, GuardRule


@dataclass(frozen=True, eq=False)
class Block:
    """Some queries: P(document at rank) of the new ranker and of production, and gains.

    Or exposures, where the rule's examination goes by them: nothing is drawn from those.
    """

    part: DataBlock
    rule: GuardRule
    new: Floats
    old: Floats
    gains: Floats

    def serve(self) -> Guarded:
        """What the guard makes of them."""
        offsets = self.part.data.offsets
        return self.rule.serve(
            self.new, self.old, offsets, gains=self.gains, groups=self.part.data.group_codes
        )

    def draw(self, salt: str, session: str | int, k: int) -> Ints:
        """Rankings of the best policy for one session, as positions in the part."""
        offsets, looking = self.part.data.offsets, self.rule.examination
        groups = self.part.data.group_codes
        if looking.every:
            chance = chances(self.part.data, salt, session, 1 + looking.weights.size)
            table = self.rule.best_table(self.gains, self.old, offsets, groups)
            return rank_by_table(table, self.gains, offsets, chance, k)
        omega = self.rule.best(self.gains, looking.exposure(self.old), offsets, groups)
        chance = chances(self.part.data, salt, session)
        return rank_decomposed(omega, self.gains, offsets, looking.weights, chance, k)


def join(rankings: list[Ints], data: RankingData, k: int) -> Ints:
    """Rankings of the parts of the data, one after another, as positions in the data."""
    joined, first = np.full((data.queries, k), -1, dtype=np.int64), 0
    for own in rankings:
        start = data.offsets[first]
        joined[first : first + len(own)] = np.where(own >= 0, own + start, -1)
        first += len(own)
    return joined
