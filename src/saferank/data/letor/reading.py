"""LETOR text, also called SVMrank: `label qid:Q index:value ... # comment`, plain or gzipped.

The rules, for every line:

- label: a finite number, at least 0;
- qid: anything of at most 255 bytes without white space, colon and control characters; the lines
  of a query stand together (or are brought together by `sort=True`);
- features: whole indices from 1 that increase along the line; values are finite decimal numbers;
  what is not named is 0;
- a comment starts at `#`; `#docid = ID` gives the document an id (kept if every document has one);
- space, tab and carriage return separate; lines with nothing but a comment are skipped.

Ids are int64 where all of them are whole numbers in their usual spelling, else strings. Values are
those of Python's `float`, rounded to float32. Any other line is an error that names it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from saferank._core import flat, storage
from saferank._core.flat import Array, Ints
from saferank._core.progress import Advance, bar
from saferank.data.ids import differs, from_words, joined, words_at
from saferank.data.letor import parsing as kernels
from saferank.data.letor.decimals import Bytes
from saferank.data.letor.parsing import Rows, Rules
from saferank.data.letor.text_blocks import blocks, line_cuts
from saferank.data.ranking import RankingData
from saferank.errors import InputError, require

VERSION: Final = 1
"""Rises when the same text would be read as other arrays: caches are then rebuilt."""

_EXPECTED: Final = {
    kernels.LABEL: "a label that is a finite number, at least 0",
    kernels.QUERY: "`qid:` and an id of at most 255 bytes as the second word",
    kernels.FEATURE: "a feature as index:value",
    kernels.VALUE: "a finite decimal number (in float32) after the colon",
    kernels.ORDER: "feature indices that increase along the line",
    kernels.INDEX: f"a feature index from 1 to {kernels.MAX_INDEX}",
    kernels.DOCUMENT: "a docid of at most 255 bytes",
}


def read_letor(
    path: str | Path,
    *,
    features: int | None = None,
    sort: bool = False,
    beyond: float | None = None,
    limit: int | None = None,
) -> RankingData:
    """Read a LETOR file; see the module for the rules.

    Parameters
    ----------
    path
        The file, plain or gzipped.
    features
        How many there are; by default the largest index.
    sort
        Bring scattered lines of a query together, in the order of first appearance.
    beyond
        What takes the place, with their sign, of values beyond float32 (Istella has some); by
        default they are errors.
    limit
        Bytes of features that may be taken; by default 32 GiB, or with a limit of memory what the
        disk has free.

    Returns
    -------
    RankingData
        One row per line.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "small.txt"
    >>> _ = path.write_text("2 qid:7 1:0.5 3:1e-3 #docid = a\\n0 qid:7 2:-1 #docid = b\\n")
    >>> data = read_letor(path)
    >>> data.features
    array([[ 0.5  ,  0.   ,  0.001],
           [ 0.   , -1.   ,  0.   ]], dtype=float32)
    >>> data.query_ids, data.doc_ids
    (array([7]), array(['a', 'b'], dtype='<U1'))
    """
    source = Path(path)
    inside = features is None or 0 <= features <= kernels.MAX_INDEX
    require(inside, "features", f"from 0 to {kernels.MAX_INDEX}", features)
    usable = beyond is None or 0 <= beyond <= float(np.finfo(np.float32).max)
    require(usable, "beyond", "from 0 to the largest float32", beyond)
    rules = Rules(features is not None, np.float32(np.inf if beyond is None else beyond))
    with _reading(source, passes=2) as advance:
        survey = _survey(source, advance)
        _check_size(source, survey, features, storage.capacity() if limit is None else limit)
        text = _Text(source, survey, survey.width if features is None else features)
        text.fill(rules, advance)
    return text.data(sort)


def count_features(path: str | Path) -> int:
    """The largest feature index of a LETOR file, from a quick look that checks nothing else."""
    source = Path(path)
    with _reading(source, passes=1) as advance:
        return _survey(source, advance).width


@contextmanager
def _reading(path: Path, *, passes: int) -> Iterator[Advance]:
    require(path.is_file(), "path", "a file that exists", str(path))
    with bar(f"reading {path.name} (MB)", passes * path.stat().st_size / 1e6) as advance:
        yield advance


@dataclass
class _Survey:
    """What the first look counted, block by block."""

    cuts: list[Ints] = field(default_factory=list)
    documents: list[Ints] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    width: int = 0
    widest_line: int = 1

    @property
    def total(self) -> int:
        return sum(int(block.sum()) for block in self.documents)


def _survey(path: Path, advance: Advance) -> _Survey:
    survey = _Survey()
    for block in blocks(path, advance):
        cuts = line_cuts(block)
        chunks = kernels.survey(block, cuts)
        widest = int(np.argmax(chunks[:, 2]))
        if chunks[widest, 2] > survey.width:
            survey.width = int(chunks[widest, 2])
            survey.widest_line = sum(survey.lines) + _line_in(block, int(chunks[widest, 3]))
        survey.cuts.append(cuts)
        survey.documents.append(chunks[:, 1].copy())
        survey.lines.append(int(chunks[:, 0].sum()))
    return survey


def _line_in(block: Bytes, at: int) -> int:
    """The line of a byte, from 1."""
    return int(np.count_nonzero(block[:at] == ord("\n"))) + 1


def _check_size(path: Path, survey: _Survey, features: int | None, limit: int) -> None:
    documents = survey.total
    if documents == 0:
        raise InputError(
            f"{path}, line {max(sum(survey.lines), 1)}: expected at least one document; "
            "the file ends without any."
        )
    width = survey.width if features is None else features
    if documents * width * 4 > limit:
        raise InputError(
            f"{path}, line {survey.widest_line}: {documents} documents x {width} features take "
            f"{documents * width * 4} bytes, more than `limit`={limit}."
        )


class _Text:
    """The second look: arrays that fill up block by block."""

    def __init__(self, path: Path, survey: _Survey, width: int) -> None:
        self.path, self.survey = path, survey
        self.features = storage.zeros((survey.total, width))
        self.labels = np.zeros(survey.total, dtype=np.float32)
        self.query_starts: list[Ints] = []
        self.query_words: list[Array] = []
        self.last_query = b""
        self.doc_words: list[Array] | None = []

    def fill(self, rules: Rules, advance: Advance) -> None:
        row, line, count = 0, 0, 0
        for count, block in enumerate(blocks(self.path, advance), start=1):
            same = count <= len(self.survey.cuts) and block.size == self.survey.cuts[count - 1][-1]
            self._unchanged(same)
            documents = self.survey.documents[count - 1]
            rows = self._rows(row, int(documents.sum()))
            self._fill_block(block, count - 1, rows, rules, line)
            self._note_ids(block, rows, row)
            storage.release(rows.features)
            row += int(documents.sum())
            line += self.survey.lines[count - 1]
        self._unchanged(count == len(self.survey.cuts))

    def _rows(self, row: int, documents: int) -> Rows:
        return Rows(
            self.features[row : row + documents],
            self.labels[row : row + documents],
            np.zeros((documents, 2), dtype=np.int32),
            np.zeros((documents, 2), dtype=np.int32),
        )

    def _unchanged(self, same: bool) -> None:
        if not same:
            raise InputError(f"`{self.path}` must not change while it is read; it did.")

    def _fill_block(self, block: Bytes, index: int, rows: Rows, rules: Rules, line: int) -> None:
        first_row = np.concatenate([[0], np.cumsum(self.survey.documents[index])])
        chunks = kernels.fill(block, self.survey.cuts[index], first_row, rows, rules)
        wrong = np.flatnonzero(chunks[:, 0])
        good = int(chunks[wrong[0], 1]) if wrong.size else block.size
        if chunks[:, 2].any():
            self._settle(block, rows, rules, line, good)
        if wrong.size:
            code = int(chunks[wrong[0], 0])
            self._unchanged(code != kernels.CHANGED)
            raise self._error(_expected(code, self.features.shape[1]), block, good, line)

    def _settle(self, block: Bytes, rows: Rows, rules: Rules, line: int, good: int) -> None:
        """Read again, by Python, the lines with values whose rounding the kernel left open.

        Only those before the line of byte `good`, the first that is wrong.
        """
        text = block.tobytes()
        good = text.rfind(b"\n", 0, good) + 1 if good < block.size else good
        open_ = np.isnan(rows.labels)
        for start in range(0, rows.labels.size, 4096):
            part = slice(start, start + 4096)
            open_[part] |= np.isnan(rows.features[part]).any(axis=1)
        for row in np.flatnonzero(open_):
            at = int(rows.queries[row, 0])
            if at >= good or rows.queries[row, 1] == 0:
                return
            start = text.rfind(b"\n", 0, at) + 1
            end = text.find(b"\n", at)
            content = text[start : len(text) if end < 0 else end]
            self._settle_row(content, rows, int(row), rules)
            if not 0 <= rows.labels[row] < np.inf:
                raise self._error(_EXPECTED[kernels.LABEL], block, start, line)
            if not np.isfinite(rows.features[row]).all():
                raise self._error(_EXPECTED[kernels.VALUE], block, at, line)

    @staticmethod
    def _settle_row(line: bytes, rows: Rows, row: int, rules: Rules) -> None:
        label, _, *pairs = line.split(b"#")[0].split()
        with np.errstate(over="ignore"):
            rows.labels[row] = np.float32(float(label))
            for pair in pairs:
                index, value = pair.split(b":")
                number = np.float32(float(value))
                if np.isinf(number):
                    number = np.copysign(rules.beyond, number)
                rows.features[row, int(index) - 1] = number

    def _error(self, expected: str, block: Bytes, at: int, line: int) -> InputError:
        word = bytes(block[at : at + 60]).split(b"\n")[0].split()
        got = repr(word[0].decode("utf-8", "replace")) if word else "the end of the line"
        number = line + _line_in(block, at)
        return InputError(f"{self.path}, line {number}: expected {expected}; got {got}.")

    def _note_ids(self, block: Bytes, rows: Rows, row: int) -> None:
        new = differs(block, rows.queries)
        if new.size:
            new[0] = words_at(block, rows.queries[:1])[0] != self.last_query
            self.last_query = words_at(block, rows.queries[-1:])[0]
        self.query_starts.append(np.flatnonzero(new) + row)
        self.query_words.append(words_at(block, rows.queries[new]))
        if self.doc_words is not None:
            named = bool(rows.documents[:, 1].all())
            self.doc_words = [*self.doc_words, words_at(block, rows.documents)] if named else None

    def data(self, sort: bool) -> RankingData:
        """Everything together, checked as a whole."""
        starts = np.concatenate(self.query_starts)
        words = joined(self.query_words)
        names, first, query = np.unique(words, return_index=True, return_inverse=True)
        offsets = np.append(starts, self.labels.size)
        if names.size < words.size and not sort:
            again = int(np.flatnonzero(first[query] < np.arange(words.size))[0])
            raise InputError(
                f"{self.path}, line {self._line_of(int(starts[again]))}: expected the lines of a "
                f"query together; query {words[again].decode('utf-8', 'replace')!r} had ended "
                "before (`sort=True` brings them together)."
            )
        query_ids = self._ids("query id", words, starts)
        doc_ids = None
        if self.doc_words is not None:
            all_words = joined(self.doc_words)
            self.doc_words = None
            doc_ids = self._ids("docid", all_words, np.arange(self.labels.size))
        if names.size < words.size:
            return self._grouped(offsets, first[query], query_ids, doc_ids)
        return RankingData(self.features, offsets, self.labels, query_ids, doc_ids)

    def _ids(self, name: str, words: Array, rows: Ints) -> Array:
        ids, bad = from_words(words)
        if bad is not None:
            line = self._line_of(int(rows[bad]))
            raise InputError(
                f"{self.path}, line {line}: expected a {name} in UTF-8; got {words[bad]!r}."
            )
        return ids

    def _grouped(
        self, offsets: Ints, first_run: Ints, query_ids: Array, doc_ids: Array | None
    ) -> RankingData:
        runs = np.argsort(first_run, kind="stable")
        order, _ = flat.gather(offsets, runs)
        queries = np.unique(first_run)
        sizes = np.bincount(first_run, weights=np.diff(offsets)).astype(np.int64)[queries]
        return RankingData(
            storage.take(self.features, order),
            np.concatenate([[0], np.cumsum(sizes)]),
            self.labels[order],
            query_ids[queries],
            None if doc_ids is None else doc_ids[order],
        )

    def _line_of(self, document: int) -> int:
        """The line of a document, from 1; only for messages, so the file is simply read again."""
        line = 0
        for block in blocks(self.path, lambda *_, **__: None):
            for text in bytes(block).split(b"\n"):
                line += 1
                if text.split(b"#")[0].strip(b" \t\r"):
                    if document == 0:
                        return line
                    document -= 1
            line -= int(block[-1] == ord("\n"))
        return line


def _expected(code: int, width: int) -> str:
    return _EXPECTED.get(code, f"a feature index of at most `features`={width}")
