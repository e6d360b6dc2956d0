"""Synthetic collections in the shape of the real ones, for when those cannot be had.

A document has latent traits, partly shared by its query. Features are noisy views of a few traits
each, many of them with heavy tails; relevance is a noisy, nonlinear function of the traits, cut
into grades so that their shares are those of the real collection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from saferank._core.flat import Floats, Ints, repeat_per_document
from saferank._core.seeds import generator
from saferank.data.ranking import Collection, RankingData
from saferank.errors import require

Preset = Literal["mslr", "yahoo", "istella", "small"]

_TRAITS = 10
_CHUNK = 256  # queries drawn from one stream, so that a longer collection begins like a shorter one


@dataclass(frozen=True)
class Shape:
    """What a real collection looks like from outside."""

    queries: tuple[int, int, int]
    documents: float
    features: int
    grades: tuple[float, ...]
    heavy: float
    """Share of the features with a heavy tail."""
    most: int
    """Largest number of documents per query."""


PRESETS: dict[str, Shape] = {
    "mslr": Shape((18919, 6306, 6306), 120, 136, (0.515, 0.325, 0.134, 0.018, 0.008), 0.4, 1251),
    "yahoo": Shape((19944, 2994, 6983), 24, 700, (0.26, 0.36, 0.28, 0.08, 0.02), 0.0, 139),
    "istella": Shape((20901, 2318, 9799), 317, 220, (0.9, 0.02, 0.03, 0.03, 0.02), 0.5, 439),
    "small": Shape((400, 150, 300), 20, 24, (0.5, 0.3, 0.13, 0.05, 0.02), 0.3, 60),
}


def synthetic(preset: Preset = "small", *, queries: int | None = None, seed: int = 0) -> Collection:
    """A collection like a real one; `queries` is the number of training queries.

    Validation and test queries keep their share of the preset.

    Parameters
    ----------
    preset
        Which collection it is like: "small", "mslr", "yahoo" or "istella".
    queries
        Number of training queries; by default the preset's.
    seed
        Of every draw.

    Returns
    -------
    Collection
        Labelled queries, with features.

    Examples
    --------
    >>> synthetic("small", queries=100, seed=1)
    Collection(synthetic small: queries train 100, validation 38, test 75; grades 0..4)
    """
    require(preset in PRESETS, "preset", f"one of {sorted(PRESETS)}", preset)
    shape = PRESETS[preset]
    wanted = shape.queries[0] if queries is None else queries
    require(wanted >= 1, "queries", "at least 1", wanted)
    world = _World(preset, shape, seed)
    sizes = [max(1, round(wanted * part / shape.queries[0])) for part in shape.queries]
    train, validation, test = (
        world.part(name, size) for name, size in zip(("train", "vali", "test"), sizes, strict=True)
    )
    highest = len(shape.grades) - 1
    return Collection(train, validation, test, highest, name=f"synthetic {preset}")


class _World:
    """The fixed relations of one collection: how traits make features and relevance."""

    def __init__(self, preset: str, shape: Shape, seed: int) -> None:
        rng = generator(seed, "synthetic", preset)
        self.shape, self.preset, self.seed = shape, preset, seed
        self.views = rng.normal(size=(_TRAITS, shape.features)) * (
            rng.random((_TRAITS, shape.features)) < 3 / _TRAITS
        )
        self.blur = rng.uniform(0.5, 2.0, shape.features) * np.sqrt(shape.features / 30)
        kind = rng.permutation(shape.features) / shape.features
        self.heavy = kind < shape.heavy
        self.counted = (kind >= shape.heavy) & (kind < shape.heavy + 0.15)
        self.of_query = kind >= 0.93  # seen by every document of a query alike
        self.slope = rng.normal(size=_TRAITS)
        self.slope /= np.linalg.norm(self.slope)
        self.pairs = np.array([rng.permutation(_TRAITS)[:2] for _ in range(6)])
        self.bends = rng.normal(size=6)
        self.bends /= np.linalg.norm(self.bends)
        sample = self._appeal(*self._traits(rng, np.full(2000, 25)), rng)
        self.cuts = np.quantile(sample, np.cumsum(shape.grades)[:-1])

    def part(self, name: str, queries: int) -> RankingData:
        """The first `queries` queries of a part."""
        starts = range(0, queries, _CHUNK)
        rngs = [generator(self.seed, "synthetic", self.preset, name, start) for start in starts]
        sizes = [
            self._sizes(rng)[: queries - start] for rng, start in zip(rngs, starts, strict=True)
        ]
        offsets = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
        features = np.empty((int(offsets[-1]), self.shape.features), dtype=np.float32)
        labels = np.empty(features.shape[0], dtype=np.float32)
        for rng, start, size in zip(rngs, starts, sizes, strict=True):
            rows = slice(int(offsets[start]), int(offsets[start + size.size]))
            traits, shared = self._traits(rng, size)
            labels[rows] = np.searchsorted(self.cuts, self._appeal(traits, shared, rng))
            features[rows] = self._features(traits, shared, rng)
        return RankingData(features, offsets, labels=labels)

    def _sizes(self, rng: np.random.Generator) -> Ints:
        spread_ = rng.lognormal(-0.125, 0.5, _CHUNK) * self.shape.documents
        return np.clip(np.round(spread_), 1, self.shape.most).astype(np.int64)

    def _traits(self, rng: np.random.Generator, sizes: Ints) -> tuple[Floats, Floats]:
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        shared = repeat_per_document(rng.normal(size=(sizes.size, _TRAITS)), offsets)
        own = rng.normal(size=(int(offsets[-1]), _TRAITS))
        return np.sqrt(0.3) * shared + np.sqrt(0.7) * own, shared

    def _appeal(self, traits: Floats, shared: Floats, rng: np.random.Generator) -> Floats:
        first, second = traits[:, self.pairs[:, 0]], traits[:, self.pairs[:, 1]]
        luck = rng.normal(size=traits.shape[0])
        curved: Floats = (first * second) @ self.bends
        return 1.5 * (traits @ self.slope + curved) + 0.5 * shared[:, 0] + 1.2 * luck

    def _features(self, traits: Floats, shared: Floats, rng: np.random.Generator) -> Floats:
        seen: Floats = traits @ self.views + self.blur * rng.standard_normal(
            (traits.shape[0], self.shape.features), dtype=np.float32
        )
        seen[:, self.of_query] = shared @ self.views[:, self.of_query]
        seen[:, self.heavy] = np.exp(np.minimum(1.5 * seen[:, self.heavy], 20))
        seen[:, self.counted] = np.floor(np.exp(np.minimum(seen[:, self.counted], 10)))
        return seen
