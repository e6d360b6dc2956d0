"""The split by a hash of ids restated, for tests to compare with."""

from __future__ import annotations

import hashlib

import numpy as np

from saferank.counts.hashing import constants


def numpy_hash(ids: np.ndarray, seed: int) -> np.ndarray:
    """The hash of whole numbers restated: 31 bits of each."""
    low31 = np.uint64(2**31 - 1)
    add, times = ([np.uint64(c) for c in numbers] for numbers in constants(seed))
    bits = ids.astype(np.int64).view(np.uint64) if ids.dtype.kind == "i" else ids

    def fold(product: np.ndarray) -> np.ndarray:
        return (product >> np.uint64(31)) ^ (product & low31)

    low, high = bits & low31, (bits >> np.uint64(31)) & low31
    mixed = fold((low ^ add[0]) * (high ^ times[0]))
    mixed = fold((mixed ^ add[1]) * times[1])
    return ((mixed ^ add[2]) * times[2]) & low31


def is_judged(session: object, share: float, seed: int) -> bool:
    """The part of a session, by NumPy or hashlib."""
    if isinstance(session, str):
        digest = hashlib.md5(f"{seed}:{session}".encode()).hexdigest()
        return int(digest[:16], 16) < int(share * 2**64)
    return bool(numpy_hash(np.array([session]), seed)[0] < int(share * 2**31))
