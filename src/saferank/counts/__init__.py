"""Counts of what was shown and clicked at each rank, to learn from and to judge by."""

from saferank.counts.arrays import Counts
from saferank.counts.count_table import CountTable
from saferank.counts.counts_file import save_counts as save_counts
from saferank.counts.overlap import Overlap as Overlap
from saferank.counts.overlap import overlap
from saferank.counts.split import Split

__all__ = [
    "CountTable",
    "Counts",
    "Split",
    "overlap",
]
