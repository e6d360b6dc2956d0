"""Counts of what was shown and clicked at each rank, to learn from and to judge by."""

from saferank.counts.arrays import Counts
from saferank.counts.count_table import BrokenRule, CountReport, CountTable
from saferank.counts.counts_file import save_counts
from saferank.counts.overlap import Overlap, overlap
from saferank.counts.split import Split

__all__ = [
    "BrokenRule",
    "CountReport",
    "CountTable",
    "Counts",
    "Overlap",
    "Split",
    "overlap",
    "save_counts",
]
