"""Click logs: their schema and checks, counting on any engine, and the counts."""

from saferank.logs.counts import Counts

__all__ = ["Counts"]
