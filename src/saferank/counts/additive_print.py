"""A fingerprint of counts that adds up: that of a log is the sum of its shards', however cut."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from saferank._core.seeds import derive
from saferank.counts.arrays import Counts

MARK: Final = "sum:"
_HALVES = 2
_SEED = 22
_WORD = np.uint64
_LENGTH = 16  # hexadecimal digits of a half

Words = npt.NDArray[np.uint64]


def additive_print(counts: Counts) -> str:
    r"""A name for the sessions of counts, which adds up over any cut of their queries.

    .. math:: \sum_d h\Big(\sum_k a_k n_{dk} + b_k c_{dk}\Big) + \sum_q h(e N_q) \bmod 2^{64},
              \quad h(0) = 0,

    twice, with other odd numbers. Documents that were never shown and ranks at which none was
    shown do not change it, nor does the order of queries or documents.

    >>> counts = Counts([0, 1, 2], [[3], [4]], [[1], [0]])
    >>> each = [Counts([0, 1], [[n]], [[c]]) for n, c in ((4, 0), (3, 1))]
    >>> added(map(additive_print, each)) == additive_print(counts)
    True
    """
    return MARK + "".join(f"{_half(counts, half):016x}" for half in range(_HALVES))


def added(prints: Iterable[str]) -> str:
    """The print of several counts together."""
    sums = [0] * _HALVES
    for one in prints:
        digits = one.removeprefix(MARK)
        for half in range(_HALVES):
            sums[half] += int(digits[half * _LENGTH : (half + 1) * _LENGTH], 16)
    return MARK + "".join(f"{value % 2**64:016x}" for value in sums)


def _half(counts: Counts, half: int) -> int:
    rows = np.zeros(counts.documents, dtype=_WORD)
    for rank in range(counts.ranks):
        for name, values in (("shown", counts.impressions), ("clicked", counts.clicks)):
            rows += values[:, rank].astype(_WORD) * _odd(half, name, rank)
    queries = counts.sessions.astype(_WORD) * _odd(half, "sessions", 0)
    return (int(_mixed(rows).sum(dtype=_WORD)) + int(_mixed(queries).sum(dtype=_WORD))) % 2**64


def _odd(half: int, name: str, rank: int) -> np.uint64:
    return _WORD(derive(_SEED, name, half, rank) | 1)


def _mixed(words: Words) -> Words:
    """Every bit from all bits, 0 from 0: the finish of SplitMix64."""
    words = (words ^ (words >> _WORD(30))) * _WORD(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> _WORD(27))) * _WORD(0x94D049BB133111EB)
    return words ^ (words >> _WORD(31))
