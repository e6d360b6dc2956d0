"""The report: one self-contained page of a run, for the person who decides."""

from saferank.report.page import render as render
from saferank.report.page import write_page

__all__ = [
    "write_page",
]
