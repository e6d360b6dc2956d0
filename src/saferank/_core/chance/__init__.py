"""Random numbers inside kernels: streams, and numbers of known laws drawn from them."""

from saferank._core.chance.binomial import binomial
from saferank._core.chance.hypergeometric import hypergeometric
from saferank._core.chance.streams import (
    States,
    after,
    canonical_order,
    numbered,
    stream,
    streams,
    uniform,
)

__all__ = [
    "States",
    "after",
    "binomial",
    "canonical_order",
    "hypergeometric",
    "numbered",
    "stream",
    "streams",
    "uniform",
]
