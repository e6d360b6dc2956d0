"""What changes for a query: its documents that moved, before and after."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank.evaluation.scored_policies import chosen, exposure_of, scores_of
from saferank.safety.policy_facts import Comparison


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


def changes(
    comparison: Comparison, queries: npt.ArrayLike, *, losses: Floats, shares: Floats
) -> tuple[Change, ...]:
    """What changes for the given queries: the documents that are in the top before or after.

    `losses` are eta(keep) and eta(1) of all queries, queries x 2.
    """
    part, weights = chosen(comparison.data, queries), comparison.rule.examination.weights
    offsets = part.data.offsets
    after = scores_of(comparison.new, part, "new")
    old = comparison.production.take(part.queries, part.positions, offsets)
    omega = exposure_of(after, weights, offsets, comparison.deployed, old.filled)
    before, omega0 = old.ranking_scores(), old.exposure(weights)
    query_ids, doc_ids = part.data.ids()
    places = np.stack([_places(before, offsets), _places(after, offsets)], axis=1)
    listed = []
    for number, query in enumerate(part.queries):
        own = slice(offsets[number], offsets[number + 1])
        listed.append(
            Change(
                query=str(query_ids[number]),
                traffic=float(shares[query]),
                documents=int(own.stop - own.start),
                loss=float(losses[query, 0]),
                largest_loss=float(losses[query, 1]),
                moved=_moved(doc_ids[own], places[own], omega0[own], omega[own], weights.size),
            )
        )
    return tuple(listed)


def _places(scores: Floats, offsets: Ints) -> Ints:
    """Place of each document, from 1, when its query is sorted by score (ties in their order)."""
    order = np.lexsort((-scores, flat.query_of(offsets)))
    places = np.empty(scores.size, dtype=np.int64)
    places[order] = np.arange(scores.size) - flat.repeat_per_document(offsets[:-1], offsets) + 1
    return places


def _moved(
    ids: flat.Array, places: Ints, omega0: Floats, omega: Floats, ranks: int
) -> tuple[Moved, ...]:
    shown = np.flatnonzero(places.min(axis=1) <= ranks)
    return tuple(
        Moved(str(ids[d]), int(places[d, 0]), int(places[d, 1]), float(omega0[d]), float(omega[d]))
        for d in shown[np.argsort(places[shown, 1], kind="stable")]
    )
