"""How hot loops are compiled: cached on disk, without the interpreter lock, the same bits each run.

Parallel kernels run one query (or one piece that depends on nothing else) an iteration, so that
their results do not depend on the number of threads.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])

_DECORATED = re.compile(rb"^@(kernel|parallel_kernel|inlined)\b", re.MULTILINE)


def kernel(function: F) -> F:
    """Compile a function that runs on one thread."""
    return _compiled(function)


def parallel_kernel(function: F) -> F:
    """Compile a function whose `prange` loops run on all threads."""
    return _compiled(function, parallel=True)


def inlined(function: F) -> F:
    """Compile a small function that is pasted into the kernels that call it."""
    return _compiled(function, inline="always")


def _compiled(function: F, **options: Any) -> F:
    # of fast mathematics only fused multiply-add is allowed: it never reorders a sum
    compile_ = numba.njit(
        cache=True, nogil=True, fastmath={"contract"}, error_model="numpy", **options
    )
    compiled = compile_(function)
    # Numba takes what it kept for fresh while the kernel's own file is as it was; but a kernel
    # holds the code of kernels that it calls, wherever they stand
    kept = getattr(compiled._cache, "_cache_file", None)
    if kept is not None:
        kept._source_stamp = (kept._source_stamp, _SOURCES)
    return cast(F, compiled)


def _sources(folder: Path) -> str:
    """A hash of every module under a folder that has kernels."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(folder.rglob("*.py")):
        text = path.read_bytes()
        if _DECORATED.search(text) or path == Path(__file__):
            digest.update(text)
    return digest.hexdigest()


_SOURCES = _sources(Path(__file__).parent)


prange = numba.prange


def threads() -> int:
    """How many threads parallel work may use."""
    return int(numba.get_num_threads())
