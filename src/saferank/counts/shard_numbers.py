"""Which shard a query belongs to: by a hash of its id, the same in every engine and in memory.

The hashes of all ids are cut into as many equal ranges as there are shards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from saferank._core.flat import Ints
from saferank.counts.hashed_ids import digest_id, mixed_ids
from saferank.counts.hashing import BITS, Hash
from saferank.errors import require

MOST_SHARDS: Final = 4096
_SEED: Final = 34
"""Of the hash: not one that sessions, users or queries are set aside by."""
_DIGITS: Final = 16


def check_shards(shards: int) -> None:
    """`InputError` unless so many shards can be made."""
    whole = isinstance(shards, int) and not isinstance(shards, bool)
    require(whole and 1 <= shards <= MOST_SHARDS, "shards", f"in 1..{MOST_SHARDS}", shards)


def shard_of(ids: Any, shards: int, engine: str = "duckdb") -> Any:
    """The shard of each id of an Ibis column; null where the id is.

    >>> import ibis
    >>> import pyarrow as pa
    >>> ids = ibis.memtable(pa.table({"query_id": [1, 2, 3, 4, 5]})).query_id
    >>> shard_of(ids, 3).to_pyarrow().to_pylist()
    [0, 2, 0, 2, 1]
    """
    hashed = Hash(1.0, _SEED, engine)
    if not ids.type().is_string():
        return ((hashed.mixed(ids) * shards) >> BITS).cast("int32")
    # halved again and again: each row compares its digest with a few bounds, not with all
    number = _below(hashed.digest(ids), _bounds(shards), 0, shards).cast("int32")
    return ids.isnull().ifelse(None, number)


def shard_numbers(ids: Sequence[int] | Sequence[str], shards: int) -> Ints:
    """`shard_of` of ids that are all whole numbers, or all text.

    >>> shard_numbers([1, 2, 3, 4, 5], 3)
    array([0, 2, 0, 2, 1])
    """
    texts = [value for value in ids if isinstance(value, str)]
    if texts:
        starts = np.array(_bounds(shards)[1:], dtype=f"<U{_DIGITS}")
        digests = np.array([digest_id(text, _SEED)[:_DIGITS] for text in texts])
        return np.searchsorted(starts, digests, side="right").astype(np.int64)
    numbers = [value for value in ids if isinstance(value, int)]
    return (mixed_ids(numbers, _SEED) * shards) >> BITS


def _bounds(shards: int) -> list[str]:
    """The first digits of each shard's range of digests."""
    whole = 16**_DIGITS
    return [f"{-(-shard * whole // shards):0{_DIGITS}x}" for shard in range(shards)]


def _below(digest: Any, bounds: list[str], first: int, last: int) -> Any:
    """The shard of a digest, which is one of first..last - 1."""
    import ibis

    if last - first == 1:
        return ibis.literal(first, "int32")
    middle = (first + last) // 2
    upper, lower = (_below(digest, bounds, *part) for part in ((middle, last), (first, middle)))
    return (digest >= bounds[middle]).ifelse(upper, lower)
