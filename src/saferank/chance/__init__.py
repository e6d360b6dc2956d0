"""Random numbers inside kernels: streams, and numbers of known laws drawn from them."""

from saferank.chance.binomial import binomial
from saferank.chance.hypergeometric import hypergeometric
from saferank.chance.streams import (
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
