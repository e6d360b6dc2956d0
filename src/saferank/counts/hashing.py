"""A hash of ids as an Ibis expression: every engine computes the same, so parts never differ.

Engines have hashes of their own, no two alike. Whole numbers are hashed by three multiplications of
31-bit numbers, which no engine overflows, with the halves of the first two products folded onto
each other; text by MD5. The constants come from a seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from saferank._core.seeds import derive
from saferank.errors import InputError

BITS = 31
LOW = 2**BITS - 1
_PLAIN = ("md5",)
_DIGESTS: dict[str, tuple[str, ...]] = {
    "duckdb": _PLAIN,
    "spark": _PLAIN,
    "pyspark": _PLAIN,
    "databricks": _PLAIN,
    "postgres": _PLAIN,
    "snowflake": _PLAIN,
    "mysql": _PLAIN,
    "redshift": _PLAIN,
    "bigquery": ("to_hex", "md5"),
    "trino": ("lower", "to_hex", "md5", "to_utf8"),
    "athena": ("lower", "to_hex", "md5", "to_utf8"),
    "clickhouse": ("lower", "hex", "MD5"),
}
"""How engines write MD5 as lower-case hexadecimal digits: functions, the outermost first."""


@dataclass(frozen=True)
class Hash:
    """A share of all ids, chosen by their hash: the ids of a smaller share are among them."""

    share: float
    seed: int
    engine: str = "duckdb"

    def chooses(self, ids: Any) -> Any:
        """Whether each id of an Ibis column is chosen; null where the id is.

        >>> import ibis
        >>> import pyarrow as pa
        >>> ids = ibis.memtable(pa.table({"session_id": [1, 2, 3, 4, 5]})).session_id
        >>> Hash(0.5, seed=0).chooses(ids).to_pyarrow().to_pylist()
        [False, True, False, False, True]
        """
        if ids.type().is_string():
            return self.digest(ids) < self.text_bound()
        return self.mixed(ids) < self.bound()

    def mixed(self, ids: Any) -> Any:
        """31 bits of a whole number, each of which depends on all of its bits."""
        add, times = constants(self.seed)
        return ((_folded(self._second_product(ids)) ^ add[2]) * times[2]) & LOW

    def ends_in_zeros(self, ids: Any, bits: int) -> Any:
        """Whether `mixed` ends in so many zero bits.

        Its last product, by an odd number, does so exactly if what is multiplied does.
        """
        add, mask = constants(self.seed)[0], (1 << bits) - 1
        product = self._second_product(ids)
        return (((product >> BITS) ^ product) & mask) == (add[2] & mask)

    def _second_product(self, ids: Any) -> Any:
        add, times = constants(self.seed)
        wide = ids if ids.type().nbytes == 8 else ids.cast("int64")
        low, high = (half.cast("int64") for half in (wide & LOW, (wide >> BITS) & LOW))
        mixed = _folded((low ^ add[0]) * (high ^ times[0]))
        return (mixed ^ add[1]) * times[1]

    def bound(self) -> int:
        """What a share of all mixed numbers lies below."""
        return int(self.share * 2**BITS)

    def text_bound(self) -> str:
        """Hexadecimal digits below which a share of all digests lies, as text compares."""
        return f"{int(self.share * 2**64):016x}"

    def digest(self, ids: Any) -> Any:
        """32 hexadecimal digits of a text."""
        import ibis

        if self.engine not in _DIGESTS:
            raise InputError(
                f"`judge` must be 0 where ids of sessions are text and the engine is {self.engine},"
                f" which has no MD5 that saferank knows; got {self.share}."
            )
        value = ibis.literal(f"{self.seed}:") + ids
        for name in reversed(_DIGESTS[self.engine]):
            value = _function(name)(value)
        return value


def knows_text(engine: str) -> bool:
    """Whether an engine has a hash of text that is known here."""
    return engine in _DIGESTS


def constants(seed: int) -> tuple[list[int], list[int]]:
    """Numbers to combine ids with bit by bit, and odd ones of full length to multiply them by."""
    add = [derive(seed, "hash", "add", index) & LOW for index in range(3)]
    times = [derive(seed, "hash", "times", index) & LOW | 1 << (BITS - 1) | 1 for index in range(3)]
    return add, times


def _folded(product: Any) -> Any:
    return (product >> BITS) ^ (product & LOW)


def _function(name: str) -> Any:
    """A function of the engine from text to text."""
    import ibis

    def of_text(value: str) -> str:  # type: ignore[empty-body]
        """Only its name and types are used."""

    of_text.__name__ = name
    return ibis.udf.scalar.builtin(of_text, name=name)
