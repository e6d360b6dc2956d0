"""Ranking data: flat features with offsets, from files, tables, known collections or synthesis."""

from saferank.data.letor import read_letor
from saferank.data.ranking import Batch, Collection, RankingData
from saferank.data.synthetic import synthetic

__all__ = ["Batch", "Collection", "RankingData", "read_letor", "synthetic"]
