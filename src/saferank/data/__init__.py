"""Ranking data: flat features with offsets, from files, tables, known collections or synthesis."""

from saferank.data.collections import load
from saferank.data.features import Feature, FeatureSchema
from saferank.data.frames import ArrowTable
from saferank.data.inspection import Inspection, inspect
from saferank.data.items import (
    ColumnFacts,
    describe_columns,
    feature_sentences,
    read_items,
    write_items,
)
from saferank.data.letor import read_letor, write_letor
from saferank.data.matching import match_features
from saferank.data.ranking import Batch, Collection, RankingData
from saferank.data.scaling import Scaling
from saferank.data.synthetic import synthetic
from saferank.data.table_files import read_table, write_table

__all__ = [
    "ArrowTable",
    "Batch",
    "Collection",
    "ColumnFacts",
    "Feature",
    "FeatureSchema",
    "Inspection",
    "RankingData",
    "Scaling",
    "describe_columns",
    "feature_sentences",
    "inspect",
    "load",
    "match_features",
    "read_items",
    "read_letor",
    "read_table",
    "synthetic",
    "write_items",
    "write_letor",
    "write_table",
]
