"""One query at a time: from scores to the ranking of a session, without the data around it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saferank._core.flat import Floats, Ints
from saferank.errors import require
from saferank.evaluation.scored_policies import Deployed
from saferank.plackett_luce.exact import TOLERANCE as EXACT
from saferank.plackett_luce.exact import deterministic_exposure
from saferank.plackett_luce.exposures import exposures
from saferank.policies.production import chances_of_lists
from saferank.safety.decomposition import decomposed_tables
from saferank.safety.drawing import draw_by_table, draw_decomposed, draw_query, uniforms
from saferank.safety.guarded import GuardRule
from saferank.safety.losses import TOLERANCE, mixing_shares


def arm_chance(salt: str, session: str | int, query: object, *, apart: bool) -> float:
    """The number in [0, 1) that gives a session the new ranker where it is below its share.

    `apart`: the ranking is drawn with the plain number, so another one chooses.
    """
    return float(uniforms(f"{salt}/holdout" if apart else salt, session, query)[0])


@dataclass(frozen=True, eq=False)
class ServedList:
    """What one session is shown of one query."""

    positions: Ints
    is_new: bool
    """Whether it is the new ranker's (or the best policy's) rather than production's."""
    share: float
    """The chance that it had of being so."""
    propensities: Floats | None
    """P(document at rank) of the served policy as a whole, for the ranks of the promise; None where
    production's are not known."""


@dataclass(frozen=True, eq=False)
class OneQuery:
    """Scores of the new ranker and of production for the documents of one query."""

    new: Floats
    old: Floats
    ways: tuple[Deployed, Deployed]
    rule: GuardRule
    groups: Ints | None = None
    """The group of each document, where the promise has floors for groups."""

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
        words = (salt, session, query)
        if self.rule.mixes:
            chance, least = self._chance(*words), self.rule.least_share
            sure = self.rule.mode != "best" and chance < least
            if not sure and chance >= self.share():
                return draw_query(self.old, self.ways[1], k, words)
        if self.rule.mode != "best":
            return draw_query(self.new, self.ways[0], k, words)
        return self._best(k, *self._tables(), words)[0]

    def serve(self, k: int, salt: str, session: str | int, query: object) -> ServedList:
        """The same with all that a log should know of it."""
        words = (salt, session, query)
        if self.rule.blind:
            share = self.rule.least_share
            is_new = self._chance(*words) < share
            return ServedList(self.rank(k, *words), is_new, share, None)
        new, old = self._tables()
        if self.rule.mode != "best":
            served = self.rule.serve(new, old, self.cuts, groups=self.groups)
            share = float(served.kept[0])
            is_new = self._chance(*words) < share
            scores, way = (self.new, self.ways[0]) if is_new else (self.old, self.ways[1])
            ranking, table = draw_query(scores, way, k, words), served.table
        else:
            share = 1 - self.rule.holdout
            is_new = not self.rule.mixes or self._chance(*words) < share
            ranking, table = self._best(k, new, old, words)
            if not is_new:
                ranking = draw_query(self.old, self.ways[1], k, words)
            table = table if share == 1 else share * table + (1 - share) * old
        ranks = np.arange(min(ranking.size, table.shape[1]))
        return ServedList(ranking, is_new, share, table[ranking[: ranks.size], ranks])

    def _chance(self, salt: str, session: str | int, query: object) -> float:
        return arm_chance(salt, session, query, apart=self.rule.mode == "best")

    def _best(
        self, k: int, new: Floats, old: Floats, words: tuple[str, str | int, object]
    ) -> tuple[Ints, Floats]:
        """A ranking of the best policy, and P(document at rank) of that policy."""
        ranking = np.full(min(k, self.new.size), -1, dtype=np.int64)
        looking = self.rule.examination
        gains = looking.exposure(new)
        if looking.every:
            table = self.rule.best_table(gains, old, self.cuts, self.groups)
            draw_by_table(table, gains, uniforms(*words, 1 + table.shape[1]), ranking)
            return ranking, table
        best = self.rule.best(gains, looking.exposure(old), self.cuts, self.groups)
        draw_decomposed(best, gains, looking.weights, uniforms(*words)[0], ranking)
        return ranking, decomposed_tables(best, gains, self.cuts, looking.weights)

    def share(self) -> float:
        """The new ranker's share of the sessions."""
        promise, looking = self.rule.promise, self.rule.examination
        most = 1 - self.rule.holdout
        if self.rule.mode == "best":
            return most
        if self.rule.blind:
            return self.rule.least_share
        if looking.every or promise.has_floors:
            return float(self.rule.serve(*self._tables(), self.cuts, groups=self.groups).kept[0])
        omega, omega0 = self._exposures()
        weights = looking.weights
        allowed = promise.slack * weights[: self.new.size].sum() + TOLERANCE * weights.max()
        shares = mixing_shares(omega, omega0, self.cuts, np.array([allowed]), promise.keep)
        return min(float(shares[0]), most)

    def _exposures(self) -> tuple[Floats, Floats]:
        """Exposures by new ranker and production; both at once where both sample."""
        weights, size = self.rule.examination.weights, self.new.size
        if self.ways == ("sampled", "sampled"):
            both = np.concatenate([self.new, self.old])
            cuts = np.array([0, size, 2 * size])
            omega = exposures(both, weights, cuts, EXACT)
            return omega[:size], omega[size:]
        each = [
            exposures(scores, weights, self.cuts, EXACT)
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
