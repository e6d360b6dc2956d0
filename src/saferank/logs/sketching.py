"""A sketch of the sessions of a log, in one look at their ids."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import Any

from saferank.counts.hashing import BITS, Hash
from saferank.counts.sketch import DIGIT, Sketch, Sketches, bits_for
from saferank.logs.engines.running import Engine

_DIGITS = 16
_SEED = 20
"""Of the hash of sketches: one for all logs, as they are compared with each other."""


def sketch_of(running: Engine, table: Any, hashed: Hash | None, sessions: int) -> Sketches:
    """The sampled sessions of an Ibis table of `session_id`, and those of them to judge by.

    `sessions` is about how many there are. Where there is a `unit` it is set aside as a whole.
    """
    bits = bits_for(sessions)
    column = table.session_id
    chosen = table.filter(column.notnull(), ends_in_zeros(column, bits, running.name))
    if "unit" in table.columns:
        chosen = chosen.group_by("session_id").agg(unit=chosen.unit.min())
    else:
        chosen = chosen.select("session_id").distinct()
    value = _value(chosen.session_id, running.name)
    own = chosen.unit if "unit" in table.columns else chosen.session_id
    judged = {} if hashed is None else {"judged": hashed.chooses(own)}
    sampled = running.fetch(chosen.select(value=value, **judged)).to_pydict()
    everything = Sketch(bits, frozenset(map(str, sampled["value"])))
    if hashed is None:
        return Sketches(everything)
    pairs = zip(sampled["value"], sampled["judged"], strict=True)
    return Sketches(everything, Sketch(bits, frozenset(str(v) for v, own in pairs if own)))


def _hash(engine: str, seed: int) -> Hash:
    return Hash(1.0, seed, engine)


def ends_in_zeros(column: Any, bits: int, engine: str) -> Any:
    """Whether the hash of an id ends in so many zero bits."""
    import ibis

    if bits == 0:
        return ibis.literal(True)
    if not column.type().is_string():
        return (_hash(engine, _SEED).mixed(column) & ((1 << bits) - 1)) == 0
    digest = _hash(engine, _SEED).digest(column)
    whole, some = divmod(bits, DIGIT)
    tests = []
    if whole:
        tests.append(digest.substr(_DIGITS - whole, whole) == "0" * whole)
    if some:
        even = [f"{value:x}" for value in range(0, 1 << DIGIT, 1 << some)]
        tests.append(digest.substr(_DIGITS - whole - 1, 1).isin(even))
    number = _number(column, engine)
    if number is None:
        return reduce(and_, tests)
    return number.isnull().ifelse(reduce(and_, tests), ends_in_zeros(number, bits, engine))


def _value(column: Any, engine: str) -> Any:
    """62 bits of a whole number, or 64 of text, as text; the sampled ones are the last."""
    import ibis

    if not column.type().is_string():
        low, high = (_hash(engine, seed).mixed(column) for seed in (_SEED, _SEED + 1))
        return (high * (1 << BITS) + low).cast("string")
    text = ibis.literal("x") + _hash(engine, _SEED).digest(column).substr(0, _DIGITS)
    number = _number(column, engine)
    return text if number is None else number.isnull().ifelse(text, _value(number, engine))


def _number(column: Any, engine: str) -> Any | None:
    """Text that is a whole number, as that number: an id is the same in CSV and in Parquet.

    Null for other text (`007` is no number); none where the engine cannot try.
    """
    import ibis

    if engine not in ("duckdb", "spark"):
        return None
    number = column.try_cast("int64")
    return (number.cast("string") == column).ifelse(number, ibis.null("int64"))
