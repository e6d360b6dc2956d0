"""Who clicks in a shop: users with position bias, with trust bias, or who scan and stop."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.shops.lists import Bools, Floats, Ints
from benchmarks.shops.spec import Visitors


@dataclass(frozen=True, eq=False)
class ByPosition:
    """Clicks at rank k with probability alpha_k R + beta_k, whatever else is on the page."""

    alpha: Floats
    beta: Floats

    def chances(self, relevance: Floats) -> Floats:
        """Click probability of each document at each rank, documents x k."""
        return relevance[:, None] * self.alpha + self.beta

    def clicks(self, rng: np.random.Generator, relevance: Floats) -> Bools:
        """Clicks on shown lists, whose relevance is given, lists x k."""
        chosen: Bools = rng.random(relevance.shape) < relevance * self.alpha + self.beta
        return chosen

    def expected(self, relevance: Floats) -> Floats:
        """Expected clicks on each list; NaN where it is shorter."""
        total: Floats = np.nansum(relevance * self.alpha + self.beta, axis=1)
        return total


@dataclass(frozen=True, eq=False)
class Cascade:
    """Looks at one result after the other; goes on with `patience`, less often after a click."""

    patience: float = 0.9
    satisfied: float = 0.6
    """Share of clicks after which nobody goes on."""

    def clicks(self, rng: np.random.Generator, relevance: Floats) -> Bools:
        """Clicks on shown lists, whose relevance is given, lists x k."""
        here = np.ones(relevance.shape[0], dtype=bool)
        result = np.zeros(relevance.shape, dtype=bool)
        for rank in range(relevance.shape[1]):
            result[:, rank] = here & (rng.random(here.size) < relevance[:, rank])
            leaves = result[:, rank] & (rng.random(here.size) < self.satisfied)
            here &= ~leaves & (rng.random(here.size) < self.patience)
        return result

    def expected(self, relevance: Floats) -> Floats:
        """Expected clicks on each list; NaN where it is shorter."""
        known = np.nan_to_num(relevance)
        stays = self.patience * (1 - self.satisfied * known)
        looks = np.cumprod(np.hstack([np.ones((known.shape[0], 1)), stays[:, :-1]]), axis=1)
        total: Floats = (looks * known).sum(axis=1)
        return total


Users = ByPosition | Cascade


def users_of(kind: Visitors, k: int, rng: np.random.Generator) -> Users:
    """Users of a kind; how steeply attention falls differs from shop to shop."""
    if kind == "cascade":
        return Cascade(patience=rng.uniform(0.8, 0.95), satisfied=rng.uniform(0.4, 0.8))
    rank = np.arange(1.0, k + 1)
    alpha = rng.uniform(0.6, 0.9) * rank ** -rng.uniform(0.4, 1.1)
    trusting = rng.uniform(0.03, 0.1) if kind == "trust" else 0.0
    return ByPosition(alpha, trusting * rank ** -rng.uniform(0.5, 1.5))


def relevance_of(rankings: Ints, relevance: Floats) -> Floats:
    """Relevance of the documents of lists (positions, -1 past the end); NaN past the end."""
    return np.where(rankings >= 0, relevance[rankings], np.nan)
