"""Click logs: their schema and checks, counting on any engine, and the counts onto items."""

from saferank.logs.alignment import Alignment, align, read_counts
from saferank.logs.counting import EngineChoice, count
from saferank.logs.health import Finding, LogHealth, check_log, click_rate_chart
from saferank.logs.merging import merge

__all__ = [
    "Alignment",
    "EngineChoice",
    "Finding",
    "LogHealth",
    "align",
    "check_log",
    "click_rate_chart",
    "count",
    "merge",
    "read_counts",
]
