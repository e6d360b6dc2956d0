"""What readers of tables raise when a file is damaged, as one sentence."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from saferank.errors import InputError, shorten


@contextlib.contextmanager
def refuse_damaged(path: str | Path, kind: str = "whole Parquet file") -> Iterator[None]:
    """Turn Arrow's complaints about the content of a file into `InputError`.

    Faults of the machine (no permission, a failing disk, too little memory) are left as they are:
    those come with a number of the system, or as `MemoryError`.

    >>> with refuse_damaged("a.parquet"):
    ...     raise pa.ArrowInvalid("not a footer")
    Traceback (most recent call last):
    saferank.errors.InputError: `a.parquet` must be a whole Parquet file; it cannot be read (...).
    """
    try:
        yield
    except MemoryError:
        raise
    except (pa.ArrowException, UnicodeError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        reason = shorten((str(error).strip() or "no reason").splitlines()[0], 150).rstrip(".")
        raise InputError(
            f"`{shorten(str(path), 100)}` must be a {kind}; it cannot be read ({reason})."
        ) from error
