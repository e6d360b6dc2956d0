"""What changes for a query: its documents that moved, before and after."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats, Ints


@dataclass(frozen=True)
class Moved:
    """A document: its place when sorted by score (from 1), and its exposure."""

    document: str
    rank_before: int
    rank_after: int
    exposure_before: float
    exposure_after: float


@dataclass(frozen=True)
class Change:
    """A query, its share of the traffic, what it can lose at worst, and its top documents.

    Losses are shares of Z_q: `loss` is eta(keep), `largest_loss` is eta(1).
    """

    query: str
    traffic: float
    documents: int
    loss: float
    largest_loss: float
    moved: tuple[Moved, ...]


def places_of(scores: Floats, offsets: Ints) -> Ints:
    """Place of each document, from 1, when its query is sorted by score (ties in their order)."""
    order = np.lexsort((-scores, flat.query_of(offsets)))
    places = np.empty(scores.size, dtype=np.int64)
    places[order] = np.arange(scores.size) - flat.repeat_per_document(offsets[:-1], offsets) + 1
    return places


def moved_documents(
    ids: flat.Array, places: Ints, omega0: Floats, omega: Floats, ranks: int
) -> tuple[Moved, ...]:
    """The documents of a query that are in the top before or after, in their new order."""
    shown = np.flatnonzero(places.min(axis=1) <= ranks)
    return tuple(
        Moved(str(ids[d]), int(places[d, 0]), int(places[d, 1]), float(omega0[d]), float(omega[d]))
        for d in shown[np.argsort(places[shown, 1], kind="stable")]
    )
