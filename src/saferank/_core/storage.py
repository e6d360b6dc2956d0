"""Matrices that need not fit into memory: beyond a limit they lie in memory-mapped files.

Within `within_memory(size)` a matrix that takes more than an eighth of the size is mapped from a
file without a name, which is gone with the matrix, or with the process, however that ends; so is
any other array of more than a 128th (`array_memory`). It is an array like any other. Loops over a
matrix go by `pieces` (or `take`, `map_rows`), which give the pages of each piece back once it is
done; they stay in the system's page cache as long as that has room. So what a process holds does
not grow with its matrices.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import re
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from saferank._core.array_memory import arrays_in_files
from saferank._core.flat import Array, Floats, Ints
from saferank.errors import require

ROWS: Final = 1 << 16
"""Rows of a piece, at most..."""
_PIECE: Final = 1 << 24
"""...and bytes."""
SHARE: Final = 8
"""A matrix of more than this part of the memory lies in a file: some of them live together."""
ARRAY_SHARE: Final = 128
"""Any other array of more than this part of it does: there may be dozens of them..."""
SMALLEST_MAPPED: Final = 1 << 20
"""...unless it has fewer bytes than this."""
FILLED: Final = 0.75
"""Part of the memory from which on mapped pages are given back by themselves."""
LARGEST: Final = 1 << 35
"""Bytes that a matrix in memory may take: what a file claims to hold is not believed beyond."""
SMALLEST: Final = 50_000_000
"""Bytes that a limit must at least be; the interpreter and its libraries take more than that."""
_SIZE: Final = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([KMGT]i?B)\s*$", re.IGNORECASE)


_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
"""glibc's M_TRIM_THRESHOLD and M_MMAP_THRESHOLD."""
BLOCK_SHARE: Final = 256
"""Blocks of more than this part of the memory go back to the system when they are freed."""


class _Limit(NamedTuple):
    size: float
    folder: Path | None

    @property
    def largest(self) -> float:
        """Bytes of a matrix that is still kept in memory."""
        return self.size / SHARE


_limits: list[_Limit] = [_Limit(np.inf, None)]
"""What holds now is last."""


def parse_size(text: str) -> int:
    """Bytes of a size with its unit.

    >>> parse_size("4GB"), parse_size("1.5 GiB")
    (4000000000, 1610612736)
    """
    match = _SIZE.match(text)
    require(match is not None, "memory", "a size such as 4GB or 500MB", text)
    assert match is not None
    unit = match[2].upper()
    power = "KMGT".index(unit[0]) + 1
    size = int(float(match[1]) * (1024**power if "I" in unit else 1000**power))
    require(size >= SMALLEST, "memory", f"at least {SMALLEST // 10**6}MB", text)
    return size


@contextmanager
def within_memory(size: int | None, folder: Path | None = None) -> Iterator[None]:
    """Matrices made inside that are too large for the memory lie in files of a folder.

    Parameters
    ----------
    size
        Bytes that the process may take; None: as many as it likes.
    folder
        Where the files lie, by default where temporary files do. They have no names.

    Returns
    -------
    A context; what it limited is as before at its end.

    Examples
    --------
    >>> with within_memory(8_000):
    ...     small, large = empty((250, 1)), empty((251, 1))
    >>> is_mapped(small), is_mapped(large)
    (False, True)
    """
    _limits.append(_Limit(np.inf if size is None else size, folder))
    try:
        with contextlib.nullcontext() if size is None else _arrays_within(size, folder):
            yield
    finally:
        _limits.pop()


def _arrays_within(size: int, folder: Path | None) -> AbstractContextManager[None]:
    """All arrays that NumPy makes are mapped where they are large, whoever makes them."""
    _give_memory_back(max(size // BLOCK_SHARE, SMALLEST_MAPPED))
    least = max(size // ARRAY_SHARE, SMALLEST_MAPPED)
    return arrays_in_files(least, folder, int(FILLED * size))


def _give_memory_back(least: int) -> None:
    """Have glibc return blocks of more than so many bytes to the system when they are freed.

    By default it soon keeps blocks of up to 32 MB for later, with gaps between them, whatever the
    limit. Smaller ones are kept, up to some of them: pages that go and come again for each
    temporary array of a loop cost several times what is computed in them.
    """
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL("libc.so.6")
        library.mallopt(_MMAP_THRESHOLD, least)
        library.mallopt(_TRIM_THRESHOLD, 4 * least)


def allowed_memory() -> int | None:
    """Bytes that the process may take; None: as many as it likes."""
    size = _limits[-1].size
    return None if size == np.inf else int(size)


def empty(shape: tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> Array:
    """A matrix of unspecified values, in memory or mapped from a file."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    limit = _limits[-1]
    return np.empty(shape, dtype) if size <= limit.largest else _mapped(shape, dtype, size)


def zeros(shape: tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> Array:
    """A matrix of zeros, in memory or mapped from a file."""
    made = empty(shape, dtype)
    return made if is_mapped(made) else np.zeros(shape, dtype)


def _mapped(shape: tuple[int, ...], dtype: npt.DTypeLike, size: int) -> Array:
    with _nameless_file() as file:
        os.ftruncate(file.fileno(), size)
        if hasattr(os, "posix_fallocate"):
            # a write to a mapped page for which the disk has no room later would end the process
            os.posix_fallocate(file.fileno(), 0, size)
        pages = mmap.mmap(file.fileno(), size)
    return np.frombuffer(pages, dtype).reshape(shape)


def _nameless_file() -> IO[bytes]:
    """A file that is gone once it is neither open nor mapped."""
    return tempfile.TemporaryFile(dir=_limits[-1].folder, prefix=".saferank-")


def capacity() -> int:
    """Bytes that a matrix may take: where files hold them, what the disk has free."""
    limit = _limits[-1]
    if limit.largest == np.inf:
        return LARGEST
    return shutil.disk_usage(limit.folder or tempfile.gettempdir()).free


def peak_memory() -> int:
    """The most bytes that this process has had in memory so far, mapped files included."""
    status = Path("/proc/self/status")
    if status.is_file():  # what getrusage says begins with what the parent had
        match = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
        if match is not None:
            return int(match[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def is_mapped(array: Array) -> bool:
    """Whether an array's values lie in a mapped file."""
    return _pages_of(array) is not None


def _pages_of(array: Any) -> mmap.mmap | None:
    """The mapping that an array is a view of; None also where its file is not what is written to.

    Pages that were written copy-on-write would be lost if they were given back.
    """
    while array is not None and not isinstance(array, mmap.mmap):
        if getattr(array, "mode", None) == "c":
            return None
        array = array.obj if isinstance(array, memoryview) else getattr(array, "base", None)
    return array


def release(array: Array) -> None:
    """Give the pages of a mapped array back; they are read again when they are needed."""
    pages = _pages_of(array)
    if pages is None or array.size == 0:
        return
    whole = np.frombuffer(pages, np.uint8)
    low, high = np.lib.array_utils.byte_bounds(array)
    first = (low - whole.ctypes.data) // mmap.PAGESIZE * mmap.PAGESIZE
    pages.madvise(mmap.MADV_DONTNEED, first, high - whole.ctypes.data - first)


def rows_at_a_time(array: Array) -> int:
    """Rows of a piece: fewer where they are long."""
    long = array.nbytes // max(len(array), 1)
    return max(1, min(ROWS, _PIECE // max(long, 1)))


def pieces(array: Array, rows: int | None = None) -> Iterator[tuple[slice, Array]]:
    """The rows of a matrix, some at a time, each piece given back when the next is asked for."""
    rows = rows_at_a_time(array) if rows is None else rows
    for start in range(0, len(array), rows):
        place = slice(start, min(start + rows, len(array)))
        piece = array[place]
        yield place, piece
        release(piece)


def put(target: Array, place: slice, values: Array) -> None:
    """Write a piece of a matrix, and give it back."""
    target[place] = values
    release(target[place])


def take(array: Array, positions: Ints) -> Array:
    """Rows of a matrix by their positions, as a matrix of their own."""
    taken = empty((len(positions), *array.shape[1:]), array.dtype)
    rows = rows_at_a_time(array)
    if not is_mapped(taken) and len(positions) <= rows:
        taken = array[positions]
        release(array)
        return taken
    for place, chosen in pieces(positions, rows):
        put(taken, place, array[chosen])
        release(array)
    return taken


def take_columns(array: Array, columns: Sequence[int]) -> Array:
    """Columns of a matrix by their places, as a matrix of their own."""
    chosen = list(columns)
    taken = empty((len(array), len(chosen)), array.dtype)
    for place, piece in pieces(array):
        put(taken, place, piece[:, chosen])
    return taken


def columns(array: Array) -> Iterator[tuple[int, Array]]:
    """The columns of a matrix one by one; of a mapped one as many per look as memory allows."""
    width = array.shape[1]
    if not is_mapped(array):
        yield from ((place, array[:, place]) for place in range(width))
        return
    together = max(1, int(min(_limits[-1].largest // (len(array) * array.itemsize), width)))
    for first in range(0, width, together):
        some = np.empty((min(together, width - first), len(array)), array.dtype)
        for place, piece in pieces(array):
            some[:, place] = piece[:, first : first + together].T
        yield from enumerate(some, start=first)


def map_rows(call: Callable[[Array], Floats], array: Array) -> Floats:
    """What a function of rows says of each, one number per row, some rows at a time."""
    if len(array) <= rows_at_a_time(array):
        return call(array)
    values = np.empty(len(array))
    for place, piece in pieces(array):
        values[place] = call(piece)
    return values


class RowStack:
    """Blocks of rows whose number is not known before, until they are one matrix.

    >>> stack = RowStack()
    >>> for block in ([[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]):
    ...     stack.add(np.array(block, dtype=np.float32))
    >>> stack.matrix(np.array([2, 0, 1]))
    array([[5., 6.],
           [1., 2.],
           [3., 4.]], dtype=float32)
    """

    def __init__(self) -> None:
        self.rows, self.width = 0, 0
        self._blocks: list[Array] = []
        self._held = 0
        self._file: IO[bytes] | None = None

    def add(self, block: Array) -> None:
        """Take a block; every block has as many columns as the first."""
        self.width = block.shape[1]
        self.rows += len(block)
        self._blocks.append(block)
        self._held += block.nbytes
        if self._file is not None or self._held > _limits[-1].largest:
            self._spill()

    def _spill(self) -> None:
        """Write the blocks in memory to the file."""
        if self._file is None:
            self._file = _nameless_file()
        for block in self._blocks:
            self._file.write(np.ascontiguousarray(block).data)
        self._blocks, self._held = [], 0

    def matrix(self, order: Ints) -> Array:
        """All rows in the given order; blocks are given back as they are copied."""
        if self._file is None:
            return self._in_memory(order)
        self._spill()
        self._file.flush()
        with self._file as file:
            pages = mmap.mmap(file.fileno(), 0)
        stored = np.frombuffer(pages, np.float32).reshape(self.rows, self.width)
        kept = bool(np.array_equal(order, np.arange(order.size)))
        return stored if kept else take(stored, order)

    def _in_memory(self, order: Ints) -> Array:
        matrix = empty((order.size, self.width))
        place = np.empty_like(order)
        place[order] = np.arange(order.size)
        row = 0
        self._blocks.reverse()
        while self._blocks:
            block = self._blocks.pop()
            matrix[place[row : row + len(block)]] = block
            row += len(block)
        return matrix
