"""What could be served for the next log: ways to add chance to production within a promise."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from saferank._core import flat
from saferank._core.flat import Array, Floats, Ints
from saferank.counts import Counts
from saferank.evaluation.scored_policies import DataBlock, Deployed
from saferank.policies import ProductionPolicy
from saferank.policies.production import chances_of_lists
from saferank.safety.exploring.best_moves import Room, best_moves
from saferank.safety.exploring.explorer import moved
from saferank.safety.exploring.moves import Moves
from saferank.safety.guarded import GuardRule, Mode

WARMTHS = (0.1, 0.3, 1.0, 3.0)
"""Temperatures that are tried, in units of how much scores of a query differ."""
_LEAST = math.e
"""Impressions whose logarithm is 1: fewer say no more."""


@dataclass(frozen=True, eq=False)
class Moving:
    """Production's lists with moves."""

    moves: Moves

    def table(self, part: DataBlock, production: ProductionPolicy) -> Floats:
        """P(document at rank)."""
        return moved(self.moves, production, part.data.offsets)


@dataclass(frozen=True, eq=False)
class Guarding:
    """Another ranking beside production, as a guard serves it."""

    scores: Floats
    """One per document of all the data."""
    rule: GuardRule
    deployed: Deployed

    @property
    def mode(self) -> Mode:
        """The guard's."""
        return self.rule.mode

    def table(self, part: DataBlock, production: ProductionPolicy) -> Floats:
        """P(document at rank)."""
        ranks, offsets = self.rule.examination.weights.size, part.data.offsets
        own = np.ascontiguousarray(self.scores[part.positions])
        new = chances_of_lists(own, ranks, offsets, in_order=self.deployed == "sorted")
        return self.rule.serve(new, production.rank_probabilities(ranks), offsets).table


@dataclass(frozen=True, eq=False)
class Candidate:
    """A way to add chance: its name, what it does, and as what it can be served."""

    name: str
    sentence: str
    policy: Moving | Guarding
    temperature: float | None = None


def moving(room: Room, mass: Floats, alpha: Floats, coverage: float) -> Iterator[Candidate]:
    """Candidates that move documents in production's list, the same for every query.

    `mass` is sessions times relevance by place; `coverage` is the share of what could be shown of
    documents beyond the ranks that is asked of the best moves.
    """
    first, second = room.pairs()
    inside = second < room.k
    most = _most_coverage(room)
    if room.k >= 2:
        moves, _ = best_moves(room, mass, alpha, shown=coverage * most)
        yield Candidate("moves", _SAID["moves"], Moving(moves))
        shuffled = room.moves(room.largest(inside.astype(np.float64)))
        yield Candidate("shuffle", _SAID["shuffle"], Moving(shuffled))
        neighbours = room.moves(_row_by_row(room, (second == first + 1) & inside))
        yield Candidate("neighbours", _SAID["neighbours"], Moving(neighbours))
    if room.places > room.k:
        beyond = room.moves(_row_by_row(room, ~inside))
        yield Candidate("coverage", _SAID["coverage"], Moving(beyond))


def _row_by_row(room: Room, chosen: Array) -> Floats:
    """Swaps of the chosen pairs, each place giving up all that it may, evenly."""
    first, second = room.pairs()
    cost = room.cost[first, second] * chosen
    used = np.bincount(first, cost, minlength=room.places)
    share = room.allowed / np.where(used > 0, used, 1.0)
    swaps = np.where(cost > 0, share[first], 0.0)
    rows, bound = room.constraints()
    over = float(np.max(rows @ swaps / bound, initial=0.0))
    result: Floats = swaps / max(over, 1.0)
    return result


def _most_coverage(room: Room) -> float:
    """How often each document beyond the ranks can be shown per session, at most, if all alike."""
    beyond = room.places - room.k
    if beyond == 0:
        return 0.0
    second = room.pairs()[1]
    swaps = _row_by_row(room, second >= room.k)
    return float(swaps.sum() / beyond)


def uniform(rule: GuardRule, documents: int) -> Candidate:
    """Mixing in uniformly random rankings of all documents: what others have to beat."""
    mix = GuardRule(rule.promise, rule.examination, "mix")
    return Candidate("uniform", _SAID["uniform"], Guarding(np.zeros(documents), mix, "sampled"))


def temperatures(rule: GuardRule, scores: Floats, offsets: Ints) -> Iterator[Candidate]:
    """Rankings drawn by production's scores at some temperatures, mixed in."""
    mix = GuardRule(rule.promise, rule.examination, "mix")
    centred = scores - flat.repeat_per_document(
        flat.query_sums(scores, offsets) / np.maximum(flat.sizes(offsets), 1), offsets
    )
    spread = float(np.sqrt(np.mean(centred**2))) if scores.size else 0.0
    for warmth in WARMTHS if spread > 0 else ():
        heat = warmth * spread
        sentence = _SAID["temperature"].format(heat)
        yield Candidate("temperature", sentence, Guarding(scores / heat, mix, "sampled"), heat)


def optimism(counts: Counts, relevance: Floats, alpha: Floats) -> Floats:
    r"""How relevant a document may be: :math:`\hat R + \sqrt{2 \ln N / n}`.

    n is how often the document was examined, N that of all documents of its query.
    """
    examined = counts.impressions[:, : alpha.size] @ alpha
    all_examined = flat.repeat_per_document(
        flat.query_sums(examined, counts.offsets), counts.offsets
    )
    bonus = np.sqrt(2 * np.log(np.maximum(all_examined, _LEAST)) / np.maximum(examined, 0.5))
    hoped: Floats = relevance + bonus
    return hoped


def optimistic(rule: GuardRule, counts: Counts, relevance: Floats, alpha: Floats) -> Candidate:
    """The best policy towards documents that may be relevant."""
    best = GuardRule(rule.promise, rule.examination, "best")
    scores = optimism(counts, relevance, alpha)
    return Candidate("optimistic", _SAID["optimistic"], Guarding(scores, best, "sorted"))


_SAID = {
    "moves": "The moves within production's list that tell most of the examination curve.",
    "shuffle": "In some sessions the shown documents in random order.",
    "neighbours": "Documents swap with the next one in some sessions.",
    "coverage": "Shown documents swap with those that production does not show: the best policy "
    "under the promise for the least shown.",
    "uniform": "In some sessions all documents in random order.",
    "temperature": "In some sessions lists drawn by the score at temperature {:.3g}.",
    "optimistic": "The best policy under the promise towards documents that may be relevant.",
}
