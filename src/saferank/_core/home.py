"""A home for processes that have none, as in many containers: no HOME, and a user without a name.

Some parts (charts, compiled code) ask for the home folder as they are imported, and fail or write
into the current folder where there is none. They are given a private temporary folder.
"""

from __future__ import annotations

import functools
import os
import stat
import tempfile
from pathlib import Path


def ensure_home() -> None:
    """Set HOME to a temporary folder if, and only if, no home can be determined."""
    try:
        Path.home()
    except RuntimeError:
        os.environ["HOME"] = temporary_home() or tempfile.gettempdir()


@functools.cache
def temporary_home() -> str:
    """A temporary folder that nobody else can write to, or an empty text where there is none.

    Compiled code is loaded from it, so it must be this user's own. It has the same name each time,
    so that the next process finds what this one compiled.
    """
    try:
        folder = Path(tempfile.gettempdir()) / f"saferank-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        state = folder.lstat()
    except (OSError, AttributeError):  # no room for it, or a system without user ids
        return ""
    private = stat.S_ISDIR(state.st_mode) and stat.S_IMODE(state.st_mode) & 0o077 == 0
    return str(folder) if private and state.st_uid == os.getuid() else ""
