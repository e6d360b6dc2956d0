"""The rules of LETOR text as plainly as they can be written: another route to the arrays."""

from __future__ import annotations

import math
import re
import struct
from typing import Any

import numpy as np

NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
QUERY = re.compile(rb"qid:[^\x00-\x20:#\x7f]{1,255}")
FEATURE = re.compile(rb"([0-9]+):(.*)", re.DOTALL)
DOCID = re.compile(rb"[ \t\r]*docid[ \t\r]*=[ \t\r]*([^\x00-\x20\x7f]*)")
WHOLE = re.compile(r"0|-?[1-9][0-9]*")


class BadLineError(Exception):
    """Line number."""


def float32(text: bytes) -> float:
    """Python's float, then rounded by another route than NumPy's."""
    number = float(text)
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def parse_line(words: list[bytes]) -> tuple[float, bytes, dict[int, float]]:
    label = float32(words[0]) if NUMBER.fullmatch(words[0]) else math.nan
    if not 0 <= label < math.inf or len(words) < 2 or not QUERY.fullmatch(words[1]):
        raise ValueError
    features: dict[int, float] = {}
    for word in words[2:]:
        match = FEATURE.fullmatch(word)
        if not match or not NUMBER.fullmatch(match[2]) or not math.isfinite(float32(match[2])):
            raise ValueError
        index = int(match[1])
        if not max(features, default=0) < index <= 100_000:
            raise ValueError
        features[index] = float32(match[2])
    return label, words[1][4:], features


def make_ids(words: list[bytes]) -> list[int] | list[str]:
    texts = [word.decode() for word in words]
    whole = all(WHOLE.fullmatch(text) and -(2**63) < int(text) < 2**63 for text in texts)
    return [int(text) for text in texts] if whole else texts


def reference(text: bytes) -> dict[str, Any]:
    """The rules of saferank.data.letor.reading, as plainly as they can be written."""
    labels, queries, rows, documents, lines = [], [], [], [], []
    for number, line in enumerate(text.split(b"\n"), start=1):
        content, *comment = line.split(b"#", 1)
        words = [word for word in re.split(rb"[ \t\r]+", content) if word]
        if not words:
            continue
        try:
            label, query, features = parse_line(words)
            found = DOCID.match(comment[0]) if comment else None
            document = found[1] if found else b""
            if len(document) > 255:
                raise ValueError
        except ValueError:
            raise BadLineError(number) from None
        labels.append(label)
        queries.append(query)
        rows.append(features)
        documents.append(document)
        lines.append(number)
    if not labels:
        raise BadLineError(None)
    for place, query in enumerate(queries):
        if place and query != queries[place - 1] and query in queries[:place]:
            raise BadLineError(lines[place])
    for words in (queries, documents if all(documents) else []):
        for place, word in enumerate(words):
            try:
                word.decode()
            except UnicodeDecodeError:
                raise BadLineError(lines[place]) from None
    width = max((max(features, default=0) for features in rows), default=0)
    matrix = [[features.get(index + 1, 0.0) for index in range(width)] for features in rows]
    starts = [p for p in range(len(queries)) if p == 0 or queries[p] != queries[p - 1]]
    return {
        "features": np.array(matrix, dtype=np.float32).reshape(len(rows), width),
        "labels": np.array(labels, dtype=np.float32),
        "offsets": [*starts, len(queries)],
        "query_ids": make_ids([queries[place] for place in starts]),
        "doc_ids": make_ids(documents) if all(documents) else None,
    }
