"""What becomes of each column of a table of items, for people."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np

from saferank.data.encoding import LEAST_DOCUMENTS, MOST_LEVELS, has_gaps
from saferank.data.features import Feature
from saferank.data.ranking import Features, RankingData

EXACT: Final = 1 << 24
"""Whole numbers beyond this are rounded in single precision."""
_PLURAL: Final = {
    "number": "numbers", "boolean": "booleans", "date": "dates", "category": "categories",
}  # fmt: skip


@dataclass(frozen=True)
class ColumnFacts:
    """One column: what it is, how much of it is missing, its values, what is done with it."""

    column: str
    kind: str
    missing: float | None
    """Share of the documents."""
    values: str
    use: str


def describe_columns(data: RankingData) -> tuple[ColumnFacts, ...]:
    """What is done with each column of items: features first, then what is left out.

    Examples
    --------
    >>> items = RankingData([[1, 0], [np.nan, 1]], [0, 2], feature_names=("price", "new"))
    >>> for facts in describe_columns(items):
    ...     print(facts.column, facts.kind, facts.missing, facts.values)
    price number 0.5 1 to 1
    new number 0.0 0 to 1
    """
    columns = [
        _of_feature(feature, data.features[:, place])
        for place, feature in enumerate(data.schema.features)
    ]
    left = [ColumnFacts(own, "none", None, "", f"left out: {why}") for own, why in data.left_out]
    return (*columns, *left)


def _of_feature(feature: Feature, values: Features) -> ColumnFacts:
    present = values[~np.isnan(values)]
    missing = 1 - present.size / max(values.size, 1)
    use = [_use(feature, present)]
    if missing > 0:
        use.append("gaps: trees see them; for networks the mean, and a column that says so")
    shown = _values(feature, present)
    return ColumnFacts(feature.name, feature.kind, missing, shown, "; ".join(use))


def _use(feature: Feature, present: Features) -> str:
    if present.size == 0:
        return "no values: says nothing"
    if feature.kind == "category":
        counts = np.bincount(present.astype(np.int64))[:MOST_LEVELS]
        own = int(np.count_nonzero(counts >= LEAST_DOCUMENTS))
        return f"place by frequency for trees; for networks {own} columns and one for all others"
    if present.min() == present.max():
        return "constant: says nothing"
    if feature.kind == "date":
        return "days since 1970"
    if feature.kind == "boolean":
        return "0 or 1"
    large = np.abs(present).max() > EXACT and bool(np.all(present == np.round(present)))
    return "as it is, rounded to 24 bits" if large else "as it is"


def _values(feature: Feature, present: Features) -> str:
    if present.size == 0:
        return ""
    if feature.kind == "category":
        few = ", ".join(feature.categories[:3])
        more = len(feature.categories) - 3
        return f"{few} and {more:,} more" if more > 0 else few
    low, high = float(present.min()), float(present.max())
    if feature.kind == "date":
        first, last = (np.datetime64(int(np.floor(day)), "D") for day in (low, high))
        return f"{first} to {last}"
    return f"{low:g} to {high:g}"


def feature_sentences(data: RankingData) -> list[str]:
    """The features in a sentence, and what is left out in another; none where they have no names.

    >>> feature_sentences(RankingData([[1, np.nan]], [0, 1], feature_names=("price", "stock")))
    ['2 features: 2 numbers; 1 of them with missing values.']
    """
    if data.schema.is_numbered and not data.left_out:
        return []
    kinds = Counter(feature.kind for feature in data.schema.features)
    gaps = int(has_gaps(data.features).sum())
    listed = ", ".join(
        f"{count} {_PLURAL[kind] if count > 1 else kind}" for kind, count in kinds.items()
    )
    text = f"{data.width} features: {listed}" if listed else "No features"
    sentences = [f"{text}; {gaps} of them with missing values." if gaps else f"{text}."]
    if data.left_out:
        left = "; ".join(f"`{own}` ({why})" for own, why in data.left_out)
        sentences.append(f"Left out: {left}.")
    return sentences
