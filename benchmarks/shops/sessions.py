"""Sessions of a shop: which query, which list, which clicks, when, and who."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.shops.catalogue import Catalogue
from benchmarks.shops.lists import Bools, Ints, Maker
from benchmarks.shops.spec import Shop
from benchmarks.shops.truth import Weekly
from benchmarks.shops.users import Users, relevance_of

AT_ONCE = 20_000
WEEK = 7 * 86_400
BOT_CLICKS = 0.97
"""Share of what it is shown that a robot clicks."""


@dataclass(frozen=True, eq=False)
class Sessions:
    """The sessions in the order of time: lists are positions in the whole catalogue."""

    query: Ints
    lists: Ints
    clicks: Bools
    bot: Bools
    second: Ints
    """Of the start, counted from that of the log."""

    @property
    def rows(self) -> int:
        """Shown documents."""
        return int((self.lists >= 0).sum())


def production_of(shop: Shop, scores: np.ndarray) -> Weekly:
    """How production makes lists in each week, from weekly scores (weeks x products)."""
    spread = shop.unit
    kinds = {
        "sorted": ("normal", 0.0),
        "noisy": ("normal", shop.noise * spread),
        "drift": ("normal", shop.noise * spread),
        "sampled": ("gumbel", shop.temperature),
        "uniform": ("gumbel", 1.0),
    }
    noise, scale = kinds[shop.production]
    rows = np.zeros_like(scores) if shop.production == "uniform" else scores
    return Weekly(tuple(Maker(row, noise, scale) for row in rows))  # type: ignore[arg-type]


def simulate(shop: Shop, catalogue: Catalogue, users: Users) -> Sessions:
    """All sessions of the log."""
    rng = np.random.default_rng([shop.seed, 2])
    bot = rng.random(shop.sessions) < shop.bots
    second = np.sort(rng.integers(0, shop.weeks * WEEK, shop.sessions))
    query = rng.choice(catalogue.queries, shop.sessions, p=catalogue.traffic)
    haunts = rng.choice(catalogue.queries, min(3, catalogue.queries), replace=False)
    haunted = bot & (rng.random(shop.sessions) < 0.5)
    query[haunted] = rng.choice(haunts, int(haunted.sum()))
    makers = production_of(shop, catalogue.weekly_scores).makers
    week = np.minimum(second // WEEK, len(makers) - 1)
    lists = np.empty((shop.sessions, shop.k), dtype=np.int64)
    for index, maker in enumerate(makers):
        mine = np.flatnonzero(week == index)
        for start in range(0, mine.size, AT_ONCE):
            chosen = mine[start : start + AT_ONCE]
            lists[chosen] = maker.draw(rng, query[chosen], catalogue.offsets, shop.k)
    clicks = users.clicks(rng, np.nan_to_num(relevance_of(lists, catalogue.relevance)))
    clicks[bot] = rng.random((int(bot.sum()), shop.k)) < BOT_CLICKS
    return Sessions(query, lists, clicks & (lists >= 0), bot, second)
