"""Ids of queries and documents: int64 where all are whole numbers as usually spelled, else text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from saferank.data import letor_kernel as kernels
from saferank.data.letor_kernel import Bytes
from saferank.flat import Array


def words_at(text: Bytes, spans: npt.NDArray[np.int32]) -> Array:
    """The bytes of each span (first, length) as a NumPy array of byte strings."""
    width = max(int(spans[:, 1].max(initial=1)), 1)
    return kernels.copy_spans(text, spans, width).view(f"S{width}")[:, 0]


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
    if kernels.whole_numbers(letters, whole):
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
