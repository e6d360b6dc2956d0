"""What every target does: write a ranker, and tell what its engine makes of the file."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from saferank._core.flat import Floats
from saferank.serving.export.parity import Parity
from saferank.serving.export.source import Source


class Target(Protocol):
    """A format that engines read."""

    single: bool = False
    """Whether its engines add scores up in single precision."""
    has_missing: bool = True
    """Whether its engines know missing values; else they are not tried."""
    nearest: float = 0.0
    """Values nearer to 0 that are not 0 are not told apart from others, and not tried."""
    is_folder: bool = False
    """Whether it is written as a folder."""

    def write(self, source: Source, path: Path) -> list[str]:
        """Write the ranker; returns what a user should know, or refuses with one sentence."""

    def scores(self, path: Path, parity: Parity) -> dict[str, Floats]:
        """The scores of a parity file's rows by each engine that is here, and by its rule."""

    def constant(self, source: Source) -> float:
        """What the ranker's scores are larger by than the engine's."""
        del source
        return 0.0
