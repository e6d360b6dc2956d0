"""How much memory an engine may take."""

from __future__ import annotations

import os
import re
from pathlib import Path

from saferank.errors import require

SHARE_OF_MEMORY = 0.6
_BUFFERS = 0.75
_SIZE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([KMGT]i?B)\s*$", re.IGNORECASE)


def memory_limit(asked: str | None) -> str:
    """What an engine may use: as asked, else a share of this machine's memory.

    >>> memory_limit("4GB")
    '4000MB'
    """
    if asked is None:
        return f"{int(SHARE_OF_MEMORY * _machine_memory() / 1e6)}MB"
    match = _SIZE.match(asked)
    require(match is not None, "memory", "a size such as 4GB or 500MB", asked)
    assert match is not None
    unit = match[2].upper()
    power = "KMGT".index(unit[0]) + 1
    size = float(match[1]) * (1024**power if "I" in unit else 1000**power)
    require(size >= 50e6, "memory", "at least 50MB", asked)
    return f"{int(size / 1e6)}MB"


def buffer_limit(asked: str | None) -> str:
    """What DuckDB may hold in its buffers, so that the process keeps to what was asked.

    Beside the buffers it holds results, and this process itself: up to a quarter more in
    `python -m benchmarks counting_billion`.

    >>> buffer_limit("4GB")
    '3000MB'
    """
    return f"{int(_BUFFERS * megabytes(memory_limit(asked)))}MB"


def megabytes(limit: str) -> int:
    """A limit as a number."""
    return int(limit.removesuffix("MB"))


def _machine_memory() -> int:
    """Bytes of memory, or what a container is allowed of it."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    text = limit.read_text().strip() if limit.is_file() else "max"
    return min(physical, int(text)) if text.isdigit() else physical
