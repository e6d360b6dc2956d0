"""The hash of `hashing`, of ids that are in memory: the same numbers as every engine has."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import numpy as np

from saferank._core.flat import Ints
from saferank.counts.hashing import BITS, LOW, Hash, constants

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")


def mixed_ids(ids: Sequence[int], seed: int) -> Ints:
    """`Hash.mixed` of whole numbers.

    >>> mixed_ids([1, 2], seed=0).max() < 2**31
    np.True_
    """
    add, times = constants(seed)
    bits = np.array([value & (1 << 2 * BITS) - 1 for value in ids], dtype=np.int64)
    mixed = _folded(((bits & LOW) ^ add[0]) * ((bits >> BITS) ^ times[0]))
    mixed = _folded((mixed ^ add[1]) * times[1])
    last: Ints = ((mixed ^ add[2]) * times[2]) & LOW
    return last


def _folded(product: Ints) -> Ints:
    folded: Ints = (product >> BITS) ^ (product & LOW)
    return folded


def digest_id(text: str, seed: int) -> str:
    """`Hash.digest` of a text."""
    return hashlib.md5(f"{seed}:{text}".encode(), usedforsecurity=False).hexdigest()


def choose_ids(hashed: Hash, ids: Sequence[int] | Sequence[str]) -> list[bool]:
    """`Hash.chooses` of ids that are all whole numbers, or all text.

    >>> choose_ids(Hash(0.5, seed=0), [1, 2, 3, 4, 5])
    [False, True, False, False, True]
    """
    texts = [value for value in ids if isinstance(value, str)]
    if texts:
        return [digest_id(text, hashed.seed) < hashed.text_bound() for text in texts]
    numbers = [value for value in ids if isinstance(value, int)]
    below: list[bool] = (mixed_ids(numbers, hashed.seed) < hashed.bound()).tolist()
    return below


def whole_number(text: str) -> int | None:
    """The 64-bit whole number that a text is, written as it is printed; None for other text.

    >>> whole_number("12"), whole_number("012"), whole_number(str(2**63))
    (12, None, None)
    """
    if _WHOLE.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
