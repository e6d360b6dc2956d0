"""Counts: how often each document was shown and clicked at each rank, the sufficient statistics."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank._core.display import html_summary
from saferank._core.flat import Array, Floats, Ints
from saferank.counts.feedback import CLICKS, Feedback
from saferank.counts.sketch import Sketch
from saferank.errors import InputError, require

MOST_CELLS = 1 << 31
"""Documents times ranks of counts in memory."""
MOST_RANKS = 10_000
MOST_SUM = 1 << 62
"""Below it sums of counts, also of two of them, are 64-bit integers."""

Part = Literal["learn", "judge", "all"]
PARTS: tuple[Part, ...] = ("learn", "judge", "all")


@dataclass(frozen=True, eq=False)
class Counts:
    """Impressions and clicks per document and rank on the flat document axis, sessions per query.

    Without `sessions`, a query had as many as its most shown rank has impressions. Counts add.
    `judge` holds those of the sessions that are set aside to judge a ranker by: they are among
    the counts, and `part("learn")` is what is left without them. `outside` has what was shown and
    clicked of documents that have no item any more (2 x queries x ranks): production is owed it.
    `propensity` is production's probability of each document at each rank as the log has recorded
    it (documents x ranks; 0 where it never showed it).

    >>> counts = Counts([0, 2], impressions=[[3, 1], [1, 3]], clicks=[[2, 0], [0, 1]])
    >>> counts
    Counts(1 queries, 2 documents, 2 ranks, 4 sessions, 3 clicks)
    >>> (counts + counts).total
    8
    >>> split = replace(counts, judge=Counts([0, 2], [[1, 0], [0, 1]], [[1, 0], [0, 0]]))
    >>> split.part("learn").total, split.part("judge").total
    (3, 1)
    """

    offsets: Ints
    """Where each query's documents begin: queries + 1 values."""
    impressions: Ints
    """How often each document was shown at each rank, documents x ranks."""
    clicks: Ints
    """How often it was clicked there, documents x ranks."""
    sessions: Ints = None  # type: ignore[assignment]
    """Sessions of each query."""
    judge: Counts | None = None
    """The counts of the sessions set aside to judge by."""
    outside: Ints | None = None
    """Impressions and clicks of documents without an item, 2 x queries x ranks."""
    propensity: Floats | None = None
    """P(document at rank) as production recorded it, documents x ranks."""
    sketch: Sketch | None = None
    """A sample of the sessions' ids, where the log had them."""
    cluster: Ints | None = None
    """The user of each query, as a number: queries of one user say less than as many of others."""
    feedback: Feedback = CLICKS
    """What `clicks` are: clicks, purchases, or shares of a value drawn as whole or nothing."""

    if TYPE_CHECKING:  # whatever is an array is taken, and kept as the fields say

        def __init__(
            self,
            offsets: npt.ArrayLike,
            impressions: npt.ArrayLike,
            clicks: npt.ArrayLike,
            sessions: npt.ArrayLike | None = None,
            judge: Counts | None = None,
            outside: npt.ArrayLike | None = None,
            propensity: npt.ArrayLike | None = None,
            sketch: Sketch | None = None,
            cluster: npt.ArrayLike | None = None,
            feedback: Feedback = CLICKS,
        ) -> None: ...

    def __post_init__(self) -> None:
        impressions = _whole("impressions", self.impressions)
        clicks = _whole("clicks", self.clicks)
        require(impressions.ndim == 2, "impressions", "documents x ranks", impressions.shape)
        check_ranks(impressions.shape[1])
        require(clicks.shape == impressions.shape, "clicks", f"{impressions.shape}", clicks.shape)
        offsets = flat.check_offsets(self.offsets, impressions.shape[0])
        flat.require_each(clicks >= 0, "clicks", "at least 0", clicks)
        if (clicks > impressions).any():
            document, rank = np.argwhere(clicks > impressions)[0]
            raise InputError(
                f"`clicks` must be at most `impressions`; got {clicks[document, rank]} > "
                f"{impressions[document, rank]} for document {document} at rank {rank + 1}."
            )
        _check_sum("impressions", impressions)
        shown = flat.query_sums(impressions, offsets).max(axis=1, initial=0)
        sessions = shown if self.sessions is None else _whole("sessions", self.sessions)
        require(sessions.shape == shown.shape, "sessions", f"{shown.size} values", sessions.shape)
        _check_sum("sessions", sessions)
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
        if self.outside is not None:
            outside = _whole("outside", self.outside)
            shape = (2, sessions.size, impressions.shape[1])
            require(outside.shape == shape, "outside", f"{shape}", outside.shape)
            object.__setattr__(self, "outside", outside)
        if self.propensity is not None:
            propensity = np.ascontiguousarray(self.propensity, dtype=np.float64)
            rule = f"in [0, 1], {impressions.shape}"
            require(propensity.shape == impressions.shape, "propensity", rule, propensity.shape)
            flat.require_each((propensity >= 0) & (propensity <= 1), "propensity", rule, propensity)
            object.__setattr__(self, "propensity", propensity)
        if self.cluster is not None:
            cluster = _whole("cluster", self.cluster)
            require(cluster.shape == shown.shape, "cluster", f"{shown.size} values", cluster.shape)
            object.__setattr__(self, "cluster", cluster)
        if self.judge is not None:
            self._check_judge(self.judge)

    def _check_judge(self, judge: Counts) -> None:
        self._check_same(judge)
        require(judge.judge is None, "judge", "counts without parts of their own", repr(judge))
        misses, judged_misses = self.impressions - self.clicks, judge.impressions - judge.clicks
        inside = (
            bool(np.all(judge.clicks <= self.clicks))
            and bool(np.all(judged_misses <= misses))
            and bool(np.all(judge.sessions <= self.sessions))
        )
        require(inside, "judge", "a part of the counts", f"{judge!r} of {self!r}")

    def _check_same(self, other: Counts) -> None:
        same = np.array_equal(self.offsets, other.offsets) and self.ranks == other.ranks
        rule = f"of the same documents and {self.ranks} ranks"
        require(same, "counts", rule, repr(other))
        alike = self.feedback == other.feedback
        require(alike, "counts", f"of {self.feedback.text}", other.feedback.text)

    @classmethod
    def of_parts(cls, learn: Counts, judge: Counts) -> Counts:
        """Counts of sessions to learn from and of others to judge by."""
        return replace(learn + judge, judge=judge)

    def part(self, name: Part) -> Counts:
        """The counts of the sessions to learn from, to judge by, or of all, without parts.

        Counts that were not split are all to learn from, and there are none to judge by.
        """
        require(name in PARTS, "part", f"one of {', '.join(PARTS)}", name)
        if name == "judge":
            nothing = Counts.zeros(self.offsets, self.ranks)
            return replace(nothing, feedback=self.feedback) if self.judge is None else self.judge
        if self.judge is None:
            return self
        if name == "all":
            return replace(self, judge=None)
        return Counts(
            self.offsets,
            self.impressions - self.judge.impressions,
            self.clicks - self.judge.clicks,
            self.sessions - self.judge.sessions,
            outside=_summed(self.outside, self.judge.outside, -1),
            propensity=self.propensity,
            sketch=_learned(self.sketch, self.judge.sketch),
            cluster=self.cluster,
            feedback=self.feedback,
        )

    def fingerprint(self) -> str:
        """A name for these sessions that does not depend on the order of queries or documents.

        Documents that were never shown and ranks at which none was shown do not change it.
        """
        shown = self.impressions.any(axis=0)
        ranks = int(np.flatnonzero(shown).max(initial=-1)) + 1
        seen = self.impressions.any(axis=1)
        cells = np.hstack([self.impressions[seen, :ranks], self.clicks[seen, :ranks]])
        order = np.lexsort(cells.T[::-1]) if cells.size else slice(None)
        digest = hashlib.blake2b(digest_size=16)
        for values in (cells[order], np.sort(self.sessions[self.sessions > 0])):
            digest.update(np.ascontiguousarray(values, dtype="<i8").reshape(-1).data)
        return digest.hexdigest()

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
        """Documents' sums over ranks per session of their query; 0 where there were none."""
        sessions = flat.repeat_per_document(self.sessions, self.offsets)
        summed = counted if counted.ndim == 1 else counted.sum(axis=1)
        return np.divide(summed, sessions, out=np.zeros(self.documents), where=sessions > 0)

    def ctr(self) -> Floats:
        """Clicks per session of each document: sum_k c / N_q."""
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
            offsets,
            self.impressions[positions],
            self.clicks[positions],
            self.sessions[chosen],
            None if self.judge is None else self.judge.subset(chosen),
            None if self.outside is None else self.outside[:, chosen],
            None if self.propensity is None else self.propensity[positions],
            cluster=None if self.cluster is None else self.cluster[chosen],
            feedback=self.feedback,
        )

    def __add__(self, other: Counts) -> Counts:
        self._check_same(other)
        judged = [part.judge for part in (self, other) if part.judge is not None]
        return Counts(
            self.offsets,
            self.impressions + other.impressions,
            self.clicks + other.clicks,
            self.sessions + other.sessions,
            judged[0] + judged[1] if len(judged) == 2 else next(iter(judged), None),
            _summed(self.outside, other.outside),
            _mean_propensity(self, other),
            None if self.sketch is None or other.sketch is None else self.sketch | other.sketch,
            self.cluster if _same(self.cluster, other.cluster) else None,
            self.feedback,
        )

    def __repr__(self) -> str:
        return (
            f"Counts({self.queries} queries, {self.documents} documents, {self.ranks} ranks, "
            f"{self.total} sessions, {self.feedback.worth(int(self.clicks.sum())):.16g} "
            f"{self.feedback.noun}"
            + (")" if self.judge is None else f"; {self.judge.total} sessions to judge by)")
        )

    def _repr_html_(self) -> str:
        judge = 0 if self.judge is None else self.judge.total
        return html_summary(
            "Counts",
            [
                ("sessions", f"{self.total:,}, of which {judge:,} to judge by"),
                (
                    "queries, documents, ranks",
                    f"{self.queries:,}, {self.documents:,}, {self.ranks}",
                ),
                ("impressions", f"{int(self.impressions.sum()):,}"),
                ("clicks", f"{int(self.clicks.sum()):,}"),
            ],
        )


def _same(first: Ints | None, second: Ints | None) -> bool:
    return first is not None and second is not None and np.array_equal(first, second)


def _summed(first: Ints | None, second: Ints | None, sign: int = 1) -> Ints | None:
    if second is None:
        return first
    return sign * second if first is None else first + sign * second


def _learned(everything: Sketch | None, judge: Sketch | None) -> Sketch | None:
    return everything if everything is None or judge is None else everything.without(judge)


def _mean_propensity(first: Counts, second: Counts) -> Floats | None:
    """Their harmonic mean by impressions, which is that of all sessions; none unless both know."""
    if first.propensity is None or second.propensity is None:
        return None
    inverse = sum(
        np.divide(each.impressions, each.propensity, out=np.zeros(each.impressions.shape),
                  where=each.propensity > 0)
        for each in (first, second) if each.propensity is not None
    )  # fmt: skip
    shown = first.impressions + second.impressions
    mean: Floats = np.divide(shown, inverse, out=np.zeros(shown.shape), where=inverse > 0)
    return np.minimum(mean, 1.0)


def check_ranks(ranks: int) -> None:
    """Refuse more ranks than arrays of all documents should have."""
    rule = f"at most {MOST_RANKS:,}: --top K (top=K in Python) leaves the rest out"
    require(ranks <= MOST_RANKS, "ranks", rule, ranks)


def _whole(name: str, values: npt.ArrayLike) -> Ints:
    array = np.ascontiguousarray(values)
    require(array.dtype.kind in "iu", name, "whole numbers", array.dtype.name)
    if array.dtype.kind == "u" and array.dtype.itemsize == 8 and array.size:
        require(int(array.max()) < MOST_SUM, name, f"below {MOST_SUM}", int(array.max()))
    return array.astype(np.int64, copy=False)


def _check_sum(name: str, values: Ints) -> None:
    """Refuse counts whose sum is no 64-bit integer: it would wrap around silently."""
    total = float(values.sum(dtype=np.float64))
    require(total < MOST_SUM, name, f"in all below {MOST_SUM}", f"{total:.4g}")
