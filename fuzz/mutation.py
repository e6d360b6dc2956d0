"""Mutations of bytes, of text, and of JSON, each drawn from a generator of the caller's."""

from __future__ import annotations

import json
import random
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any

NUMBERS = [
    b"0", b"-0", b"1", b"-1", b"2", b"0.5", b"1e-320", b"1e308", b"1e999", b"-1e999", b"nan",
    b"NaN", b"inf", b"-Infinity", b"2147483648", b"-2147483649", b"4294967296",
    b"9223372036854775807", b"9223372036854775808", b"18446744073709551616", b"9" * 400,
    b"9" * 5000, b"1_000", b"0x10", b"1e", b"1.2.3", b"+5", b".5", b"5.", b"00", b"\xd9\xa3",
    b"\xef\xbc\x91", b"", b" ",
]  # fmt: skip
WORDS = [
    b"\x00", b"\x0c", b"\x1c", b"\r", b"\n\n", b"\r\n", b"\x85", b"\xc2\x85", b"\xe2\x80\xa8",
    b"\xff", b"\xef\xbb\xbf", b"\xc3", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"\xe2\x80\xae", b"'",
    b'"', b"\\", b"=", b":", b"#", b",", b";", b"\t", b"../", b"%s", b"{}", b"[", b"<script>",
    b"a" * 300, b"qid:", b"Tree=0", b"end of trees", b"null", b"true",
]  # fmt: skip
WHOLE = [0, 1, -1, 127, 128, 255, 256, 2**15, 2**16, 2**31 - 1, 2**31, -(2**31), 2**32, 2**63 - 1]
_NUMBER = re.compile(rb"[-+]?[0-9][0-9.eE+-]*")


def mutate_bytes(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    """One to four changes of bytes, words, numbers or lines."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        data = rng.choice(_CHANGES)(data, rng, others)
    return data


def _place(data: bytes, rng: random.Random) -> int:
    return rng.randrange(len(data) + 1)


def _flip(data: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    if not data:
        return b"\x00"
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _put(data: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    at = _place(data, rng)
    width = rng.choice((1, 2, 4, 8))
    value = rng.choice(WHOLE) % 2 ** (8 * width)
    return data[:at] + value.to_bytes(width, "little") + data[at + width :]


def _insert(data: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    at = _place(data, rng)
    return data[:at] + rng.choice(WORDS) + data[at:]


def _delete(data: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    at = _place(data, rng)
    return data[:at] + data[at + rng.choice((1, 1, 2, 4, 16, 100)) :]


def _cut(data: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    return data[: _place(data, rng)]


def _repeat(data: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    at = _place(data, rng)
    part = data[at : at + rng.choice((1, 4, 20, 200))]
    return data[:at] + part * rng.choice((2, 2, 3, 50)) + data[at + len(part) :]


def _splice(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    other = rng.choice(others) if others else data
    return data[: _place(data, rng)] + other[_place(other, rng) :]


def _number(data: bytes, rng: random.Random, _: Sequence[bytes]) -> bytes:
    places = list(_NUMBER.finditer(data[:20_000]))
    if not places:
        return data
    match = rng.choice(places)
    return data[: match.start()] + rng.choice(NUMBERS) + data[match.end() :]


def _line(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    what = rng.randrange(5)
    if what == 0:
        del lines[at]
    elif what == 1:
        lines.insert(at, lines[at])
    elif what == 2:
        other = rng.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    elif what == 3:
        lines.insert(at, b"")
    else:
        lines.insert(at, rng.choice((rng.choice(others) if others else data).split(b"\n")))
    return b"\n".join(lines)


_CHANGES: list[Callable[[bytes, random.Random, Sequence[bytes]], bytes]] = [
    _flip, _put, _insert, _delete, _cut, _repeat, _splice, _number, _number, _number, _line, _line,
]  # fmt: skip


class Raw(str):
    """JSON text that takes the place of a value as it is."""


def _values(rng: random.Random) -> Any:
    return rng.choice(
        [
            None, True, False, 0, 1, -1, 0.5, -0.5, 1e308, float("nan"), float("inf"), 2**31, 2**63,
            10**30, "", "1", "x" * 400, [], {}, [[]], [None], {"": {}}, [1, "a"], "\u202e", "\x00",
            Raw("1e400"), Raw("-1e400"), Raw("9" * 5000), Raw("[" * 3000 + "]" * 3000),
            Raw("1" * 400), Raw('"\\ud800"'), Raw("[" + "0," * 3000 + "0]"), Raw("0.1e-999"),
        ]
    )  # fmt: skip


def mutate_json(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    """One to three values of a JSON document changed; the bytes where that cannot be."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return mutate_bytes(data, rng, others)
    if rng.random() < 0.25:
        return mutate_bytes(data, rng, others)
    for _ in range(rng.choice((1, 1, 2, 3))):
        document = _changed(document, rng)
    return _dumped(document)


def _changed(node: Any, rng: random.Random, depth: int = 0) -> Any:
    """A JSON document with one value changed, somewhere below."""
    if not isinstance(node, dict | list) or not node or rng.random() < 0.1 + 0.05 * depth:
        return _near(node, rng) if rng.random() < 0.4 else _values(rng)
    keys = list(node) if isinstance(node, dict) else list(range(len(node)))
    key = rng.choice(keys)
    node = dict(node) if isinstance(node, dict) else list(node)
    what = rng.random()
    if what < 0.1:
        del node[key]
    elif what < 0.2 and isinstance(node, dict):
        node[rng.choice(["", "x", str(key) + " ", "__class__"])] = node[key]
    elif what < 0.2:
        node.insert(key, node[key])
    else:
        node[key] = _changed(node[key], rng, depth + 1)
    return node


def _near(value: Any, rng: random.Random) -> Any:
    """A value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return rng.choice([value + 1, -value, value * 10, value / 3, value * 1e30, int(value % 7)])
    if isinstance(value, str):
        return rng.choice([value + "x", value[:-1], value.upper(), value * 3])
    if isinstance(value, list):
        return rng.choice([value * 2, value[:-1], value[::-1], [value]])
    return {"": value}


def _dumped(document: Any) -> bytes:
    """JSON with the raw texts in their places."""
    raw: list[str] = []

    def marked(node: Any) -> Any:
        if isinstance(node, Raw):
            raw.append(str(node))
            return f"\ue000{len(raw) - 1}\ue000"
        if isinstance(node, dict):
            return {key: marked(value) for key, value in node.items()}
        return [marked(value) for value in node] if isinstance(node, list) else node

    text = json.dumps(marked(document), ensure_ascii=False)
    text = re.sub('"\ue000(\\d+)\ue000"', lambda match: raw[int(match[1])], text)
    return text.encode("utf-8", "surrogatepass")


def mutate_safetensors(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    """A changed header of the right length, a changed number, or changed bytes."""
    what = rng.random()
    if what < 0.3 or len(data) < 8:
        return mutate_bytes(data, rng, others)
    (size,) = struct.unpack("<Q", data[:8])
    header, body = data[8 : 8 + size], data[8 + size :]
    if what < 0.8:
        header = mutate_json(header, rng, ())
        return struct.pack("<Q", len(header)) + header + body
    numbers = [struct.pack("<f", float(x)) for x in ("nan", "inf", "1e38", "-1e38", "0")]
    at = 4 * rng.randrange(max(1, len(body) // 4))
    return data[: 8 + size] + body[:at] + rng.choice(numbers) + body[at + 4 :]
