"""Progress bars on long work: on standard error, and only where a person looks."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

T = TypeVar("T")


class Advance(Protocol):
    """Moves a bar on by some steps and may change what it says."""

    def __call__(self, steps: float = 1, *, note: str | None = None) -> None:
        """Move on by `steps`."""


def _nothing(steps: float = 1, *, note: str | None = None) -> None:
    del steps, note


@contextmanager
def bar(description: str, total: float | None, *, show: bool | None = None) -> Iterator[Advance]:
    """A bar of `total` steps; `show=None` shows it when standard error is a terminal."""
    if not (sys.stderr.isatty() if show is None else show):
        yield _nothing
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
