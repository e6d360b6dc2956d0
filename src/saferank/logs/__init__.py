"""Click logs: their schema and checks, counting on any engine, and the counts."""

from saferank.logs.counts import Counts
from saferank.logs.counts_file import load_counts, save_counts
from saferank.logs.overlap import Overlap, overlap

__all__ = ["Counts", "Overlap", "load_counts", "overlap", "save_counts"]
