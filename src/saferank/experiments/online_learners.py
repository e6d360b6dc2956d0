"""Published online learners, as baselines of the study of rounds: linear scores, one session each.

PDGD (Oosterhuis and de Rijke, 2018) infers preferences from clicks on sampled rankings; DBGD (Yue
and Joachims, 2009) compares the current ranker with a perturbed one by team-draft interleaving.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from saferank._core.flat import Floats, Ints
from saferank._core.seeds import generator
from saferank.data.scaling import Scaling
from saferank.experiments.rounds_world import RoundsWorld
from saferank.policies import ProductionPolicy

RATE = 0.1
STEP, PROBE = 0.01, 1.0
"""DBGD's: how far it moves, and how far away it looks."""


@dataclass
class Online:
    """A linear ranker that learns from every session."""

    world: RoundsWorld
    weights: Floats
    features: Floats

    @classmethod
    def start(cls, world: RoundsWorld) -> Online:
        """At the linear ranker that comes nearest to production's scores."""
        features = Scaling.fit(world.items, "standard").apply(world.items).features
        values = np.asarray(features, dtype=np.float64)
        ridge = values.T @ values + 1e-3 * np.eye(values.shape[1])
        weights = np.linalg.solve(ridge, values.T @ world.scores)
        return cls(world, weights.astype(np.float64), values)

    @property
    def scores(self) -> Floats:
        """One score per document."""
        result: Floats = self.features @ self.weights
        return result

    def learn_pdgd(self, number: int) -> ProductionPolicy:
        """One round of PDGD; returns the policy at its end."""
        rng, chance = generator(self.world.seed, "pdgd", number), self.world.chances(number)
        for first, last in self._sessions(rng):
            scores = self.features[first:last] @ self.weights
            ranking = _draw(scores, self.world.click_model.ranks, rng)
            shown = first + ranking[None, :]
            clicked = self.world.click(shown, chance, rng)[0]
            slope = _preferences(scores, ranking, clicked)
            self.weights = self.weights + RATE * slope @ self.features[first:last]
        return ProductionPolicy.sampled(self.scores, self.world.items.offsets)

    def learn_dbgd(self, number: int) -> ProductionPolicy:
        """One round of DBGD; returns the policy at its end, which sorts."""
        rng, chance = generator(self.world.seed, "dbgd", number), self.world.chances(number)
        for first, last in self._sessions(rng):
            direction = rng.normal(size=self.weights.size)
            direction /= np.linalg.norm(direction)
            own = np.argsort(-(self.features[first:last] @ self.weights), kind="stable")
            probe = self.weights + PROBE * direction
            rival = np.argsort(-(self.features[first:last] @ probe), kind="stable")
            ranking, team = _interleave(own, rival, self.world.click_model.ranks, rng)
            clicked = self.world.click(first + ranking[None, :], chance, rng)[0]
            if clicked[team == 1].sum() > clicked[team == 0].sum():
                self.weights = self.weights + STEP * direction
        return ProductionPolicy.sorted(self.scores, self.world.items.offsets)

    def _sessions(self, rng: np.random.Generator) -> list[tuple[int, int]]:
        offsets = self.world.items.offsets
        queries = rng.integers(self.world.items.queries, size=self.world.sessions)
        return [(int(offsets[q]), int(offsets[q + 1])) for q in queries]


def _draw(scores: Floats, k: int, rng: np.random.Generator) -> Ints:
    """A Plackett-Luce ranking of the first k."""
    drawn: Ints = np.argsort(-(scores + rng.gumbel(size=scores.size)), kind="stable")[:k]
    return drawn


def _log_rate(scores: Floats, ranking: Ints) -> float:
    """Log of the rates of all documents that are not in a ranking, added up."""
    others = np.delete(scores, ranking)
    return float(np.logaddexp.reduce(others)) if others.size else -np.inf


def _log_chance(ranked: Floats, rest: float) -> float:
    """Of a Plackett-Luce ranking, by the scores of its documents and the log rate of all others.

    What is left at each rank is added up from the last one on: taken away from the sum over all
    documents, small rates behind a large one would be lost.
    """
    left = np.logaddexp.accumulate(np.concatenate([[rest], ranked[::-1]]))
    return float(ranked.sum() - left[1:].sum())


def _preferences(
    scores: Floats, ranking: Ints, clicked: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
) -> Floats:
    """The gradient in the scores: clicked documents over those that were passed over.

    A pair weighs as likely as the ranking with the two exchanged is beside the one that was shown,
    which takes out what their places did.
    """
    slope = np.zeros(scores.size)
    if not clicked.any():
        return slope
    last = min(int(np.flatnonzero(clicked).max()) + 1, ranking.size - 1)
    ranked, rest = scores[ranking], _log_rate(scores, ranking)
    shown = _log_chance(ranked, rest)
    for winner in map(int, np.flatnonzero(clicked)):
        for loser in range(last + 1):
            if clicked[loser]:
                continue
            exchanged = ranked.copy()
            exchanged[[winner, loser]] = ranked[[loser, winner]]
            fair = float(expit(_log_chance(exchanged, rest) - shown))
            ahead = float(expit(ranked[winner] - ranked[loser]))
            step = fair * ahead * (1 - ahead)
            slope[ranking[winner]] += step
            slope[ranking[loser]] -= step
    return slope


def _interleave(one: Ints, other: Ints, k: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Team-draft interleaving: the first k, and whose team each document is on."""
    ranking: list[int] = []
    team: list[int] = []
    while len(ranking) < min(k, one.size):
        ahead = team.count(0) - team.count(1)
        turn = int(ahead > 0) if ahead else int(rng.integers(2))
        pick = next(int(d) for d in (one, other)[turn] if int(d) not in ranking)
        ranking.append(pick)
        team.append(turn)
    return np.array(ranking), np.array(team)
