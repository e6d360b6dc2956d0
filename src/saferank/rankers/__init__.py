"""Rankers: scorers, the one training loop, the table of methods, saving and loading."""

from saferank.rankers.estimator import RankingEstimator
from saferank.rankers.learning import fit_relevance, learn
from saferank.rankers.methods import METHODS, Recipe
from saferank.rankers.ranker import Card, Ranker
from saferank.rankers.rankings import ranking_table
from saferank.rankers.training import Settings

__all__ = [
    "METHODS",
    "Card",
    "Ranker",
    "RankingEstimator",
    "Recipe",
    "Settings",
    "fit_relevance",
    "learn",
    "load",
    "ranking_table",
]

load = Ranker.load
