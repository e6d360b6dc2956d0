"""How hot loops are compiled: cached on disk, without the interpreter lock, the same bits each run.

Parallel kernels run one query (or one piece that depends on nothing else) an iteration, so that
their results do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])

# Only fused multiply-add is allowed: it never reorders a sum.
_MATH = {"contract"}


def kernel(function: F) -> F:
    """Compile a function that runs on one thread."""
    return cast(
        F, numba.njit(cache=True, nogil=True, fastmath=_MATH, error_model="numpy")(function)
    )


def parallel_kernel(function: F) -> F:
    """Compile a function whose `prange` loops run on all threads."""
    compile_ = numba.njit(
        cache=True, nogil=True, parallel=True, fastmath=_MATH, error_model="numpy"
    )
    return cast(F, compile_(function))


def inlined(function: F) -> F:
    """Compile a small function that is pasted into the kernels that call it."""
    compile_ = numba.njit(
        cache=True, nogil=True, inline="always", fastmath=_MATH, error_model="numpy"
    )
    return cast(F, compile_(function))


prange = numba.prange


def threads() -> int:
    """How many threads parallel work may use."""
    return int(numba.get_num_threads())
