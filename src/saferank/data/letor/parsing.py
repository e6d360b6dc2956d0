"""The compiled half of the LETOR reader: one look that counts, one that checks and fills.

Text comes in blocks of whole lines, a block in chunks of whole lines; a chunk depends on no other,
so the chunks of a block run on all threads and the result does not depend on their number.

A line is `label qid:Q index:value ... # comment`; space, tab and carriage return separate.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from saferank._core.flat import Ints
from saferank._core.kernels import kernel, parallel_kernel
from saferank.data.letor.decimals import BAD, UNSURE, Bytes, number

MAX_INDEX: Final = 100_000
"""A larger feature index is taken for a mistake."""
ID_LIMIT: Final = 255
"""Bytes of a query or document id."""

# What can be wrong with a line.
LABEL: Final = 1
QUERY: Final = 2
FEATURE: Final = 3
VALUE: Final = 4
ORDER: Final = 5
INDEX: Final = 6
BEYOND: Final = 7
DOCUMENT: Final = 8
CHANGED: Final = 9

_NEWLINE: Final = np.uint8(10)
_SPACE: Final = 32
_HASH: Final = np.uint8(35)
_COLON: Final = 58
_DELETE: Final = 127
_WHITE: Final = np.isin(np.arange(256), list(b" \t\r"))
_ENDS: Final = np.isin(np.arange(256), list(b" \t\r\n#"))
_QID: Final = np.frombuffer(b"qid:", dtype=np.uint8)
_DOCID: Final = np.frombuffer(b"docid", dtype=np.uint8)

_PIECE: Final = 64
"""Bytes that are looked at together."""


class Rows(NamedTuple):
    """Where the documents of a block go; spans are first byte and length within the block."""

    features: npt.NDArray[np.float32]
    labels: npt.NDArray[np.float32]
    queries: npt.NDArray[np.int32]
    documents: npt.NDArray[np.int32]


class Rules(NamedTuple):
    """`fixed`: an index beyond the features is wrong, not a sign of another mistake in its line.

    `beyond` takes the place of values beyond float32, with their sign; infinite: they are wrong.
    """

    fixed: bool
    beyond: np.float32


@parallel_kernel
def _survey_chunks(start: int, stop: int, text: Bytes, cuts: Ints, facts: Ints) -> None:
    for chunk in range(start, stop):
        lines, documents, width, widest = _survey(text, cuts[chunk], cuts[chunk + 1])
        facts[chunk, 0] = lines
        facts[chunk, 1] = documents
        facts[chunk, 2] = width
        facts[chunk, 3] = widest


def survey(text: Bytes, cuts: Ints) -> Ints:
    """Lines, documents, largest last index and where its line is, of each chunk."""
    facts = np.zeros((cuts.size - 1, 4), dtype=np.int64)
    _survey_chunks(cuts.size - 1, text, cuts, facts)
    return facts


@kernel
def _survey(text: Bytes, at: int, last: int) -> tuple[int, int, int, int]:
    lines, documents, width, widest = 0, 0, 0, at
    while at < last:
        at = _skip_white(text, at, last)
        end = _find(text, at, last, _NEWLINE, _HASH)
        if end > at:
            documents += 1
            # Indices increase, so the last one of a good line is its largest.
            colon = end - 1
            while colon > at and text[colon] != _COLON:
                colon -= 1
            index = _index_before(text, colon, at)
            if index > width:
                width, widest = index, colon
        at = _find(text, end, last, _NEWLINE, _NEWLINE) + 1
        lines += 1
    return lines, documents, width, widest


@kernel
def _find(text: Bytes, at: int, last: int, first: np.uint8, second: np.uint8) -> int:
    """Where either byte comes first; `last` where neither does.

    Whole pieces are looked at without a branch inside, which the compiler turns into wide
    instructions; only the piece that has one is walked.
    """
    while at + _PIECE <= last:
        piece = text[at : at + _PIECE]
        hit = np.uint8(0)
        for step in range(_PIECE):
            hit |= np.uint8(piece[step] == first) | np.uint8(piece[step] == second)
        if hit:
            break
        at += _PIECE
    while at < last and text[at] != first and text[at] != second:
        at += 1
    return at


@kernel
def _index_before(text: Bytes, colon: int, first: int) -> int:
    """The digits before a colon as a number, at most `MAX_INDEX`."""
    index, place = 0, 1
    at = colon - 1
    while at >= first and 48 <= text[at] <= 57:
        if text[at] > 48:
            if place > MAX_INDEX:
                return MAX_INDEX
            index += (text[at] - 48) * place
        place = min(place * 10, MAX_INDEX * 10)
        at -= 1
    return min(index, MAX_INDEX)


@parallel_kernel
def _fill_chunks(
    start: int,
    stop: int,
    text: Bytes,
    cuts: Ints,
    first_row: Ints,
    rows: Rows,
    rules: Rules,
    facts: Ints,
) -> None:
    for chunk in range(start, stop):
        wrong, where, unsure = _fill(
            text, cuts[chunk : chunk + 2], first_row[chunk : chunk + 2], rows, rules
        )
        facts[chunk, 0] = wrong
        facts[chunk, 1] = where
        facts[chunk, 2] = unsure


def fill(text: Bytes, cuts: Ints, first_row: Ints, rows: Rows, rules: Rules) -> Ints:
    """Fill the rows of each chunk: what is wrong (0: nothing), where, and values left as NaN.

    A value left as NaN is well formed, but its rounding is not certain here.
    """
    facts = np.zeros((cuts.size - 1, 3), dtype=np.int64)
    _fill_chunks(cuts.size - 1, text, cuts, first_row, rows, rules, facts)
    return facts


@kernel
def _fill(
    text: Bytes, span: Ints, row_span: Ints, rows: Rows, rules: Rules
) -> tuple[int, int, int]:
    at, last = span
    row, unsure = row_span[0], 0
    while at < last:
        at = _skip_white(text, at, last)
        if at < last and text[at] != _NEWLINE and text[at] != _HASH:
            if row == row_span[1]:
                return CHANGED, at, unsure
            wrong, at, left = _document(text, at, last, rows, row, rules)
            unsure += left
            if wrong:
                return wrong, at, unsure
            row += 1
        while at < last and text[at] != _NEWLINE:
            at += 1
        at += 1
    return (0 if row == row_span[1] else CHANGED), last - 1, unsure


@kernel
def _document(
    text: Bytes, at: int, last: int, rows: Rows, row: int, rules: Rules
) -> tuple[int, int, int]:
    """One document line: what is wrong, where it ends or goes wrong, and values left as NaN."""
    state, label, end = number(text, at, last)
    if state == BAD or not _ended(text, end, last) or label < 0 or np.isinf(label):
        return LABEL, at, 0
    rows.labels[row] = label
    unsure = int(state == UNSURE)

    at = _skip_white(text, end, last)
    end = _query(text, at, last, rows, row)
    if end < 0:
        return QUERY, at, unsure

    wrong, at, left = _features(text, end, last, rows.features[row], rules)
    unsure += left
    if wrong == 0 and at < last and text[at] == _HASH:
        end = _docid(text, at + 1, last, rows, row)
        if end < 0:
            return DOCUMENT, at, unsure
    return wrong, at, unsure


@kernel
def _query(text: Bytes, at: int, last: int, rows: Rows, row: int) -> int:
    """Note the span of a `qid:Q` token; its end, or -1 where there is none."""
    if not _starts(text, at, last, _QID):
        return -1
    first = at + _QID.size
    end = first
    while not _ended(text, end, last):
        if text[end] == _COLON or text[end] < _SPACE or text[end] == _DELETE:
            return -1
        end += 1
    if end == first or end - first > ID_LIMIT:
        return -1
    rows.queries[row, 0] = first
    rows.queries[row, 1] = end - first
    return end


@kernel
def _docid(text: Bytes, at: int, last: int, rows: Rows, row: int) -> int:
    """Note the span of the id in a comment `docid = ID`; -1 if it is too long, else 0."""
    at = _skip_white(text, at, last)
    if not _starts(text, at, last, _DOCID):
        return 0
    at = _skip_white(text, at + _DOCID.size, last)
    if at == last or text[at] != 61:  # =
        return 0
    first = _skip_white(text, at + 1, last)
    end = first
    while end < last and text[end] > _SPACE and text[end] != _DELETE:
        end += 1
    if end - first > ID_LIMIT:
        return -1
    rows.documents[row, 0] = first
    rows.documents[row, 1] = end - first
    return 0


@kernel
def _features(
    text: Bytes, at: int, last: int, out: npt.NDArray[np.float32], rules: Rules
) -> tuple[int, int, int]:
    """The `index:value` tokens of a line: what is wrong, where, and values left as NaN."""
    before, unsure = 0, 0
    while True:
        at = _skip_white(text, at, last)
        if at == last or text[at] == _NEWLINE or text[at] == _HASH:
            return 0, at, unsure
        index, colon = _index(text, at, last)
        if colon in (at, last) or text[colon] != _COLON:
            return FEATURE, at, unsure
        if index < 1 or index > MAX_INDEX:
            return INDEX, at, unsure
        if index <= before:
            return ORDER, at, unsure
        state, value, end = number(text, colon + 1, last)
        if state == BAD or not _ended(text, end, last):
            return VALUE, at, unsure
        if np.isinf(value):
            if np.isinf(rules.beyond):
                return VALUE, at, unsure
            value = rules.beyond if value > 0 else -rules.beyond
        if index <= out.size:
            out[index - 1] = value
            unsure += state == UNSURE
        elif rules.fixed:
            return BEYOND, at, unsure
        before = index
        at = end


@kernel
def _index(text: Bytes, at: int, last: int) -> tuple[int, int]:
    """Digits as a number (larger than `MAX_INDEX` if it is) and where they end."""
    index = 0
    while at < last and 48 <= text[at] <= 57:
        index = min(index * 10 + (text[at] - 48), MAX_INDEX + 1)
        at += 1
    return index, at


@kernel
def _skip_white(text: Bytes, at: int, last: int) -> int:
    while at < last and _WHITE[text[at]]:
        at += 1
    return at


@kernel
def _ended(text: Bytes, at: int, last: int) -> bool:
    """Does a token end here?"""
    return bool(at >= last or _ENDS[text[at]])


@kernel
def _starts(text: Bytes, at: int, last: int, word: Bytes) -> bool:
    if last - at < word.size:
        return False
    step = 0
    while step < word.size and text[at + step] == word[step]:
        step += 1
    return step == word.size
