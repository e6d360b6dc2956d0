"""Ranking data: flat features with offsets, from files, tables, known collections or synthesis."""

from saferank.data.ranking import Batch, Collection, RankingData
from saferank.data.synthetic import synthetic

__all__ = ["Batch", "Collection", "RankingData", "synthetic"]
