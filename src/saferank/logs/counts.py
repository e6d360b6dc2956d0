"""Counts: how often each document was shown and clicked at each rank, the sufficient statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from saferank import flat
from saferank.errors import InputError, require
from saferank.flat import Array, Floats, Ints

MOST_CELLS = 1 << 31
"""Documents times ranks of counts in memory."""


@dataclass(frozen=True, eq=False)
class Counts:
    """Impressions and clicks per document and rank on the flat document axis, sessions a query.

    Without `sessions`, a query had as many as its most shown rank has impressions. Counts add.

    >>> counts = Counts([0, 2], impressions=[[3, 1], [1, 3]], clicks=[[2, 0], [0, 1]])
    >>> counts
    Counts(1 queries, 2 documents, 2 ranks, 4 sessions, 3 clicks)
    >>> (counts + counts).total
    8
    """

    offsets: Ints
    impressions: Ints
    clicks: Ints
    sessions: Ints = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        impressions = _whole("impressions", self.impressions)
        clicks = _whole("clicks", self.clicks)
        require(impressions.ndim == 2, "impressions", "documents x ranks", impressions.shape)
        require(clicks.shape == impressions.shape, "clicks", f"{impressions.shape}", clicks.shape)
        offsets = flat.check_offsets(self.offsets, impressions.shape[0])
        require(bool(np.all(clicks >= 0)), "clicks", "at least 0", "a negative count")
        if (clicks > impressions).any():
            document, rank = np.argwhere(clicks > impressions)[0]
            raise InputError(
                f"`clicks` must be at most `impressions`; got {clicks[document, rank]} > "
                f"{impressions[document, rank]} for document {document} at rank {rank + 1}."
            )
        shown = flat.query_sums(impressions, offsets).max(axis=1, initial=0)
        sessions = shown if self.sessions is None else _whole("sessions", self.sessions)
        require(sessions.shape == shown.shape, "sessions", f"{shown.size} values", sessions.shape)
        if (shown > sessions).any():
            query = int(np.argmax(shown > sessions))
            raise InputError(
                f"`impressions` at one rank must be at most the query's sessions; got "
                f"{shown[query]} > {sessions[query]} in query {query}."
            )
        object.__setattr__(self, "offsets", offsets)
        object.__setattr__(self, "impressions", impressions)
        object.__setattr__(self, "clicks", clicks)
        object.__setattr__(self, "sessions", sessions)

    @classmethod
    def zeros(cls, offsets: npt.ArrayLike, ranks: int) -> Counts:
        """No sessions yet."""
        cuts = np.asarray(offsets, dtype=np.int64)
        empty = np.zeros((int(cuts[-1]), ranks), dtype=np.int64)
        return cls(cuts, empty, empty.copy())

    @property
    def queries(self) -> int:
        """Number of queries, seen or not."""
        return self.offsets.size - 1

    @property
    def documents(self) -> int:
        """Number of documents, shown or not."""
        return int(self.impressions.shape[0])

    @property
    def ranks(self) -> int:
        """K, the number of ranks."""
        return int(self.impressions.shape[1])

    @property
    def total(self) -> int:
        """N, all sessions."""
        return int(self.sessions.sum())

    def per_session(self, counted: Array) -> Floats:
        """Documents' sums over ranks a session of their query; 0 where there were none."""
        sessions = flat.spread(self.sessions, self.offsets)
        summed = counted if counted.ndim == 1 else counted.sum(axis=1)
        return np.divide(summed, sessions, out=np.zeros(self.documents), where=sessions > 0)

    def ctr(self) -> Floats:
        """Clicks a session of each document: sum_k c / N_q."""
        return self.per_session(self.clicks)

    def mean_weight(self, weights: npt.ArrayLike) -> Floats:
        """Average of a rank weight over the sessions of each document: sum_k n w_k / N_q.

        With alpha this is `a` (the Monte-Carlo propensity rho0), with beta `b`.
        """
        w = np.asarray(weights, dtype=np.float64)
        require(w.shape == (self.ranks,), "weights", f"{self.ranks} values", w.shape)
        return self.per_session(self.impressions @ w)

    def subset(self, queries: Sequence[int] | Array) -> Counts:
        """The counts of the given queries, in the given order."""
        chosen = np.asarray(queries)
        chosen = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen.astype(np.int64)
        positions, offsets = flat.gather(self.offsets, chosen)
        return Counts(
            offsets, self.impressions[positions], self.clicks[positions], self.sessions[chosen]
        )

    def __add__(self, other: Counts) -> Counts:
        same = np.array_equal(self.offsets, other.offsets) and self.ranks == other.ranks
        require(same, "counts", "of the same documents and ranks to be added", repr(other))
        return Counts(
            self.offsets,
            self.impressions + other.impressions,
            self.clicks + other.clicks,
            self.sessions + other.sessions,
        )

    def __repr__(self) -> str:
        return (
            f"Counts({self.queries} queries, {self.documents} documents, {self.ranks} ranks, "
            f"{self.total} sessions, {int(self.clicks.sum())} clicks)"
        )


def _whole(name: str, values: npt.ArrayLike) -> Ints:
    array = np.ascontiguousarray(values)
    require(array.dtype.kind in "iu", name, "whole numbers", array.dtype.name)
    return array.astype(np.int64, copy=False)
