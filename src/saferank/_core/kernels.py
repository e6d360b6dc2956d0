"""How hot loops are compiled: cached on disk, without the interpreter lock, the same bits each run.

Parallel kernels are loops over queries (or pieces that do not depend on each other), run in pieces
on the threads of `saferank._core.threads`; their results do not depend on the number of threads.
Numba's own threads are not used: they do not survive a fork.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import numba
import numba.core.caching
import numpy as np

from saferank._core.home import temporary_home
from saferank._core.progress import say_once
from saferank._core.threads import over_range

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")

# Numba carries no annotations for these.
_config: Any = numba.config
_FunctionCache: Any = numba.core.caching.FunctionCache
_types: Any = numba.types

_DECORATED = re.compile(rb"^@(kernel|parallel_kernel|inlined)\b", re.MULTILINE)
_FEW = 8192
"""Numbers in the arrays of a call below which waking other threads costs more than it saves."""


def kernel(function: F) -> F:
    """Compile a function that runs on one thread."""
    return _compiled(function)


def inlined(function: F) -> F:
    """Compile a small function that is pasted into the kernels that call it."""
    return _compiled(function, inline="always")


def parallel_kernel(
    loop: Callable[Concatenate[int, int, P], None],
) -> Callable[Concatenate[int, P], None]:
    """Compile a loop over `range(first, last)`, its first arguments, to be called with the count.

    >>> @parallel_kernel
    ... def double(first: int, last: int, values: Any, out: Any) -> None:
    ...     for index in range(first, last):
    ...         out[index] = 2 * values[index]
    >>> out = np.zeros(3)
    >>> double(3, np.arange(3.0), out)
    >>> out
    array([0., 2., 4.])
    """
    compiled = _compiled(loop)

    def run(count: int, /, *args: P.args, **options: P.kwargs) -> None:
        few = sum(map(_numbers, args)) < _FEW
        if few or count <= 1:
            compiled(0, count, *args, **options)
        else:
            over_range(lambda first, last: compiled(first, last, *args, **options), count)

    functools.update_wrapper(run, loop)
    return run


def _numbers(arg: object) -> int:
    """Numbers in an array, or in those of a named tuple."""
    if isinstance(arg, tuple):
        return sum(map(_numbers, arg))
    return arg.size if isinstance(arg, np.ndarray) else 0


def _compiled(function: F, **options: Any) -> F:
    options["no_cfunc_wrapper"] = True  # an entry for calls from C, which nobody makes
    # of fast mathematics only fused multiply-add is allowed: it never reorders a sum
    compile_ = numba.njit(nogil=True, fastmath={"contract"}, error_model="numpy", **options)
    compiled = compile_(function)
    compiled.get_call_template = functools.partial(_without_constants, compiled.get_call_template)
    cache = _cache_of(function)
    if cache is not None:
        compiled._cache = cache
    return cast(F, compiled)


def _without_constants(template: Callable[..., Any], args: Any, kws: Any) -> Any:
    """How a kernel is called by another: the values of whole numbers do not make it a new one.

    Numba would compile it again for each constant, also where a variable of the caller only starts
    as one.
    """
    plain = tuple(_plain_type(arg) for arg in args)
    return template(plain, {name: _plain_type(arg) for name, arg in kws.items()})


def _plain_type(kind: Any) -> Any:
    return _types.unliteral(kind) if isinstance(kind, _types.IntegerLiteral) else kind


class _KernelCache(_FunctionCache):  # type: ignore[misc]
    """Numba's cache of compiled code, stale as soon as any kernel changes; it never fails a call.

    Numba takes what it kept for fresh while the kernel's own file is as it was; but a kernel holds
    the code of the kernels that it calls, wherever they stand.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file._source_stamp = (self._cache_file._source_stamp, _SOURCES)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was kept for a signature; nothing where the file is damaged or cannot be read."""
        try:
            kept = super().load_overload(sig, target_context)
        except Exception:  # whatever unpickling damaged bytes raises
            with contextlib.suppress(OSError):
                self.flush()
            kept = None
        if kept is None:
            say_once("Compiling numerical kernels: once, which takes up to a few minutes.")
        return kept

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, where there is room."""
        with contextlib.suppress(OSError):
            super().save_overload(sig, data)


def _cache_of(function: Callable[..., Any]) -> _KernelCache | None:
    """A cache in `NUMBA_CACHE_DIR`, beside the source, at home, in a temporary folder, or none."""
    with contextlib.suppress(RuntimeError):
        return _KernelCache(function)
    before, _config.CACHE_DIR = _config.CACHE_DIR, temporary_home()
    try:
        return _KernelCache(function) if _config.CACHE_DIR else None
    except RuntimeError:
        return None
    finally:
        _config.CACHE_DIR = before


def _sources(folder: Path) -> str:
    """A hash of every module under a folder that has kernels."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(folder.rglob("*.py")):
        text = path.read_bytes()
        if _DECORATED.search(text) or path == Path(__file__):
            digest.update(text)
    return digest.hexdigest()


_SOURCES = _sources(Path(__file__).parents[1])
