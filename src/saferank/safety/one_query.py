"""One query at a time: from scores to the ranking of a session, without the data around it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saferank._core.flat import Floats, Ints
from saferank.errors import require
from saferank.evaluation.scored_policies import Deployed
from saferank.plackett_luce import nodes
from saferank.plackett_luce.exact import TOLERANCE as EXACT
from saferank.plackett_luce.exact import deterministic_exposure
from saferank.plackett_luce.exposures import exposures
from saferank.policies.production import chances_of_lists
from saferank.safety.drawing import draw_by_table, draw_decomposed, draw_query, uniforms
from saferank.safety.guarded import GuardRule
from saferank.safety.losses import TOLERANCE, mixing_shares


@dataclass(frozen=True, eq=False)
class OneQuery:
    """Scores of the new ranker and of production for the documents of one query."""

    new: Floats
    old: Floats
    ways: tuple[Deployed, Deployed]
    rule: GuardRule

    def __post_init__(self) -> None:
        require(self.new.shape == self.old.shape, "production", "as long as new", self.old.shape)
        require(self.new.ndim == 1 and self.new.size > 0, "new", "one score per document", 0)
        finite = bool(np.isfinite(self.new).all() and np.isfinite(self.old).all())
        require(finite, "scores", "finite", "a value that is not")

    @property
    def cuts(self) -> Ints:
        """Offsets of the query alone."""
        return np.array([0, self.new.size])

    def rank(self, k: int, salt: str, session: str | int, query: object) -> Ints:
        """The first k documents for a session; the same as `Guard.rank` of the query in data."""
        if self.rule.mode != "best":
            chance, least = uniforms(salt, session, query)[0], self.rule.least_share
            if chance < least or chance < self.share():
                return draw_query(self.new, self.ways[0], k, (salt, session, query))
            return draw_query(self.old, self.ways[1], k, (salt, session, query))
        ranking = np.full(min(k, self.new.size), -1, dtype=np.int64)
        looking, (new, old) = self.rule.examination, self._tables()
        gains = looking.exposure(new)
        if looking.every:
            table = self.rule.best_table(gains, old, self.cuts)
            chance = uniforms(salt, session, query, 1 + table.shape[1])
            draw_by_table(table, gains, chance, ranking)
        else:
            best = self.rule.best(gains, looking.exposure(old), self.cuts)
            chance = uniforms(salt, session, query)
            draw_decomposed(best, gains, looking.weights, chance[0], ranking)
        return ranking

    def share(self) -> float:
        """The new ranker's share of the sessions."""
        promise, looking = self.rule.promise, self.rule.examination
        if self.rule.blind:
            return self.rule.least_share
        if looking.every:
            return float(self.rule.serve(*self._tables(), self.cuts).kept[0])
        omega, omega0 = self._exposures()
        weights = looking.weights
        allowed = promise.slack * weights[: self.new.size].sum() + TOLERANCE * weights.max()
        return float(mixing_shares(omega, omega0, self.cuts, np.array([allowed]), promise.keep)[0])

    def _exposures(self) -> tuple[Floats, Floats]:
        """Exposures by new ranker and production; both at once where both sample."""
        weights, size = self.rule.examination.weights, self.new.size
        if self.ways == ("sampled", "sampled"):
            both = np.concatenate([self.new, self.old])
            cuts = np.array([0, size, 2 * size])
            omega = exposures(both, weights, cuts, nodes.grid(EXACT, weights.size, 0))
            return omega[:size], omega[size:]
        each = [
            exposures(scores, weights, self.cuts, nodes.grid(EXACT, weights.size, 0))
            if way == "sampled"
            else deterministic_exposure(scores, weights, self.cuts)
            for scores, way in zip((self.new, self.old), self.ways, strict=True)
        ]
        return each[0], each[1]

    def _tables(self) -> tuple[Floats, Floats]:
        """P(document at rank) by new ranker and production; both at once where both sample."""
        ranks, size = self.rule.examination.weights.size, self.new.size
        if self.ways == ("sampled", "sampled"):
            both = np.concatenate([self.new, self.old])
            cuts = np.array([0, size, 2 * size])
            table = chances_of_lists(both, ranks, cuts, in_order=False)
            return table[:size], table[size:]
        new, old = (
            chances_of_lists(scores, ranks, self.cuts, in_order=way == "sorted")
            for scores, way in zip((self.new, self.old), self.ways, strict=True)
        )
        return new, old
