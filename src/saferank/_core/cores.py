"""How many cores this process may use: its affinity, and the limits of its control groups."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

KNOB = "SAFERANK_THREADS"
"""The environment variable that says how many threads, at most."""


def allowed_cores() -> int:
    """`SAFERANK_THREADS` where it is a positive number, else the usable cores."""
    stated = os.environ.get(KNOB, "").strip()
    if stated.isascii() and stated.isdecimal() and int(stated) > 0:
        return int(stated)
    return usable_cores()


def usable_cores(root: Path = Path("/")) -> int:
    """Cores that the process may run on, no more than its control groups have time for."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    limits = [limit for limit in _cgroup_limits(root) if limit > 0]
    return max(1, min([cores, *(math.ceil(limit) for limit in limits)]))


def _cgroup_limits(root: Path) -> Iterator[float]:
    """Cores' worth of time that each control group above the process allows, where one does."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    base = root / "sys/fs/cgroup"
    for line in lines:
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        inside = PurePosixPath(path.lstrip("/"))
        for group in (inside, *inside.parents):
            if controllers:
                yield from _ratio(
                    *(base / "cpu" / group / f"cpu.cfs_{what}_us" for what in ("quota", "period"))
                )
            else:
                yield from _ratio(base / group / "cpu.max")


def _ratio(*files: Path) -> Iterator[float]:
    """Quota over period, both numbers; nothing where there is no limit ("max", -1)."""
    try:
        quota, period = " ".join(file.read_text() for file in files).split()
        if int(quota) > 0 and int(period) > 0:
            yield int(quota) / int(period)
    except (OSError, ValueError):
        return
