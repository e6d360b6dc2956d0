"""Random numbers inside kernels: a counter that steps and a hash of it (splitmix64).

A stream is one 64-bit state that its owner carries along: step with `after`, read with `uniform`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from saferank._core.flat import Array, Ints
from saferank._core.kernels import kernel
from saferank._core.seeds import derive

States = npt.NDArray[np.uint64]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_UNIT = 2.0**-53


def stream(seed: int, *words: object) -> np.uint64:
    """The state at which a stream for one purpose starts."""
    return np.uint64(derive(seed, *words))


def streams(seed: int, word: str, ids: Array) -> States:
    """One stream an id, whatever the order of the ids."""
    return np.array([derive(seed, word, name) for name in ids.tolist()], dtype=np.uint64)


def canonical_order(ids: Array) -> Ints:
    """An order of ids that does not depend on the order in which they come."""
    return np.argsort(
        np.array([derive(0, "order", name) for name in ids.tolist()], dtype=np.uint64)
    )


@kernel
def numbered(start: np.uint64, number: int) -> np.uint64:
    """The start of one of many streams, each of a million numbers that no other one has."""
    return start + (np.uint64(number) << np.uint64(20)) * _STEP


@kernel
def after(state: np.uint64) -> np.uint64:
    """The next state."""
    return state + _STEP


@kernel
def uniform(state: np.uint64) -> float:
    """The number in [0, 1) that belongs to a state, of 53 bits."""
    z = (state ^ (state >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    z = z ^ (z >> np.uint64(31))
    return np.int64(z >> np.uint64(11)) * _UNIT
