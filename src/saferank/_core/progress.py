"""Progress on long work, on standard error: a bar where a person looks, else a line now and then.

Lines are for the command line alone: the library is silent unless its caller watches a terminal.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

T = TypeVar("T")

EVERY = 10.0
"""Seconds between two lines where there is no terminal."""
_lines = False


def speak_in_lines() -> None:
    """From now on, where standard error is no terminal, tell progress in lines."""
    global _lines
    _lines = True


@functools.cache
def say_once(sentence: str) -> None:
    """Tell something on standard error, once in a process; for the command line alone."""
    if _lines:
        sys.stderr.write(f"{sentence}\n")
        sys.stderr.flush()


class Advance(Protocol):
    """Moves a bar on by some steps and may change what it says."""

    def __call__(self, steps: float = 1, *, note: str | None = None) -> None:
        """Move on by `steps`."""


def _nothing(steps: float = 1, *, note: str | None = None) -> None:
    del steps, note


def _line_by_line(description: str, total: float | None) -> Advance:
    done, last = 0.0, time.monotonic()

    def advance(steps: float = 1, *, note: str | None = None) -> None:
        nonlocal done, last
        done += steps
        if time.monotonic() - last < EVERY:
            return
        last = time.monotonic()
        of = "" if total is None else f" of {total:,.0f}"
        said = "" if note is None else f" · {note}"
        sys.stderr.write(f"{description}: {done:,.0f}{of}{said}\n")
        sys.stderr.flush()

    return advance


@contextmanager
def bar(description: str, total: float | None, *, show: bool | None = None) -> Iterator[Advance]:
    """A bar of `total` steps; `show=None` shows it when standard error is a terminal."""
    if not (sys.stderr.isatty() if show is None else show):
        yield _line_by_line(description, total) if _lines and show is None else _nothing
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(description, total=total)

        def advance(steps: float = 1, *, note: str | None = None) -> None:
            text = description if note is None else f"{description} · {note}"
            progress.update(task, advance=steps, description=text)

        yield advance


def track(
    items: Iterable[T], description: str, *, total: int, show: bool | None = None
) -> Iterator[T]:
    """Pass the items on, one step of a bar each."""
    with bar(description, total, show=show) as advance:
        for item in items:
            yield item
            advance()
