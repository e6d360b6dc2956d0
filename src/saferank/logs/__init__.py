"""Click logs: their schema and checks, counting on any engine, and the counts."""

from saferank.logs.count_table import BrokenRule, CountReport, CountTable
from saferank.logs.counting import EngineChoice, count
from saferank.logs.counts import Counts
from saferank.logs.counts_file import load_counts, save_counts
from saferank.logs.overlap import Overlap, overlap

__all__ = [
    "BrokenRule",
    "CountReport",
    "CountTable",
    "Counts",
    "EngineChoice",
    "Overlap",
    "count",
    "load_counts",
    "overlap",
    "save_counts",
]
