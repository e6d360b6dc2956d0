"""A sketch of sessions: a sample by hash of their ids, by which counts tell what they share.

Counts do not know sessions any more. A sample that every log takes in the same way (ids whose hash
ends in enough zero bits) shows whether sessions of one log are among those of another, however
either was counted: whole, in days, with conditions, cut at a rank, split in another way.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from saferank.errors import InputError, require

KEY = "saferank.sessions"
"""In the metadata of counts."""
MOST = 1024
"""Ids in a sketch, at most about: with as many, a share of one in a hundred is found."""
DIGIT = 4
"""Bits of a hexadecimal digit, of which text's hash is made."""
_LONGEST = 1 << 20


@dataclass(frozen=True)
class Sketch:
    """Sampled sessions: hashes of those ids whose hash ends in `bits` zero bits.

    >>> one, other = Sketch(0, frozenset({"16", "17"})), Sketch(0, frozenset({"17", "18"}))
    >>> one.shared(other)
    0.5
    """

    bits: int
    ids: frozenset[str]

    def at(self, bits: int) -> Sketch:
        """The same with fewer ids: those that a sketch of so many bits would have."""
        if bits <= self.bits:
            return self
        return Sketch(bits, frozenset(one for one in self.ids if zero_bits(one) >= bits))

    def shared(self, other: Sketch) -> float | None:
        """Share of these sessions that the other has, too; none where there is nothing to tell."""
        bits = max(self.bits, other.bits)
        mine, theirs = self.at(bits).ids, other.at(bits).ids
        return len(mine & theirs) / len(mine) if mine else None

    def __or__(self, other: Sketch) -> Sketch:
        bits = max(self.bits, other.bits)
        return Sketch(bits, self.at(bits).ids | other.at(bits).ids).thinned()

    def without(self, other: Sketch) -> Sketch:
        """Sessions that the other does not have."""
        bits = max(self.bits, other.bits)
        return Sketch(bits, self.at(bits).ids - other.at(bits).ids)

    def thinned(self) -> Sketch:
        """At most about `MOST` ids."""
        sketch = self
        while len(sketch.ids) > 2 * MOST:
            sketch = sketch.at(sketch.bits + 1)
        return sketch

    def to_dict(self) -> dict[str, Any]:
        """The sketch for JSON."""
        return {"bits": self.bits, "ids": sorted(self.ids)}

    @classmethod
    def from_dict(cls, record: Any) -> Sketch:
        """The sketch of a record, which may come from elsewhere."""
        try:
            bits, ids = record["bits"], record["ids"]
            sane = isinstance(bits, int) and 0 <= bits <= 64 and len(ids) <= 1 << 16
            require(sane and all(isinstance(one, str) for one in ids), "sessions", "a sketch", bits)
            return cls(bits, frozenset(ids))
        except (KeyError, TypeError) as error:
            raise InputError(f"A sketch of sessions is malformed; {error!r}.") from error


@dataclass(frozen=True)
class Sketches:
    """Of all sessions of counts, and of those to judge by."""

    everything: Sketch
    judge: Sketch | None = None

    def __or__(self, other: Sketches) -> Sketches:
        both = [one.judge for one in (self, other) if one.judge is not None]
        judge = both[0] | both[1] if len(both) == 2 else next(iter(both), None)
        return Sketches(self.everything | other.everything, judge)

    def to_text(self) -> str:
        """For the metadata of a file."""
        judge = None if self.judge is None else self.judge.to_dict()
        return json.dumps({"all": self.everything.to_dict(), "judge": judge})

    @classmethod
    def of_metadata(cls, metadata: Mapping[bytes, bytes] | None) -> Sketches | None:
        """What the metadata of a file say."""
        text = (metadata or {}).get(KEY.encode())
        if text is None:
            return None
        require(len(text) <= _LONGEST, "sessions of the counts", "a sketch", f"{len(text)} bytes")
        try:
            record = json.loads(text)
            judge = record["judge"]
            return cls(
                Sketch.from_dict(record["all"]),
                None if judge is None else Sketch.from_dict(judge),
            )
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise InputError("`sessions` of the counts must be a sketch; it is none.") from error


def merged(sketches: Iterable[Sketches | None]) -> Sketches | None:
    """Of several tables together; none unless all have one."""
    result: Sketches | None = None
    for one in sketches:
        if one is None:
            return None
        result = one if result is None else result | one
    return result


def bits_for(sessions: int) -> int:
    """Zero bits that leave at most about `MOST` of so many sessions."""
    return max(0, math.ceil(math.log2(max(sessions, 1) / MOST)))


def zero_bits(identifier: str) -> int:
    """Zero bits at the end of a hash: of a whole number, or of text's digits after `x`."""
    if identifier.startswith("x"):
        digits = identifier[1:]
        rest = digits.rstrip("0")
        zeros = DIGIT * (len(digits) - len(rest))
        last = int(rest[-1], 16) if rest and rest[-1] in "0123456789abcdef" else 1
        return zeros + ((last & -last).bit_length() - 1 if rest else 0)
    value = int(identifier) if identifier.isdigit() and len(identifier) <= 20 else 1
    return 64 if value == 0 else (value & -value).bit_length() - 1
