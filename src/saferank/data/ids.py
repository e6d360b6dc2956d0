"""Ids of queries and documents: int64 where all are whole numbers as usually spelled, else text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from saferank._core.flat import Array, Ints
from saferank._core.kernels import kernel
from saferank.data.letor.decimals import Bytes
from saferank.errors import InputError


def check_texts(ids: pa.Array | pa.ChunkedArray) -> None:
    """Refuse ids that hold the character NUL: NumPy drops it at the end, and two would be one."""
    bad = ids.filter(pc.match_substring(ids, "\x00"))
    if len(bad):
        raise InputError(f"ids must be texts without the character NUL; got {bad[0].as_py()!r}.")


def words_at(text: Bytes, spans: npt.NDArray[np.int32]) -> Array:
    """The bytes of each span (first, length) as a NumPy array of byte strings."""
    width = max(int(spans[:, 1].max(initial=1)), 1)
    return _copy_spans(text, spans, width).view(f"S{width}")[:, 0]


def joined(parts: Sequence[Array]) -> Array:
    """Byte strings of several arrays in one, as wide as the widest."""
    return np.concatenate(parts) if parts else np.zeros(0, dtype="S1")


def from_words(words: Array) -> tuple[Array, int | None]:
    """Ids from UTF-8 byte strings, and the place of the first that is not UTF-8 (else None).

    >>> from_words(np.array([b"7", b"-3"]))
    (array([ 7, -3]), None)
    >>> from_words(np.array([b"7", b"07"]))
    (array(['7', '07'], dtype='<U2'), None)
    """
    whole = np.empty(words.size, dtype=np.int64)
    letters = np.ascontiguousarray(words).view(np.uint8).reshape(words.size, -1)
    if _whole_numbers(letters, whole):
        return whole, None
    try:
        return words.astype(np.str_), None
    except UnicodeDecodeError:
        pass
    try:
        return np.char.decode(words, "utf-8"), None
    except UnicodeDecodeError:
        return whole, next(place for place, word in enumerate(words) if not _is_utf8(word))


def _is_utf8(word: bytes) -> bool:
    try:
        word.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


@kernel
def differs(text: Bytes, spans: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Does a span hold other bytes than the span before it? True for the first."""
    other = np.ones(spans.shape[0], dtype=np.bool_)
    for row in range(1, spans.shape[0]):
        length = spans[row, 1]
        if length == spans[row - 1, 1]:
            here, there = spans[row, 0], spans[row - 1, 0]
            step = 0
            while step < length and text[here + step] == text[there + step]:
                step += 1
            other[row] = step < length
    return other


@kernel
def _copy_spans(text: Bytes, spans: npt.NDArray[np.int32], width: int) -> Bytes:
    """The bytes of each span, filled up with zeros to `width`."""
    copied = np.zeros((spans.shape[0], width), dtype=np.uint8)
    for row in range(spans.shape[0]):
        for step in range(spans[row, 1]):
            copied[row, step] = text[spans[row, 0] + step]
    return copied


@kernel
def _whole_numbers(words: Bytes, out: Ints) -> bool:
    """Read zero-filled words as int64; False unless each is one in its only spelling."""
    for row in range(words.shape[0]):
        word = words[row]
        negative = word.size > 0 and word[0] == 45
        at = int(negative)
        first, value = at, 0
        while at < word.size and word[at] != 0:
            digit = int(word[at]) - 48
            if digit < 0 or digit > 9 or value > (2**63 - 1 - digit) // 10:
                return False
            value = value * 10 + digit
            at += 1
        if at == first or (word[first] == 48 and (at > first + 1 or negative)):
            return False
        out[row] = -value if negative else value
    return True
