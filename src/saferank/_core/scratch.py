"""Folders for what is not finished yet, which the next run removes if this one is killed.

A scratch folder has a file `lock` that its process keeps locked (`flock`) for as long as it uses
the folder. The kernel gives the lock back when the process ends, however it ends; so a folder whose
lock can be taken belongs to nobody, and is litter.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PREFIX: Final = ".saferank-tmp-"
LOCK: Final = "lock"
OLD: Final = "old"
"""Folder inside a scratch folder for what is being replaced: put back if its place is empty."""

_swept: set[Path] = set()
"""Folders that this process has cleared."""


@contextlib.contextmanager
def scratch_folder(parent: Path | None = None) -> Iterator[Path]:
    """A folder in `parent` (by default the system's folder for temporary files), gone at the end.

    What killed runs left in `parent` is removed first, once per process.

    >>> with scratch_folder() as folder:
    ...     folder.is_dir()
    True
    >>> folder.exists()
    False
    """
    inside = Path(tempfile.gettempdir()) if parent is None else parent
    inside.mkdir(parents=True, exist_ok=True)
    _sweep_once(inside)
    # the name comes first: a signal at any time after the folder is made finds it in the block
    folder, lock = inside / f"{PREFIX}{secrets.token_hex(8)}", None
    try:
        lock = _make_locked(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def remove_litter(parent: Path) -> int:
    """Remove scratch folders of `parent` that no process holds; returns how many there were."""
    removed = 0
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False):
                removed += _remove_abandoned(Path(entry.path))
    return removed


def _sweep_once(parent: Path) -> None:
    place = Path(os.path.realpath(parent))
    fresh = any(part.startswith(PREFIX) for part in place.parts)  # inside a scratch folder
    if place not in _swept and not fresh:
        _swept.add(place)
        remove_litter(place)


def _make_locked(folder: Path) -> int:
    """Make a new folder; returns the open file that locks it."""
    while True:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        try:
            lock = _open_lock(folder)
        except FileNotFoundError:  # swept between the two lines: it was not locked yet
            continue
        with contextlib.suppress(OSError):  # where nothing can be locked, nothing is swept either
            fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / LOCK).exists():
            return lock
        os.close(lock)


def _open_lock(folder: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(folder / LOCK, flags, 0o600)


def _remove_abandoned(folder: Path) -> bool:
    """Remove a scratch folder unless a process holds it, or it is not one of ours."""
    try:
        if folder.lstat().st_uid != os.geteuid() or not _looks_like_scratch(folder):
            return False
        lock = _open_lock(folder)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _put_back(folder)
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()
    except OSError:  # held, or locks are unknown here
        return False
    finally:
        os.close(lock)


def _looks_like_scratch(folder: Path) -> bool:
    """It has a lock, or nothing at all (its process was killed before the lock was made)."""
    names = [path.name for path in folder.iterdir()]
    return not names or LOCK in names


def _put_back(folder: Path) -> None:
    """What was being replaced returns to its place, if nothing else has come there."""
    if (folder / OLD).is_dir():
        for path in (folder / OLD).iterdir():
            place = folder.parent / path.name
            if not place.exists():
                path.replace(place)
