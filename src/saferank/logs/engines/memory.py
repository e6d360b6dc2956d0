"""How much memory an engine may take."""

from __future__ import annotations

import os
from pathlib import Path

from saferank._core.storage import allowed_memory, parse_size

SHARE_OF_MEMORY = 0.6
_BUFFERS = 0.75
_BESIDE_DATA = 0.25
"""Of the memory that a process is limited to, for an engine that works beside its arrays."""


def memory_limit(asked: str | None) -> str:
    """What an engine may use: as asked, else a share of the process's or the machine's memory.

    >>> memory_limit("4GB")
    '4000MB'
    """
    allowed = allowed_memory()
    if asked is None and allowed is not None:
        return f"{max(int(_BESIDE_DATA * allowed / 1e6), 50)}MB"
    if asked is None:
        return f"{int(SHARE_OF_MEMORY * _machine_memory() / 1e6)}MB"
    return f"{int(parse_size(asked) / 1e6)}MB"


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
