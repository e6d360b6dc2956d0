"""Trees on features as they come: the scaling folded into the thresholds, float for float.

A scaling g of one feature never decreases, so that `g(x) <= t` holds up to some float32 number and
for none above it. That number is found by bisection over all float32 numbers with the scaling's own
code, so that no value is routed otherwise than the ranker routes it. LightGBM's rules for values
that are missing or nearly zero are folded in, too: what is left is `x <= threshold`, and where a
missing value goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from saferank._core.flat import Array, Floats, Ints
from saferank.data import Scaling
from saferank.data.ranking import Features
from saferank.data.scaling import KINDS
from saferank.errors import InputError
from saferank.scorers.tree_text import Tree
from saferank.scorers.tree_walk import MISSING_NAN

LARGEST: Final = np.finfo(np.float32).max
NEARLY_ZERO: Final = np.float32(1e-35)
"""LightGBM takes what is not larger for 0."""
_MISSING_ZERO: Final = 1
_LAST_KEY: Final = int(np.float32(LARGEST).view(np.int32))


@dataclass(frozen=True, eq=False)
class RawTree:
    """One tree: left if `x <= threshold`; a negative child is the leaf `~child`."""

    feature: Ints
    threshold: npt.NDArray[np.float32]
    missing_left: npt.NDArray[np.bool_]
    knows_missing: npt.NDArray[np.bool_]
    """Whether training had missing values of the feature, so that their way was learned."""
    left: Ints
    right: Ints
    leaf_value: Floats

    @property
    def root(self) -> int:
        """The first node, or the leaf where there is no node."""
        return 0 if self.feature.size else -1

    def depth(self) -> int:
        """Number of splits on the longest way to a leaf."""
        level = np.ones(self.feature.size, dtype=np.int64)
        for node in range(self.feature.size):
            for child in (self.left[node], self.right[node]):
                if child >= 0:
                    level[child] = level[node] + 1
        return int(level.max(initial=0))


def raw_trees(trees: Sequence[Tree], scaling: Scaling) -> list[RawTree]:
    """The trees of a forest for features that are not scaled.

    Examples
    --------
    >>> lists = {"split_feature": "0", "threshold": "0.5", "decision_type": "0",
    ...          "left_child": "-1", "right_child": "-2", "leaf_value": "1 2"}
    >>> tree = Tree.parse({"num_leaves": "2", **lists}, 1, "tree")
    >>> scaling = Scaling("standard", 1, np.array([10.0]), np.array([4.0]))
    >>> raw_trees([tree], scaling)[0].threshold
    array([12.], dtype=float32)
    """
    if KINDS[scaling.kind].within_query:
        raise InputError(f"`{scaling.kind}` scales within a query, which no threshold can do.")
    if not trees:
        return []
    cuts = np.cumsum([tree.feature.size for tree in trees])[:-1]
    feature, threshold, decision = (
        np.concatenate([getattr(tree, name) for tree in trees])
        for name in ("feature", "threshold", "decision")
    )
    last = _last_left(feature, threshold, scaling)
    ways = zip(
        *(np.split(array, cuts) for array in (last, _missing_left(threshold, decision))),
        strict=True,
    )
    return [_raw(tree, keys, missing) for tree, (keys, missing) in zip(trees, ways, strict=True)]


def _raw(tree: Tree, keys: Ints, missing: npt.NDArray[np.bool_]) -> RawTree:
    never = keys < -_LAST_KEY  # then all go left to what was the right child
    threshold = of_keys(np.where(never, _LAST_KEY, keys))
    return RawTree(
        tree.feature,
        threshold,
        missing ^ never,
        tree.decision >> 2 == MISSING_NAN,
        np.where(never, tree.right, tree.left),
        np.where(never, tree.left, tree.right),
        tree.leaf_value,
    )


def _missing_left(threshold: Floats, decision: Ints) -> npt.NDArray[np.bool_]:
    """Where a missing value goes: as learned, or as a (scaled) 0 goes."""
    kind, learned, zero = decision >> 2, (decision & 2) != 0, threshold >= 0
    if np.any((kind == _MISSING_ZERO) & (learned != zero)):
        raise InputError(
            "these trees take zeros for missing values (`zero_as_missing`), which is only known to "
            "LightGBM: serve them with the model's own text."
        )
    return np.where(kind == MISSING_NAN, learned, zero)


def _last_left(feature: Ints, threshold: Floats, scaling: Scaling) -> Ints:
    """Key of the largest float32 number that goes left at each node; below all: none does."""
    columns = _columns(scaling, feature)

    def goes_left(keys: Ints) -> npt.NDArray[np.bool_]:
        with np.errstate(over="ignore"):  # what is too large is infinite, and still in order
            scaled = columns.apply(of_keys(keys)[None, :])[0].astype(np.float64)
        scaled[np.abs(scaled) <= NEARLY_ZERO] = 0.0
        goes: npt.NDArray[np.bool_] = scaled <= threshold
        return goes

    low = np.full(feature.size, -_LAST_KEY - 1)  # goes left, as it were
    high = np.full(feature.size, _LAST_KEY + 1)  # does not
    while np.any(high - low > 1):
        middle = np.clip((low + high) // 2, -_LAST_KEY, _LAST_KEY)
        left = goes_left(middle)
        low = np.where(left & (high - low > 1), middle, low)
        high = np.where(~left & (high - low > 1), middle, high)
    return _outside_zero(low)


def _outside_zero(keys: Ints) -> Ints:
    """The same thresholds, those nearer to zero than LightGBM looks moved to where it does."""
    zone = key_of(NEARLY_ZERO)
    inside = (keys >= -zone) & (keys < zone)
    return np.where(inside, np.where(keys >= 0, zone, -zone - 1), keys)


def _columns(scaling: Scaling, feature: Ints) -> Scaling:
    """The same scaling with one column per node: that of the node's feature."""

    def of(values: Floats | None) -> Floats | None:
        return None if values is None else values[feature]

    ends = of(scaling.low), of(scaling.high)
    return Scaling(scaling.kind, feature.size, of(scaling.centre), of(scaling.spread), *ends)


def key_of(value: npt.ArrayLike) -> Ints:
    """Whole numbers in the order of float32 numbers; both zeros are 0.

    >>> key_of(np.array([-1e-45, -0.0, 0.0, 1e-45], dtype=np.float32))
    array([-1,  0,  0,  1])
    """
    bits = np.asarray(value, dtype=np.float32).view(np.int32).astype(np.int64)
    return np.where(bits >= 0, bits, -(bits & 0x7FFFFFFF))


def of_keys(keys: npt.ArrayLike) -> Features:
    """The float32 numbers of keys."""
    whole = np.asarray(keys, dtype=np.int64)
    bits = np.where(whole >= 0, whole, 0x80000000 - whole).astype(np.uint32)
    numbers: Features = bits.view(np.float32)
    return numbers


def next_above(values: Array) -> Features:
    """The next float32 number; the largest stays."""
    return of_keys(np.minimum(key_of(values) + 1, _LAST_KEY))


def largest_double(values: Array) -> Floats:
    """The largest doubles that become these float32 numbers, or smaller ones, when rounded."""
    here, above = np.asarray(values, np.float32), next_above(values)
    middle = (here.astype(np.float64) + above.astype(np.float64)) / 2
    return np.where(middle.astype(np.float32) <= here, middle, np.nextafter(middle, -np.inf))
