"""Where NumPy's own arrays lie: large ones in files without names, by its memory handler.

Sums, products and index arrays of all documents are made by ordinary NumPy code in every room of
the house. Within `arrays_in_files` each of them that takes at least so many bytes is mapped from a
file of its own (`O_TMPFILE`), which is gone with the array: NumPy asks for its data through a
handler (NEP 49), and this is one. The values are the same, and so is the code that makes them.

Mapped pages count as the process's memory while they are in its tables. A thread looks now and
then, and above a limit it has the tables forget them all; the system's page cache, which is not the
process's, keeps what it has room for. That changes no value: the pages of a shared file come back.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import mmap
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

_SLOTS: Final = 4096
"""Arrays that can be mapped at a time; further ones lie in memory."""
_LEAST, _FOLDER, _USED, _FIRST = 0, 1, 2, 8
"""Places in the state: bytes of the smallest mapped array, the folder's name, slots in use, the
first slot. A slot is an address and its bytes."""
_PAUSE: Final = 0.02
"""Seconds between two looks at the process's memory."""
_SET_HANDLER: Final = 304
"""`PyDataMem_SetHandler` in NumPy's table of functions, which keeps its places."""
_NAME: Final = b"mem_handler"
_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC | getattr(os, "O_TMPFILE", 0)
_ACCESS: Final = mmap.PROT_READ | mmap.PROT_WRITE
_PAGE: Final = mmap.PAGESIZE
_SHARED: Final = mmap.MAP_SHARED
_DONTNEED: Final = getattr(mmap, "MADV_DONTNEED", 4)

_numba: Any = numba  # which carries no annotations for these
types = _numba.types
_long, _int, _none = types.intp, types.int32, types.void


def _compiled(function: F) -> F:
    """Compile a function that keeps the interpreter lock, and fails with no exception."""
    return cast(F, _numba.njit(error_model="numpy")(function))


def _foreign(name: str, result: Any, *arguments: Any) -> Any:
    return types.ExternalFunction(name, result(*arguments))


_malloc = _foreign("malloc", _long, _long)
_calloc = _foreign("calloc", _long, _long, _long)
_realloc = _foreign("realloc", _long, _long, _long)
_free = _foreign("free", _none, _long)
_open = _foreign("open", _int, _long, _int, _int)
_close = _foreign("close", _int, _int)
_allocate = _foreign("posix_fallocate", _int, _int, _long, _long)
_mmap = _foreign("mmap", _long, _long, _long, _int, _int, _int, _long)
_munmap = _foreign("munmap", _int, _long, _long)
_madvise = _foreign("madvise", _int, _long, _long, _int)
_memcpy = _foreign("memcpy", _long, _long, _long, _long)


class _Allocator(ctypes.Structure):
    """`PyDataMemAllocator`."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("ctx", "malloc", "calloc", "realloc", "free")]


class _Handler(ctypes.Structure):
    """`PyDataMem_Handler`."""

    _fields_ = [
        ("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("allocator", _Allocator),
    ]  # fmt: skip


@_compiled
def _slot_of(state: Any, address: int) -> Any:
    for slot in range(state[_USED]):
        if state[_FIRST + 2 * slot] == address:
            return slot
    return -1


@_compiled
def _map_file(state: Any, size: int) -> Any:
    slot = _slot_of(state, 0)
    if slot < 0:
        slot = state[_USED]
    if slot >= _SLOTS:
        return 0
    file = _open(state[_FOLDER], _int(_FLAGS), _int(0o600))
    if file < 0:
        return 0
    address = -1
    # a write to a mapped page for which the disk has no room later would end the process
    if _allocate(file, 0, size) == 0:
        address = _mmap(0, size, _int(_ACCESS), _int(_SHARED), file, 0)
    _close(file)
    if address == -1:
        return 0
    state[_FIRST + 2 * slot], state[_FIRST + 2 * slot + 1] = address, size
    state[_USED] = max(state[_USED], slot + 1)
    return address


@_compiled
def _take(state: Any, size: int) -> Any:
    address = _map_file(state, size) if size >= state[_LEAST] else 0
    return address if address != 0 else _malloc(max(size, 1))


@_compiled
def _give_back(state: Any, address: int) -> None:
    slot = _slot_of(state, address) if address != 0 and address % _PAGE == 0 else -1
    if slot < 0:
        _free(address)
        return
    _munmap(address, state[_FIRST + 2 * slot + 1])
    state[_FIRST + 2 * slot] = 0


@_compiled
def _forget(state: Any) -> None:
    # keeps the interpreter lock: an address that was freed meanwhile could be another array's
    for slot in range(state[_USED]):
        if state[_FIRST + 2 * slot] != 0:
            address, size = state[_FIRST + 2 * slot], state[_FIRST + 2 * slot + 1]
            _madvise(address, size, _int(_DONTNEED))


def _handler_malloc(context: Any, size: int) -> Any:
    return _take(_numba.carray(context, _FIRST + 2 * _SLOTS), size)


def _handler_calloc(context: Any, number: int, size: int) -> Any:
    state = _numba.carray(context, _FIRST + 2 * _SLOTS)
    if number * size < state[_LEAST]:
        return _calloc(max(number, 1), max(size, 1))
    address = _map_file(state, number * size)  # a fresh file is all zeros
    return address if address != 0 else _calloc(number, size)


def _handler_realloc(context: Any, address: int, size: int) -> Any:
    state = _numba.carray(context, _FIRST + 2 * _SLOTS)
    slot = _slot_of(state, address) if address != 0 and address % _PAGE == 0 else -1
    if slot < 0:
        return _realloc(address, max(size, 1))
    fresh = _take(state, size)
    if fresh != 0:
        _memcpy(fresh, address, min(size, state[_FIRST + 2 * slot + 1]))
        _give_back(state, address)
    return fresh


def _handler_free(context: Any, address: int, _size: int) -> None:
    _give_back(_numba.carray(context, _FIRST + 2 * _SLOTS), address)


@cache
def _functions() -> tuple[Any, ...]:
    """The handler's functions, compiled; they are called with the interpreter lock held."""
    state = types.CPointer(_long)
    return tuple(
        _numba.cfunc(kind)(function)
        for function, kind in (
            (_handler_malloc, _long(state, _long)),
            (_handler_calloc, _long(state, _long, _long)),
            (_handler_realloc, _long(state, _long, _long)),
            (_handler_free, _none(state, _long, _long)),
        )
    )


class _Files:
    """A handler, and the arrays that it has mapped."""

    def __init__(self, least: int, folder: Path) -> None:
        self.folder = ctypes.create_string_buffer(os.fsencode(folder))
        self.state = np.zeros(_FIRST + 2 * _SLOTS, dtype=np.intp)
        self.state[_LEAST], self.state[_FOLDER] = least, ctypes.addressof(self.folder)
        calls = [function.address for function in _functions()]
        self.handler = _Handler(b"saferank", 1, _Allocator(self.state.ctypes.data, *calls))
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p,
                                                       ctypes.c_void_p)  # fmt: skip
        self.capsule = new(ctypes.addressof(self.handler), _NAME, None)

    def forget(self) -> None:
        """Take all mapped pages out of the process's tables."""
        _forget(self.state)


_kept: list[_Files] = []
"""Arrays may outlive the block that made them, and their handler must outlive them."""


def _set_handler(capsule: Any) -> Any:
    """Have NumPy take the data of new arrays from a handler; returns the one before."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    umath: Any = importlib.import_module("numpy._core._multiarray_umath")
    table = ctypes.cast(pointer(umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    set_ = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[_SET_HANDLER] or 0)
    return set_(capsule)


@contextmanager
def arrays_in_files(least: int, folder: Path | None, most: int) -> Iterator[None]:
    """Arrays of at least so many bytes made inside lie in files of a folder.

    Parameters
    ----------
    least
        Bytes of the smallest array that lies in a file.
    folder
        Where the files lie, by default where temporary files do. Where it cannot hold files
        without names, arrays lie in memory.
    most
        Bytes of the process above which mapped pages are taken out of its tables.
    """
    place = Path(tempfile.gettempdir()) if folder is None else folder
    if not _can_hold(place):
        yield
        return
    files = _Files(least, place)
    files.forget()  # compiled before it is needed
    _kept.append(files)
    former = _set_handler(files.capsule)
    ended = threading.Event()
    watch = threading.Thread(target=_watch, args=(files, most, ended), daemon=True)
    watch.start()
    try:
        yield
    finally:
        _set_handler(former)
        ended.set()
        watch.join()


def _can_hold(folder: Path) -> bool:
    """Whether a folder takes files that never had a name."""
    if not sys.platform.startswith("linux"):
        return False
    with contextlib.suppress(OSError):
        os.close(os.open(folder, _FLAGS, 0o600))
        return True
    return False


def _watch(files: _Files, most: int, ended: threading.Event) -> None:
    """Forget mapped pages whenever the process has more in memory than it should."""
    with Path("/proc/self/statm").open("rb", buffering=0) as statm:
        before = int(os.pread(statm.fileno(), 100, 0).split()[2])  # the libraries themselves
        while not ended.wait(_PAUSE):
            _, resident, shared, *_ = map(int, os.pread(statm.fileno(), 100, 0).split())
            if resident * _PAGE > most and (shared - before) * _PAGE > most // 8:
                files.forget()
