"""The sample of sessions that counts carry: chosen by the engine, hashed in memory."""

from __future__ import annotations

import hashlib
from pathlib import Path

import ibis
import numpy as np
import pyarrow as pa
import pytest
from splits import is_judged, numpy_hash

from saferank.counts.hashing import Hash
from saferank.counts.sketch import MOST
from saferank.logs.engines.running import opened
from saferank.logs.sketching import sketch_of

SEED = 20
ODD = ["007", "-0", "1e3", " 5", "5 ", "+5", "", "-", "é", str(2**63), str(-(2**63)), "-12", "0"]


def as_number(value: int | str) -> int | None:
    """The 64-bit number that an id is, as a column of numbers would have it."""
    if isinstance(value, int):
        return value
    plain = value.removeprefix("-").isdecimal() and value.isascii()
    fits = plain and -(2**63) <= int(value) < 2**63
    return int(value) if fits and str(int(value)) == value else None


def restated(value: int | str) -> tuple[int, str]:
    """The hash of an id as a number, whose last bits choose it, and as a sketch has it."""
    number = as_number(value)
    if number is None:
        digits = hashlib.md5(f"{SEED}:{value}".encode()).hexdigest()[:16]
        return int(digits, 16), f"x{digits}"
    low, high = (int(numpy_hash(np.array([number]), seed)[0]) for seed in (SEED, SEED + 1))
    return low, str((high << 31) + low)


def ids_of(kind: str) -> list[int] | list[str]:
    numbers = np.random.default_rng(0).integers(-(2**62), 2**62, size=300).tolist()
    texts = [f"{number & 2**40:x}{number % 997}" for number in numbers]
    return {"numbers": numbers, "text": texts, "both": [*map(str, numbers), *texts, *ODD]}[kind]


@pytest.mark.parametrize("kind", ["numbers", "text", "both"])
@pytest.mark.parametrize("bits", [0, 1, 4, 6])
@pytest.mark.parametrize("users", [False, True])
def test_a_sketch_is_the_restated_sample(kind: str, bits: int, users: bool, tmp_path: Path) -> None:
    ids = ids_of(kind)
    expected = {value: restated(value) for value in ids}
    sampled = [value for value in expected if expected[value][0] % 2**bits == 0]
    columns = {"session_id": pa.array([*ids, *ids, None])}
    unit = {value: f"user {number % 7}" for number, value in enumerate(expected)}
    if users:
        columns["unit"] = pa.array([*(unit[value] for value in [*ids, *ids]), "nobody"])
    with opened("duckdb", memory=None, spill=tmp_path) as running:
        table = ibis.memtable(pa.table(columns))
        sketches = sketch_of(running, table, Hash(0.3, 5), MOST << bits)
    judged = [value for value in sampled if is_judged(unit[value] if users else value, 0.3, 5)]
    assert sketches.everything.bits == bits
    assert sketches.everything.ids == {expected[value][1] for value in sampled}
    assert sketches.judge is not None
    assert sketches.judge.ids == {expected[value][1] for value in judged}
