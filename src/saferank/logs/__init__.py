"""Click logs: their schema and checks, counting on any engine, and the counts."""

from saferank.logs.alignment import Alignment, align
from saferank.logs.count_table import BrokenRule, CountReport, CountTable
from saferank.logs.counting import EngineChoice, count
from saferank.logs.counts import Counts
from saferank.logs.counts_file import load_counts, save_counts
from saferank.logs.merging import merge
from saferank.logs.overlap import Overlap, overlap
from saferank.logs.production import ProductionCheck, check_production

__all__ = [
    "Alignment",
    "BrokenRule",
    "CountReport",
    "CountTable",
    "Counts",
    "EngineChoice",
    "Overlap",
    "ProductionCheck",
    "align",
    "check_production",
    "count",
    "load_counts",
    "merge",
    "overlap",
    "save_counts",
]
