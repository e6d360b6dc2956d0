"""Ranking data: flat features with offsets, from files, tables, known collections or synthesis."""

from saferank._core.storage import within_memory as within_memory
from saferank.data.collections import load
from saferank.data.features import FeatureSchema as FeatureSchema
from saferank.data.frames import ArrowTable as ArrowTable
from saferank.data.inspection import inspect
from saferank.data.items import describe_columns as describe_columns
from saferank.data.items import feature_sentences as feature_sentences
from saferank.data.items import read_groups, read_items, write_items
from saferank.data.items.two_tables import ItemTables
from saferank.data.letor import read_letor, write_letor
from saferank.data.matching import match_features as match_features
from saferank.data.ranking import Collection, RankingData
from saferank.data.scaling import Scaling
from saferank.data.synthetic import synthetic
from saferank.data.table_files import read_table as read_table
from saferank.data.table_files import write_table as write_table

__all__ = [
    "Collection",
    "ItemTables",
    "RankingData",
    "Scaling",
    "inspect",
    "load",
    "read_groups",
    "read_items",
    "read_letor",
    "synthetic",
    "within_memory",
    "write_items",
    "write_letor",
]
