"""Rows to try an export on: where trees part, both zeros, missing values, extremes, and others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from saferank._core.flat import Array, Floats, Ints
from saferank._core.seeds import generator
from saferank.data import FeatureSchema, Scaling
from saferank.data.ranking import Features
from saferank.serving.export.raw_trees import LARGEST, NEARLY_ZERO, RawTree, key_of, of_keys
from saferank.serving.export.source import Source

EXTREMES: Final = (0.0, -0.0, 1e-30, -1e-30, 1.0, -1.0, 1e30, -1e30, 3e38, -3e38)
_LONGEST: Final = 60
"""Documents of a list."""


def lists(rows: int, seed: int) -> Ints:
    """Offsets of lists of 1 to 60 documents, short ones among them."""
    rng = generator(seed, "lists")
    sizes = rng.integers(1, _LONGEST + 1, rows)
    sizes[::4] = rng.integers(1, 5, sizes[::4].size)
    cuts = np.concatenate([[0], np.cumsum(sizes)])
    return np.append(cuts[cuts < rows], rows)


def probe(source: Source, rows: int, seed: int, *, missing: bool, nearest: float) -> Features:
    """Rows of raw features; without missing values, or values nearer to 0, where so wanted."""
    rng = generator(seed, "probe")
    if source.forest is None or source.ranker.scaling.kind == "query_minmax":
        features = network_rows(source.ranker.scaling, source.ranker.features, rows, rng)
        gaps = 0.05
    else:
        features = tree_rows(source.trees, len(source.names), rows, rng)
        gaps = 0.02
    if missing:
        features[rng.random(features.shape) < gaps] = np.nan
    if source.ranker.scaling.kind != "none":
        # there LightGBM's zero is that of the scaled value
        nearest = max(nearest, float(NEARLY_ZERO))
    features[np.abs(features) <= nearest] *= 0
    return features


def tree_rows(
    trees: Sequence[RawTree], width: int, rows: int, rng: np.random.Generator
) -> Features:
    """Rows that end their way through some tree as near to its thresholds as float32 can."""
    pools = _pools(trees, width)
    features = np.zeros((rows, width), dtype=np.float32)
    for place, pool in enumerate(pools):
        features[:, place] = rng.choice(pool, rows)
    grown = [tree for tree in trees if tree.feature.size]
    for row in range(0, rows if grown else 0, 2):
        _walk_down(grown[int(rng.integers(len(grown)))], features[row], rng)
    return features


def _pools(trees: Sequence[RawTree], width: int) -> list[Array]:
    """Values of each feature: its thresholds, their neighbours, zeros and extremes."""
    feature = np.concatenate([np.zeros(0, np.int64), *(tree.feature for tree in trees)])
    threshold = np.concatenate([np.zeros(0, np.float32), *(tree.threshold for tree in trees)])
    pools = []
    for place in range(width):
        keys = key_of(threshold[feature == place])
        near = of_keys(np.concatenate([keys, keys + 1, keys - 1]))
        near = near[np.abs(near) < LARGEST]
        pools.append(np.concatenate([np.repeat(near, 1 + 30 // max(near.size, 1)), EXTREMES]))
    return pools


def _walk_down(tree: RawTree, row: Features, rng: np.random.Generator) -> None:
    """Change a row so that it takes a random way, at the last value that does so or the first."""
    low: dict[int, int] = {}
    high: dict[int, int] = {}
    node = tree.root
    keys = key_of(tree.threshold)
    while node >= 0:
        feature, key = int(tree.feature[node]), int(keys[node])
        fits = low.get(feature, key) <= key < high.get(feature, key + 1)
        left = bool(rng.random() < 0.5)
        if fits:
            bound = high if left else low
            bound[feature] = key if left else key + 1
        else:
            left = high.get(feature, key + 1) <= key
        node = int(tree.left[node] if left else tree.right[node])
    for feature in {*low, *high}:
        ends = [bound[feature] for bound in (low, high) if feature in bound]
        value = of_keys(ends[int(rng.integers(len(ends)))])
        row[feature] = value if abs(value) < LARGEST else 0


def network_rows(
    scaling: Scaling, schema: FeatureSchema, rows: int, rng: np.random.Generator
) -> Features:
    """Rows about where training was, as the scaling tells it; both zeros, and a few far out."""
    centre: Floats = np.zeros(scaling.width) if scaling.centre is None else scaling.centre
    spread: Floats = np.ones(scaling.width) if scaling.spread is None else scaling.spread
    width = spread * rng.choice([0.5, 2.0], rows)[:, None]
    shaped = centre + width * rng.normal(size=(rows, scaling.width))
    if scaling.kind == "log1p":
        shaped = np.copysign(np.expm1(np.minimum(np.abs(shaped), 80.0)), shaped)
    features: Features = shaped.astype(np.float32)
    zeros = rng.random(features.shape)
    features[zeros < 0.05] = 0.0
    features[zeros < 0.02] = -0.0
    for place, feature in enumerate(schema.features):
        if feature.kind == "category":
            features[:, place] = rng.integers(0, len(feature.categories) + 1, rows)
    return features
