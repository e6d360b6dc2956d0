"""What the features of documents are: names, kinds and categories, kept with data and rankers.

Features are matched by name. Those of LETOR text, and of tables with one list column, have their
numbers for names: "1", "2", ...
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any, Final, Literal

from saferank._core.records import from_dict
from saferank.errors import InputError

Kind = Literal["number", "boolean", "date", "category"]
NUMBERS: Final = ("number", "boolean")
"""Kinds that stand for each other: a boolean is 0 or 1."""


@dataclass(frozen=True)
class Feature:
    """One feature: its name, what its values are, and the categories, the most frequent first.

    A category's value is its place among the categories, their number for any other; a date's
    value is in days since 1970. A missing value is NaN.
    """

    name: str
    kind: Kind = "number"
    categories: tuple[str, ...] = ()


@dataclass(frozen=True)
class FeatureSchema:
    """The features of some data, in the order of its columns.

    Examples
    --------
    >>> schema = FeatureSchema.of_names(["price", "brand"])
    >>> schema.names
    ('price', 'brand')
    >>> FeatureSchema.numbered(2).names
    ('1', '2')
    >>> schema.check_has(FeatureSchema.of_names(["price", "stock"]))
    Traceback (most recent call last):
    saferank.errors.InputError: the items must have every feature of the ranker; missing: `stock`.
    """

    features: tuple[Feature, ...]

    def __post_init__(self) -> None:
        if len(self._places) < len(self.names):
            twice = repeated(self.names)
            raise InputError(f"`features` must have different names; got {listed(twice)} twice.")

    @classmethod
    def of_names(cls, names: Iterable[str]) -> FeatureSchema:
        """Numbers under the given names."""
        return cls(tuple(Feature(name) for name in names))

    @classmethod
    def numbered(cls, width: int) -> FeatureSchema:
        """Numbers without names, as LETOR text has them."""
        return _numbered(width)

    @classmethod
    def from_dict(cls, record: object) -> FeatureSchema:
        """The schema of a JSON object, checked."""
        return from_dict(cls, record, "features")

    def to_dict(self) -> dict[str, Any]:
        """The schema for JSON."""
        listed = [
            {**asdict(feature), "categories": list(feature.categories)} for feature in self.features
        ]
        return {"features": listed}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(feature.name for feature in self.features)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    @cached_property
    def is_numbered(self) -> bool:
        """Whether the features have no names but their numbers."""
        return self.names == tuple(str(n) for n in range(1, len(self.names) + 1))

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.features)

    def get(self, name: str) -> Feature | None:
        """The feature of a name, where there is one."""
        place = self._places.get(name)
        return None if place is None else self.features[place]

    def places(self, names: Iterable[str]) -> list[int]:
        """Columns of the named features, all of which must be there."""
        return [self._places[name] for name in names]

    def unknown_to(self, wanted: FeatureSchema) -> list[str]:
        """Names of the features that another schema does not have."""
        return [name for name in self.names if name not in wanted._places]

    def check_has(self, wanted: FeatureSchema) -> None:
        """Refuse data of this schema for a ranker of the `wanted` one if a feature is missing."""
        missing = [name for name in wanted.names if name not in self._places]
        if not missing:
            return
        if wanted.is_numbered and self.is_numbered:
            raise InputError(f"the items must have {wanted.width} features; got {self.width}.")
        if wanted.is_numbered:
            raise InputError(
                f"the ranker knows its {wanted.width} features by their numbers only, and the "
                f"items have names ({listed(self.names)}): learn it again from items with names, "
                f"or give the features without names (LETOR text, or a list column `features`)."
            )
        if self.is_numbered:
            raise InputError(
                f"the items must have the names of the ranker's features "
                f"({listed(wanted.names)}); they have none."
            )
        raise InputError(
            f"the items must have every feature of the ranker; missing: {listed(missing)}."
        )


@lru_cache(maxsize=32)
def _numbered(width: int) -> FeatureSchema:
    return FeatureSchema.of_names(str(number) for number in range(1, width + 1))


def listed(names: Iterable[str]) -> str:
    """Names for a sentence, the first few of many."""
    few = [f"`{name}`" for name in names]
    return ", ".join(few[:5]) + (f" and {len(few) - 5} more" if len(few) > 5 else "")


def repeated(names: Iterable[str]) -> list[str]:
    """The names that are there more than once, found in one pass.

    >>> repeated(["price", "stock", "price"])
    ['price']
    """
    return sorted(name for name, times in Counter(names).items() if times > 1)
