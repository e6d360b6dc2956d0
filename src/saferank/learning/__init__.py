"""Rankers: scorers, the one training loop, the table of methods, saving and loading."""

from saferank.learning.bias_route import fit_bias
from saferank.learning.descent import Settings
from saferank.learning.learning import fit_relevance, learn
from saferank.learning.like_features import like_documents
from saferank.learning.own_shards import OwnShards as OwnShards
from saferank.learning.own_shards import read_shards
from saferank.learning.provenance import Provenance
from saferank.learning.ranked_lists import ranking_table as ranking_table
from saferank.learning.ranker import Ranker
from saferank.learning.recipe import METHODS, Recipe
from saferank.learning.sklearn_face import RankingEstimator

__all__ = [
    "METHODS",
    "Provenance",
    "Ranker",
    "RankingEstimator",
    "Recipe",
    "Settings",
    "fit_bias",
    "fit_relevance",
    "learn",
    "like_documents",
    "load",
    "read_shards",
]

load = Ranker.load
