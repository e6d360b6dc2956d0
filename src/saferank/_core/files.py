"""Files are written whole or not at all, and nothing that saferank did not write is replaced.

Writing goes to a scratch folder beside the target, under a name of our own (what users call their
files never reaches an engine that writes), and ends in one rename.
"""

from __future__ import annotations

import ctypes
import errno
import json
import math
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from saferank._core.marks import ensure_mark, is_marked, kind_of, marked_record, without_mark
from saferank._core.scratch import OLD, remove_litter, scratch_folder
from saferank.errors import InputError, require

_MADE: Final = "made"
_MARKED: Final = (".html", ".json")
_EXCHANGE: Final = 2  # RENAME_EXCHANGE
_HERE: Final = -100  # AT_FDCWD


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A temporary path in the same folder that becomes `path` if the block ends well."""
    target = _target(path)
    check_file(target, of_ours=False)
    with scratch_folder(target.parent) as scratch:
        temporary = scratch / _MADE
        yield temporary
        if target.exists():
            shutil.copymode(target, temporary)
        ensure_mark(temporary)
        temporary.replace(target)


@contextmanager
def atomic_folder(path: Path, *, holds: Sequence[str], marked: bool = True) -> Iterator[Path]:
    """A temporary folder beside `path` that takes its place if the block ends well.

    `holds` are the names (with wildcards) of all that saferank may have put there, the first of
    them a file that is always there; one that ends with "/" is a folder of such files. A folder
    that lacks it, or holds anything else, is refused.
    With `marked=False` names are enough: for folders that users do not name, where a damaged file
    must not stand in the way.
    """
    target = _target(path)
    check_folder(target, holds, marked=marked)
    with scratch_folder(target.parent) as scratch:
        temporary = scratch / _MADE
        temporary.mkdir()
        yield temporary
        check_folder(target, holds, marked=marked)  # again: writing may have taken hours
        _put_in_place(temporary, target, scratch / OLD)


def check_file(path: Path, *, of_ours: bool = True, kind: str | None = None) -> None:
    """Refuse a path that names something else than a file, or a file that saferank did not write.

    With `of_ours=False` any file may be replaced; an empty one always may. With `kind` a file that
    says that it is something else is refused, too.
    """
    if not path.exists():
        return
    require(path.is_file(), "output", "a file, or not there yet", str(path))
    if of_ours and path.stat().st_size > 0 and not is_marked(path):
        raise InputError(
            f"`{path}` is there already and saferank did not write it: remove it first, or choose "
            f"another name."
        )
    there = kind_of(path) if kind is not None else None
    if there not in (None, kind):
        raise InputError(
            f"`{path}` is there already and holds saferank's {there}, not {kind}: remove it first, "
            f"or choose another name."
        )


def check_folder(path: Path, holds: Sequence[str], *, marked: bool = True) -> None:
    """Refuse to replace anything but an empty folder, or one that holds what saferank wrote."""
    target = _target(path)
    here = Path.cwd()
    own = target != here and target not in here.parents
    require(own, "output", "a folder of its own, not the current one", str(path))
    if not target.exists():
        return
    require(target.is_dir(), "output", "a folder, or not there yet", str(path))
    remove_litter(target)
    names = sorted(entry.name for entry in target.iterdir())
    if not names:
        return
    foreign = [name for name in names if not _is_ours(target / name, holds, marked)]
    if foreign or (marked and holds[0] not in names):
        name = (foreign or names)[0]
        raise InputError(
            f"`{path}` is there already and holds {name!r}, which saferank did not write: empty "
            f"the folder first, or choose another name."
        )


def _is_ours(path: Path, holds: Sequence[str], marked: bool) -> bool:
    if f"{path.name}/" in holds and path.is_dir() and not path.is_symlink():
        # a folder within holds the same kinds of files, and no folder
        files = [name for name in holds if not name.endswith("/")]
        return all(_is_ours(entry, files, marked) for entry in path.iterdir())
    own = any(fnmatchcase(path.name, pattern) for pattern in holds)
    plain = path.is_file() and not path.is_symlink()
    return own and plain and (not marked or path.suffix not in _MARKED or is_marked(path))


def _target(path: Path) -> Path:
    """Where a path leads: what a link points to is replaced, not the link."""
    return Path(os.path.realpath(path))


def _put_in_place(made: Path, target: Path, spare: Path) -> None:
    """Rename a folder to its target; what is there goes to the scratch folder.

    The two change places in one step where the system can. Else there is a moment without a
    target: whoever finds the scratch folder of a run that was killed then puts the old one back.
    """
    try:
        made.rename(target)  # where there is nothing, or an empty folder
        return
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    if _exchange(made, target):
        return
    spare.mkdir()
    old = target.rename(spare / target.name)
    try:
        made.rename(target)
    except OSError:
        old.rename(target)
        raise


def _exchange(first: Path, second: Path) -> bool:
    """Let two paths change places in one step; False where the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:  # an old C library
        return False
    return bool(rename(_HERE, os.fsencode(first), _HERE, os.fsencode(second), _EXCHANGE) == 0)


def write_json(path: Path, record: Any, kind: str = "") -> None:
    """Write a record as readable JSON with saferank's mark, keys sorted, NaN refused."""
    marked = marked_record(record, kind)
    text = json.dumps(marked, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False)
    with atomic_file(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(path: Path, *, limit: int = 1 << 26) -> Any:
    """Read JSON from an untrusted file of at most `limit` bytes; numbers are finite, of 64 bits."""
    require(path.is_file(), "path", "a file that exists", str(path))
    size = path.stat().st_size
    require(size <= limit, str(path), f"at most {limit} bytes", size)
    try:
        text = path.read_text(encoding="utf-8")
        record = json.loads(text, parse_int=_integer, parse_float=_number, parse_constant=_number)
        if _HALF.search(text):  # perhaps half of a character, which no file can be written with
            json.dumps(record, ensure_ascii=False).encode("utf-8")
        return without_mark(record)
    except RecursionError as error:
        raise InputError(f"`{path}` must be JSON that is not nested as deeply.") from error
    except ValueError as error:  # also what is not UTF-8, and numbers of thousands of digits
        raise InputError(f"`{path}` must be JSON; {error}.") from error


def _integer(text: str) -> int:
    value = int(text) if len(text) <= 20 else 1 << 64
    if not -(1 << 63) <= value < 1 << 64:
        raise ValueError("an integer has more than 64 bits")
    return value


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is not finite")
    return value
