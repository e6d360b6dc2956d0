"""Large text files, plain or gzipped, in blocks of whole lines, so that memory stays small."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from saferank._core.flat import Ints
from saferank._core.progress import Advance
from saferank.data.letor.decimals import Bytes
from saferank.errors import InputError, require

BLOCK: Final = 1 << 23
"""Bytes of a block: small enough to stay in a processor's cache."""
LONGEST_LINE: Final = 1 << 28
CHUNKS: Final = 16
"""Chunks of a block, whatever the number of threads."""


def blocks(path: Path, advance: Advance, *, size: int = BLOCK) -> Iterator[Bytes]:
    """Blocks of whole lines, each valid until the next; `advance` counts MB of the file."""
    require(path.is_file(), "path", "a file that exists", str(path))
    with path.open("rb") as raw:
        magic = raw.read(2)
        raw.seek(0)
        if magic == b"\x1f\x8b":
            with gzip.GzipFile(fileobj=raw) as unzipped:
                yield from _tracked(path, unzipped, raw, advance, size)
        else:
            length = path.stat().st_size
            yield from _tracked(path, raw, raw, advance, min(size, length + 1))


def _tracked(
    path: Path, text: BinaryIO | gzip.GzipFile, raw: BinaryIO, advance: Advance, size: int
) -> Iterator[Bytes]:
    done = 0
    try:
        for block in _whole_lines(path, text, size):
            yield block
            at = raw.tell()
            advance((at - done) / 1e6)
            done = at
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"`{path}` must be a whole gzip file; {error}.") from error


def _whole_lines(path: Path, text: BinaryIO | gzip.GzipFile, size: int) -> Iterator[Bytes]:
    buffer, filled = bytearray(size), 0
    while True:
        got = _read_into(text, memoryview(buffer)[filled:])
        filled += got
        ended = filled < len(buffer)
        whole = filled if ended else buffer.rfind(b"\n", 0, filled) + 1
        if whole:
            yield np.frombuffer(buffer, dtype=np.uint8, count=whole)
            buffer[: filled - whole] = buffer[whole:filled]
            filled -= whole
        if ended:
            return
        if not whole:
            longer = 2 * len(buffer)
            so_far = f"one of more than {filled:,} bytes"
            require(longer <= LONGEST_LINE, str(path), "lines below 256 MB", so_far)
            buffer = buffer + bytearray(len(buffer))


def _read_into(text: BinaryIO | gzip.GzipFile, room: memoryview) -> int:
    """Fill the room unless the file ends first."""
    filled = 0
    while filled < len(room):
        got = text.readinto(room[filled:])  # type: ignore[union-attr]
        if not got:
            break
        filled += got
    return filled


def line_cuts(block: Bytes, chunks: int = CHUNKS) -> Ints:
    """Where to cut a block into about `chunks` equal chunks of whole lines.

    >>> line_cuts(np.frombuffer(b"a\\nbcd\\ne", dtype=np.uint8), 3)
    array([0, 6, 7, 7])
    """
    text = block.data
    cuts = [0]
    for chunk in range(1, chunks):
        wanted = max(block.size * chunk // chunks, cuts[-1])
        cuts.append(_after_newline(text, wanted))
    return np.array([*cuts, block.size], dtype=np.int64)


def _after_newline(text: memoryview[Any], at: int, step: int = 1 << 12) -> int:
    while at < len(text):
        newline = bytes(text[at : at + step]).find(b"\n")
        if newline >= 0:
            return at + newline + 1
        at += step
    return len(text)
