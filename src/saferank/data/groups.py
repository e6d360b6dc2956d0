"""The group of each document: its provider, brand, or whatever exposure is to be fair to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank._core.flat import Ints

MISSING = "(none)"
"""The group of documents that name none."""


@dataclass(frozen=True, eq=False)
class Groups:
    """The group of each document, by number; names by number.

    Examples
    --------
    >>> groups = Groups.of(["b", "a", "b"], "brand")
    >>> groups.names, groups.codes, groups.count
    (('a', 'b'), array([1, 0, 1]), 2)
    """

    codes: Ints
    names: tuple[str, ...]
    column: str = "group"
    """The column of the items that names them."""

    def __post_init__(self) -> None:
        codes = np.ascontiguousarray(self.codes, dtype=np.int64)
        inside = (codes >= 0) & (codes < len(self.names))
        flat.require_each(inside, "groups", f"in 0..{len(self.names) - 1}", codes)
        object.__setattr__(self, "codes", codes)

    @classmethod
    def of(cls, values: npt.ArrayLike, column: str = "group") -> Groups:
        """Groups by the name of each document's."""
        texts = np.asarray(values).astype(np.str_)
        names, codes = np.unique(np.where(texts == "", MISSING, texts), return_inverse=True)
        return cls(codes, tuple(names.tolist()), column)

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(self.names)

    def take(self, positions: Any) -> Groups:
        """The groups of some documents; names and numbers stay."""
        return Groups(self.codes[positions], self.names, self.column)
