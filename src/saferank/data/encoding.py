"""Features as networks need them: no gaps, and one column per category.

A missing value becomes the mean of its feature, and a column of its own says that it was missing;
a category becomes one column for each of its frequent values and one for all others, unknown ones
among them. Trees need none of this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from saferank._core.flat import Floats, Ints
from saferank._core.records import from_dict
from saferank._core.storage import pieces
from saferank.data.features import FeatureSchema
from saferank.data.ranking import Features
from saferank.errors import require

MOST_LEVELS: Final = 30
"""Categories of a feature with a column of their own..."""
LEAST_DOCUMENTS: Final = 10
"""...each of which at least this many documents have."""
_ROWS: Final = 8192


@dataclass(frozen=True)
class Encoding:
    """Fitted to training documents; columns are: numbers, then categories, then marks of gaps.

    Examples
    --------
    >>> schema = FeatureSchema.of_names(["price", "stock"])
    >>> features = np.array([[1, 5], [np.nan, 7]], dtype=np.float32)
    >>> encoding = Encoding.fit(features, schema, fill=np.array([1.0, 6.0]))
    >>> encoding.apply(features, features)
    array([[1., 5., 0.],
           [1., 7., 1.]], dtype=float32)
    """

    fill: tuple[float, ...]
    """What a missing value becomes, of each feature."""
    marked: tuple[int, ...] = ()
    """Features with a column that says whether the value is missing."""
    categories: tuple[int, ...] = ()
    """Features that are categories, in order."""
    levels: tuple[int, ...] = ()
    """How many of each one's values have a column of their own."""
    numbers: tuple[int, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        width, chosen = len(self.fill), set(self.categories)
        inside = all(0 <= place < width for place in (*self.marked, *self.categories))
        require(inside, "encoding", f"of features 0..{width - 1}", (self.marked, self.categories))
        matched = len(self.levels) == len(self.categories) == len(chosen)
        sane = matched and all(0 <= count <= MOST_LEVELS for count in self.levels)
        require(sane, "encoding", "of as many levels as categories", (self.categories, self.levels))
        rest = tuple(place for place in range(width) if place not in chosen)
        object.__setattr__(self, "numbers", rest)

    @classmethod
    def fit(
        cls,
        features: Features,
        schema: FeatureSchema,
        fill: Floats,
        total: Callable[[Ints], Ints] = lambda own: own,
    ) -> Encoding:
        """The encoding that features need; what is missing elsewhere is filled in, too.

        `fill` is the mean of each feature as it is scaled; `total` makes numbers of all documents
        from those of the documents here.
        """
        gaps = total(has_gaps(features).astype(np.int64)) > 0
        kinds = [feature.kind for feature in schema.features]
        categories = [place for place, kind in enumerate(kinds) if kind == "category"]
        levels = _frequent(features, categories, total)
        marked = np.flatnonzero(gaps).tolist()
        return cls(tuple(fill.tolist()), tuple(marked), tuple(categories), tuple(levels))

    @property
    def outputs(self) -> int:
        """Number of columns in the end."""
        own = sum(self.levels) + len(self.levels)
        return len(self.numbers) + own + len(self.marked)

    @property
    def is_plain(self) -> bool:
        """Whether columns are the features, but for values that are missing."""
        return not self.marked and not self.categories

    def apply(self, features: Features, scaled: Features) -> Features:
        """The columns of documents, from their features as they are and as they are scaled."""
        if self.is_plain:
            return self._without_gaps(scaled)
        encoded = np.empty((features.shape[0], self.outputs), dtype=np.float32)
        self._fill_in(encoded, features, scaled)
        return encoded

    def _without_gaps(self, scaled: Features) -> Features:
        """The features themselves; a copy only where something is missing."""
        if not np.isnan(scaled).any():
            return scaled
        filled: Features = np.where(np.isnan(scaled), np.array(self.fill, np.float32), scaled)
        return filled

    def _fill_in(self, encoded: Features, features: Features, scaled: Features) -> None:
        numbers = scaled[:, self.numbers]
        fill = np.array(self.fill, dtype=np.float32)[list(self.numbers)]
        column = len(self.numbers)
        encoded[:, :column] = np.where(np.isnan(numbers), fill, numbers)
        for place, count in zip(self.categories, self.levels, strict=True):
            values = features[:, place, None]
            own = values == np.arange(count, dtype=np.float32)
            encoded[:, column : column + count] = own
            encoded[:, column + count] = values[:, 0] >= count
            column += count + 1
        for place in self.marked:
            encoded[:, column] = np.isnan(features[:, place])
            column += 1

    def to_dict(self) -> dict[str, Any]:
        """The encoding for JSON."""
        names = ("fill", "marked", "categories", "levels")
        return {name: list(getattr(self, name)) for name in names}

    @classmethod
    def from_dict(cls, record: object) -> Encoding:
        """The encoding of a JSON object, checked."""
        return from_dict(cls, record, "encoding")


def has_gaps(features: Features) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which features have a missing value."""
    gaps = np.zeros(features.shape[1], dtype=np.bool_)
    for _, piece in pieces(features, _ROWS):
        gaps |= np.isnan(piece).any(axis=0)
    return gaps


def _frequent(
    features: Features, categories: list[int], total: Callable[[Ints], Ints]
) -> list[int]:
    """Of each feature, how many categories, the most frequent first, enough documents have."""
    counts = np.zeros((len(categories), MOST_LEVELS), dtype=np.int64)
    if categories:
        for _, piece in pieces(features, _ROWS):
            for own, place in zip(counts, categories, strict=True):
                codes = piece[:, place]
                few = codes[codes < MOST_LEVELS].astype(np.int64)
                own += np.bincount(few, minlength=MOST_LEVELS)
    enough = (total(counts) if categories else counts) >= LEAST_DOCUMENTS
    return [int(own.size if own.all() else np.argmin(own)) for own in enough]
