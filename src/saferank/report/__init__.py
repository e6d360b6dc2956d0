"""The report: one self-contained page of a run, for the person who decides."""

from saferank.report.page import render, write_page

__all__ = ["render", "write_page"]
