"""Click logs: their schema and checks, counting on any engine, and the counts."""

from saferank.logs.alignment import Alignment, align, read_counts
from saferank.logs.count_table import BrokenRule, CountReport, CountTable
from saferank.logs.counting import EngineChoice, count
from saferank.logs.counts import Counts
from saferank.logs.counts_file import save_counts
from saferank.logs.health import LogHealth, check_log
from saferank.logs.health_chart import click_rate_chart
from saferank.logs.judgements import Finding
from saferank.logs.merging import merge
from saferank.logs.overlap import Overlap, overlap
from saferank.logs.production import ProductionCheck, check_production
from saferank.logs.split import Split

__all__ = [
    "Alignment",
    "BrokenRule",
    "CountReport",
    "CountTable",
    "Counts",
    "EngineChoice",
    "Finding",
    "LogHealth",
    "Overlap",
    "ProductionCheck",
    "Split",
    "align",
    "check_log",
    "check_production",
    "click_rate_chart",
    "count",
    "merge",
    "overlap",
    "read_counts",
    "save_counts",
]
