"""A whole world: the shop, its sessions, its files, and the truth about it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.shops import files
from benchmarks.shops.catalogue import Catalogue, build_catalogue
from benchmarks.shops.lists import Floats, Ints
from benchmarks.shops.sessions import Sessions, production_of, simulate
from benchmarks.shops.spec import Shop
from benchmarks.shops.truth import Truth
from benchmarks.shops.users import users_of


@dataclass(frozen=True, eq=False)
class World:
    """A shop with its sessions, and the truth on the items that it sells today."""

    shop: Shop
    catalogue: Catalogue
    sessions: Sessions
    truth: Truth

    def write(self, folder: Path) -> files.Files:
        """Write items and log as the company has them."""
        return files.write(self.shop, self.catalogue, self.sessions, folder)

    def positions(self, query_ids: npt.ArrayLike, doc_ids: npt.ArrayLike) -> tuple[Ints, Ints]:
        """The query and the position (in the truth's order) of rows of ids, as files have them."""
        queries, products = files.names_of(self.catalogue)
        sold = np.flatnonzero(self.catalogue.listed)
        own = self.catalogue.query[sold]
        place = {
            pair: index
            for index, pair in enumerate(
                zip(queries[own].tolist(), products[sold].tolist(), strict=True)
            )
        }
        pairs = zip(np.asarray(query_ids).tolist(), np.asarray(doc_ids).tolist(), strict=True)
        found = np.array([place[pair] for pair in pairs], dtype=np.int64)
        return own[found], found

    def in_order(
        self, query_ids: npt.ArrayLike, doc_ids: npt.ArrayLike, values: npt.ArrayLike
    ) -> Floats:
        """One value per item, given in rows of ids, in the truth's order."""
        _, place = self.positions(query_ids, doc_ids)
        result = np.full(self.truth.relevance.size, np.nan)
        result[place] = values
        if np.isnan(result).any():
            raise ValueError(f"{int(np.isnan(result).sum())} items have no value")
        return result


def build(shop: Shop) -> World:
    """The world of a shop; the same for the same record.

    The truth is about the items sold today, and about production as it was over the log's weeks.
    """
    catalogue = build_catalogue(shop)
    users = users_of(shop.users, shop.k, np.random.default_rng([shop.seed, 6]))
    sessions = simulate(shop, catalogue, users)
    people = np.bincount(sessions.query[~sessions.bot], minlength=shop.queries)
    truth = Truth(
        offsets=catalogue.items_offsets(),
        relevance=catalogue.relevance[catalogue.listed],
        users=users,
        production=production_of(shop, catalogue.weekly_scores[:, catalogue.listed]),
        traffic=people / people.sum(),
        k=shop.k,
        seed=shop.seed,
    )
    return World(shop, catalogue, sessions, truth)
