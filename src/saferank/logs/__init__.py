"""Click logs: their schema and checks, counting on any engine, and the counts onto items."""

from saferank.logs.alignment import align, read_counts
from saferank.logs.counting import EngineChoice, count
from saferank.logs.health import Finding as Finding
from saferank.logs.health import LogHealth, check_log
from saferank.logs.health import click_rate_chart as click_rate_chart
from saferank.logs.merging import merge
from saferank.logs.shard_folder import ShardFolder as ShardFolder
from saferank.logs.sharding import ShardReport as ShardReport
from saferank.logs.sharding import shard
from saferank.logs.ubi import UbiReport as UbiReport
from saferank.logs.ubi import read_ubi

__all__ = [
    "EngineChoice",
    "LogHealth",
    "align",
    "check_log",
    "count",
    "merge",
    "read_counts",
    "read_ubi",
    "shard",
]
