"""A shop's catalogue: products of queries, what users want, what production thinks of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from benchmarks.shops.lists import Bools, Floats, Ints
from benchmarks.shops.spec import Shop

CATEGORIES = (
    "Shoes", "Jackets & Coats", "T-Shirts", "Jeans", "Accessoires", "Sport/Outdoor", "Wäsche",
    "Sale!", "bags", "Kids", "Beauty", "Gift cards",
)  # fmt: skip
NUMBERS, FLAGS = 20, 3
"""Latent numbers (seventeen measures, three counts) and yes/no properties of a product."""


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Products of queries in one flat array, those that are no longer sold among them."""

    offsets: Ints
    numbers: Floats
    """Latent, standard normal; files show them in other units."""
    flags: Bools
    category: Ints
    listed_day: Ints
    relevance: Floats
    weekly_scores: Floats
    """Production's score in each week, weeks x products; one week where nothing drifts."""
    listed: Bools
    """Whether a product is still sold."""
    traffic: Floats
    """Share of sessions of each query."""

    @property
    def queries(self) -> int:
        """Number of queries."""
        return self.offsets.size - 1

    @property
    def query(self) -> Ints:
        """The query of each product."""
        return np.repeat(np.arange(self.queries), np.diff(self.offsets))

    def items_offsets(self) -> Ints:
        """Offsets of the products that are still sold."""
        sold = np.bincount(self.query[self.listed], minlength=self.queries)
        return np.concatenate([[0], np.cumsum(sold)])


def build_catalogue(shop: Shop) -> Catalogue:
    """The catalogue of a shop; the same for the same seed."""
    rng = np.random.default_rng([shop.seed, 1])
    sizes = rng.integers(shop.products[0], shop.products[1] + 1, shop.queries)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    count = int(offsets[-1])
    numbers = rng.standard_normal((count, NUMBERS))
    flags = rng.random((count, FLAGS)) < (0.2, 0.5, 0.9)
    category = np.minimum(rng.geometric(0.3, count) - 1, len(CATEGORIES) - 1)
    wanted = _standard(_wanted(rng, numbers, flags, category))
    own = rng.standard_normal(count)  # what no feature tells
    wanted = _standard(0.9 * wanted + 0.44 * own)
    relevance = 1 / (1 + np.exp(-(1.5 * wanted - 1.5)))
    believed = numbers @ rng.standard_normal(NUMBERS) + 2 * rng.standard_normal(count)
    believed = _standard(believed - wanted * (wanted @ believed) / (wanted @ wanted))
    score = shop.quality * wanted + np.sqrt(1 - shop.quality**2) * believed
    return Catalogue(
        offsets=offsets,
        numbers=numbers,
        flags=flags,
        category=category,
        listed_day=rng.integers(0, 900, count),
        relevance=relevance,
        weekly_scores=_weekly(rng, shop, _standard(score)),
        listed=_still_sold(rng, shop.delisted, offsets),
        traffic=_traffic(rng, shop.queries),
    )


def _standard(values: Floats) -> Floats:
    spread = values.std()
    return (values - values.mean()) / (spread if spread > 0 else 1.0)


def _wanted(rng: np.random.Generator, numbers: Floats, flags: Bools, category: Ints) -> Floats:
    """What users want, of features: straight, bent and combined."""
    weights = rng.standard_normal(NUMBERS) * (rng.random(NUMBERS) < 0.5)
    weights[:2] = rng.uniform(0.8, 1.2, 2)
    taste = rng.normal(0, 0.6, len(CATEGORIES))
    bent = -0.6 * numbers[:, 2] ** 2 + 0.8 * numbers[:, 3] * numbers[:, 4]
    return numbers @ weights + bent + taste[category] + flags @ np.array([0.5, -0.3, 0.8])


def _weekly(rng: np.random.Generator, shop: Shop, score: Floats) -> Floats:
    if shop.production != "drift":
        return shop.unit * score[None]
    moves = shop.drift * rng.standard_normal((shop.weeks, score.size))
    return shop.unit * (score + moves)


def _still_sold(rng: np.random.Generator, delisted: float, offsets: Ints) -> Bools:
    """All but a share of the products, and at least two of every query."""
    listed: Bools = rng.random(int(offsets[-1])) >= delisted
    for first, last in pairwise(offsets):
        listed[first : min(first + 2, last)] = True
    return listed


def _traffic(rng: np.random.Generator, queries: int) -> Floats:
    """A few queries are asked often, most seldom."""
    popularity = (np.arange(queries) + 10.0) ** -0.7
    rng.shuffle(popularity)
    return popularity / popularity.sum()
