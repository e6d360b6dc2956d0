"""A sketch of the sessions of a log, in one look at their ids."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

from saferank.counts.hashed_ids import choose_ids, digest_id, mixed_ids, whole_number
from saferank.counts.hashing import BITS, Hash
from saferank.counts.sketch import DIGIT, Sketch, Sketches, bits_for, zero_bits
from saferank.logs.engines.running import Engine

_DIGITS = 16
_SEED = 20
"""Of the hash of sketches: one for all logs, as they are compared with each other."""
_LIKE_A_NUMBER = "^-?[0-9]+$"


def sketch_of(running: Engine, table: Any, hashed: Hash | None, sessions: int) -> Sketches:
    """The sampled sessions of an Ibis table of `session_id`, and those of them to judge by.

    `sessions` is about how many there are. Where there is a `unit` it is set aside as a whole. The
    engine chooses the sessions; their hashes are computed here, as they are few.
    """
    bits = bits_for(sessions)
    ids, units = _sampled(running, table, bits)
    values = _values(ids, running.name)
    own = [zero_bits(value) >= bits for value in values]
    everything = Sketch(bits, frozenset(compress(values, own)))
    if hashed is None:
        return Sketches(everything)
    judged = choose_ids(hashed, ids if units is None else units)
    chosen = [mine and judge for mine, judge in zip(own, judged, strict=True)]
    return Sketches(everything, Sketch(bits, frozenset(compress(values, chosen))))


def _sampled(running: Engine, table: Any, bits: int) -> tuple[list[Any], list[Any] | None]:
    """The sampled sessions, and their units where the table has them.

    There may be a few more, whose text is another spelling of a number.
    """
    column = table.session_id
    if "unit" in table.columns:
        rows = table.filter(column.notnull(), ends_in_zeros(column, bits, running.name))
        sampled = running.fetch(rows.group_by("session_id").agg(unit=rows.unit.min()))
        return sampled["session_id"].to_pylist(), sampled["unit"].to_pylist()
    if running.name == "duckdb" and bits:
        (lists,) = running.fetch(_listed(table, bits)).to_pylist()
        return [value for ids in lists.values() for value in ids or ()], None
    rows = table.filter(column.notnull(), ends_in_zeros(column, bits, running.name))
    return running.fetch(rows.select("session_id").distinct())["session_id"].to_pylist(), None


def _listed(table: Any, bits: int) -> Any:
    """Sampled sessions of DuckDB as lists: by the hash of text, and by that of numbers.

    An aggregate computes what its condition repeats once, a filter does not; and text is hashed
    once for each entry of a dictionary where it is the only condition, else once for each row.
    """
    column = table.session_id
    tests = [ends_in_zeros(column, bits, "duckdb")]
    if column.type().is_string():
        number = column.try_cast("int64")
        tests = [_text_ends_in_zeros(column, bits, "duckdb"), ends_in_zeros(number, bits, "duckdb")]
    return table.agg(
        **{
            f"list{index}": column.collect(where=test, distinct=True, include_null=True)
            for index, test in enumerate(tests)
        }
    )


def _hash(engine: str, seed: int) -> Hash:
    return Hash(1.0, seed, engine)


def ends_in_zeros(column: Any, bits: int, engine: str) -> Any:
    """Whether the hash of an id ends in so many zero bits."""
    import ibis

    if bits == 0:
        return ibis.literal(True)
    if not column.type().is_string():
        return _hash(engine, _SEED).ends_in_zeros(column, bits)
    as_text, number = _text_ends_in_zeros(column, bits, engine), _number(column, engine)
    if number is None:
        return as_text
    # most text is no number, which shows sooner than by casting it
    exact = number.isnull().ifelse(as_text, ends_in_zeros(number, bits, engine))
    return (as_text | column.re_search(_LIKE_A_NUMBER)) & exact


def _text_ends_in_zeros(column: Any, bits: int, engine: str) -> Any:
    """Whether the digest of an id ends in so many zero bits, were it a number or not."""
    digest = _hash(engine, _SEED).digest(column)
    whole, some = divmod(bits, DIGIT)
    ends = [f"{value:x}" for value in range(0, 1 << DIGIT, 1 << some)] if some else [""]
    length = whole + bool(some)
    return digest.substr(_DIGITS - length, length).isin([end + "0" * whole for end in ends])


def _values(ids: Sequence[Any], engine: str) -> list[str]:
    """62 bits of a whole number, or 64 of text, as text; the sampled ones are the last."""
    numbers = [_number_of(value, engine) for value in ids]
    whole = [number for number in numbers if number is not None]
    low, high = (mixed_ids(whole, seed) for seed in (_SEED, _SEED + 1))
    of_numbers = iter((high * (1 << BITS) + low).tolist())
    return [
        f"x{digest_id(value, _SEED)[:_DIGITS]}" if number is None else str(next(of_numbers))
        for value, number in zip(ids, numbers, strict=True)
    ]


def _number_of(value: int | str, engine: str) -> int | None:
    """An id as the number that it is, also where it is written as text; see `_number`."""
    if isinstance(value, int):
        return value
    return whole_number(value) if engine in _TRIES else None


_TRIES = ("duckdb", "spark")
"""Engines that can try whether text is a number."""


def _number(column: Any, engine: str) -> Any | None:
    """Text that is a whole number, as that number: an id is the same in CSV and in Parquet.

    Null for other text (`007` is no number); none where the engine cannot try.
    """
    import ibis

    if engine not in _TRIES:
        return None
    number = column.try_cast("int64")
    return (number.cast("string") == column).ifelse(number, ibis.null("int64"))
