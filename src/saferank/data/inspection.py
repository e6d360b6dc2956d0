"""What is in ranking data: sizes, grades, and what a user should know before learning from it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank._core.flat import Ints
from saferank._core.kernels import parallel_kernel
from saferank.data.ranking import Features, RankingData

MANY_GRADES: Final = 20
"""Labels with more different values than this are not grades."""


@dataclass(frozen=True)
class Inspection:
    """The facts about some ranking data, and its problems as sentences."""

    queries: int
    documents: int
    features: int
    documents_per_query: tuple[int, float, int]
    """Smallest, median, largest."""
    grades: dict[float, int] | None
    """Documents of each grade, from the lowest; None without labels."""
    constant_features: tuple[int, ...]
    """Indices from 0."""
    duplicate_rows: int
    """Documents with the features of an earlier one of their query."""
    non_finite_values: int
    queries_without_relevant: float | None
    """Share of the queries."""
    problems: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The facts for JSON."""
        record = asdict(self)
        if self.grades is not None:
            record["grades"] = {f"{grade:g}": count for grade, count in self.grades.items()}
        return record


def inspect(data: RankingData) -> Inspection:
    """Look through ranking data.

    Parameters
    ----------
    data
        Items, labelled or not.

    Returns
    -------
    Inspection
        Sizes, grades, and `problems`, one sentence each.

    Examples
    --------
    >>> data = RankingData([[1, 0], [1, 0], [2, 0]], offsets=[0, 2, 3], labels=[0, 2, 0])
    >>> inspection = inspect(data)
    >>> inspection.documents_per_query, inspection.grades, inspection.duplicate_rows
    ((1, 1.5, 2), {0.0: 2, 2.0: 1}, 1)
    >>> for problem in inspection.problems:
    ...     print(problem)
    1 of 2 features is constant.
    1 of 3 documents has the features of an earlier document of its query.
    1 of 2 queries has no relevant document.
    1 of 2 queries has a single document, so nothing to rank.
    """
    sizes = data.sizes if data.queries else np.zeros(1, dtype=np.int64)
    constant, non_finite = _columns(data.features)
    grades, empty = _labels(data)
    duplicates = int(duplicate_rows(data.features, data.offsets).sum())
    facts = Inspection(
        queries=data.queries,
        documents=data.documents,
        features=data.width,
        documents_per_query=(int(sizes.min()), float(np.median(sizes)), int(sizes.max())),
        grades=grades,
        constant_features=tuple(constant.tolist()),
        duplicate_rows=duplicates,
        non_finite_values=non_finite,
        queries_without_relevant=None if empty is None else empty / max(data.queries, 1),
        problems=(),
    )
    object.__setattr__(facts, "problems", tuple(_problems(facts, data, empty)))
    return facts


def _labels(data: RankingData) -> tuple[dict[float, int] | None, int | None]:
    """Documents of each grade, and how many queries have none above 0."""
    if data.labels is None:
        return None, None
    values, counts = np.unique(data.labels, return_counts=True)
    relevant = flat.query_sums((data.labels > 0).astype(np.int64), data.offsets)
    grades = dict(zip(values.tolist(), counts.tolist(), strict=True))
    return grades, int(np.count_nonzero(relevant == 0))


def _problems(facts: Inspection, data: RankingData, empty: int | None) -> list[str]:
    findings = [
        (
            facts.non_finite_values,
            None,
            "value",
            "is missing or not finite",
            "are missing or not finite",
        ),
        (len(facts.constant_features), facts.features, "feature", "is constant", "are constant"),
        (
            facts.duplicate_rows,
            facts.documents,
            "document",
            "has the features of an earlier document of its query",
            "have the features of an earlier document of their query",
        ),
        (
            empty or 0,
            facts.queries,
            "query",
            "has no relevant document",
            "have no relevant document",
        ),
        (
            int(np.count_nonzero(data.sizes == 0)),
            facts.queries,
            "query",
            "has no document",
            "have no document",
        ),
        (
            int(np.count_nonzero(data.sizes == 1)),
            facts.queries,
            "query",
            "has a single document, so nothing to rank",
            "have a single document, so nothing to rank",
        ),
    ]
    problems = [_sentence(*finding) for finding in findings if finding[0]]
    if facts.grades is None:
        problems.append("There are no labels.")
    elif len(facts.grades) > MANY_GRADES:
        problems.append(f"Labels have {len(facts.grades)} different values: are they grades?")
    return problems


def _sentence(count: int, total: int | None, thing: str, finding: str, more: str) -> str:
    plural = "queries" if thing == "query" else f"{thing}s"
    of = "" if total is None else f" of {total}"
    noun = thing if total is None and count == 1 else plural
    return f"{count}{of} {noun} {finding if count == 1 else more}."


def _columns(features: Features) -> tuple[Ints, int]:
    """Constant columns, and how many values are not finite."""
    rows, columns = features.shape
    pieces = min(64, max(rows, 1))
    lows = np.full((pieces, columns), np.inf, dtype=np.float32)
    highs = np.full((pieces, columns), -np.inf, dtype=np.float32)
    others = np.zeros((pieces, columns), dtype=np.int64)
    _column_facts(pieces, features, lows, highs, others)
    low, high, wrong = lows.min(axis=0), highs.max(axis=0), others.sum(axis=0)
    constant = (low == high) if features.shape[0] else np.zeros(features.shape[1], dtype=bool)
    return np.flatnonzero(constant & (wrong == 0)), int(wrong.sum())


@parallel_kernel
def _column_facts(
    start: int, stop: int, features: Features, low: Features, high: Features, wrong: Ints
) -> None:
    """Smallest and largest finite value and the number of others, of each piece's columns."""
    rows, columns = features.shape
    pieces = low.shape[0]
    for piece in range(start, stop):
        for row in range(rows * piece // pieces, rows * (piece + 1) // pieces):
            for column in range(columns):
                value = features[row, column]
                if np.isfinite(value):
                    low[piece, column] = min(low[piece, column], value)
                    high[piece, column] = max(high[piece, column], value)
                else:
                    wrong[piece, column] += 1


def duplicate_rows(features: Features, offsets: Ints) -> npt.NDArray[np.bool_]:
    """Has a document exactly the features of an earlier one of its query?

    Rows are sorted by hash within their query, and each is compared with the one before.
    """
    hashes, query = np.empty(features.shape[0], dtype=np.uint64), flat.query_of(offsets)
    _hashes(hashes.size, features, hashes)
    order = np.lexsort((hashes, query))
    before, here = order[:-1], order[1:]
    alike = (hashes[here] == hashes[before]) & (query[here] == query[before])
    before, here = before[alike], here[alike]
    again = np.zeros(features.shape[0], dtype=np.bool_)
    for start in range(0, here.size, 4096):
        part = slice(start, start + 4096)
        again[here[part]] = (features[here[part]] == features[before[part]]).all(axis=1)
    return again


@parallel_kernel
def _hashes(start: int, stop: int, features: Features, hashes: npt.NDArray[np.uint64]) -> None:
    """A 64-bit hash of each row's values; -0 and 0 are one value."""
    for row in range(start, stop):
        mixed = np.uint64(0x9E3779B97F4A7C15)
        for word in (features[row] + np.float32(0)).view(np.uint32):
            mixed = (mixed ^ np.uint64(word)) * np.uint64(0xFF51AFD7ED558CCD)
            mixed ^= mixed >> np.uint64(32)
        hashes[row] = mixed
