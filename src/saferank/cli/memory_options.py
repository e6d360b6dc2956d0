"""`--memory` and `--spill` of commands that read items: they may be larger than memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from saferank._core.storage import parse_size, peak_memory, within_memory
from saferank.errors import require


@dataclass(frozen=True, kw_only=True)
class MemoryOptions:
    """Items larger than memory."""

    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory of the process, such as 4GB: features beyond an eighth of it, and other "
            "arrays beyond a 128th, lie in files. [no limit]",
            show_default=False,
        ),
    ] = None
    spill: Annotated[
        Path | None,
        typer.Option(
            help="Folder on a disk for these files. [beside the output]", show_default=False
        ),
    ] = None

    @contextmanager
    def limit(self, beside: Path) -> Iterator[None]:
        """Keep to the memory inside, and tell at the end what was taken."""
        if self.memory is None:
            yield
            return
        size, folder = parse_size(self.memory), beside if self.spill is None else self.spill
        require(folder.is_dir(), "spill", "a folder that exists", str(folder))
        with within_memory(size, folder.resolve()):
            yield
        peak = peak_memory()
        more = "; what cannot lie in files needs more than that" if peak > size else ""
        typer.echo(f"Peak memory {peak / 1e9:.2f} GB, of {size / 1e9:g} GB{more}.", err=True)
