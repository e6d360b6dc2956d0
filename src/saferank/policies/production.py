r"""What production does: with which probability it puts each document at each rank.

Production is what the log shows, not what a score suggests. Every kind answers the same two
questions: :math:`P_0(d, k)`, and the exposure :math:`\omega_0(d) = \sum_k P_0(d, k)\, w_k`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank.counts import Counts
from saferank.errors import InputError, require
from saferank.plackett_luce import deterministic_exposure, exposure, rank_probabilities
from saferank.plackett_luce.exact import sorted_rank_probabilities

Kind = Literal["sampled", "sorted", "observed", "recorded", "uniform"]
KINDS: tuple[Kind, ...] = get_args(Kind)
FULL = 0.999
"""Share of the rows of full lists from which lists are taken to be full."""
ROUNDING = 1e-6
"""How far recorded propensities of a rank may be from 1 in all by being rounded."""


@dataclass(frozen=True, eq=False)
class ProductionPolicy:
    """Production's policy on the documents of some items.

    `sampled` draws rankings by Plackett-Luce over `scores` (already divided by the temperature),
    `uniform` draws any ranking, `sorted` sorts by `scores` (ties in the order of the items);
    `observed` and `recorded` know `table`, documents x ranks, from the log. `sessions` are those
    behind each query's observed frequencies.

    >>> policy = ProductionPolicy.observed(Counts([0, 2], [[3, 1], [1, 3]], [[0, 0], [0, 0]]))
    >>> policy.exposure([1.0, 0.5])
    array([0.875, 0.625])
    """

    kind: Kind
    """"sampled", "sorted", "uniform", "observed" or "recorded"."""
    offsets: Ints
    """Where each query's documents begin: queries + 1 values."""
    scores: Floats | None = None
    """One per document, where rankings follow from them."""
    table: Floats | None = None
    """P(document at rank), documents x ranks, where the log tells."""
    sessions: Ints | None = None
    """Of each query, behind observed frequencies."""
    filled: Floats | None = None
    """Share of each query's sessions that show something at each rank; none: lists are full."""
    inside: Floats | None = None
    """The same of documents that are among the items, where others were shown, too."""

    @classmethod
    def sampled(
        cls, scores: npt.ArrayLike, offsets: npt.ArrayLike, temperature: float = 1.0
    ) -> ProductionPolicy:
        """Rankings drawn by Plackett-Luce over the scores divided by the temperature."""
        values = flat.check_values("scores", scores, np.asarray(offsets))
        require(temperature > 0, "temperature", "positive", temperature)
        return cls("sampled", np.asarray(offsets), values / temperature)

    @classmethod
    def sorted(cls, scores: npt.ArrayLike, offsets: npt.ArrayLike) -> ProductionPolicy:
        """Always the ranking sorted by score."""
        return cls(
            "sorted", np.asarray(offsets), flat.check_values("scores", scores, np.asarray(offsets))
        )

    @classmethod
    def uniform(cls, offsets: npt.ArrayLike) -> ProductionPolicy:
        """Any ranking, all equally likely."""
        cuts = np.asarray(offsets)
        return cls("uniform", cuts, np.zeros(int(cuts[-1])))

    @classmethod
    def observed(cls, counts: Counts) -> ProductionPolicy:
        """The frequencies of the log itself: impressions per session of the query."""
        sessions = flat.repeat_per_document(counts.sessions, counts.offsets)[:, None]
        table = counts.impressions / np.maximum(sessions, 1)
        return cls("observed", counts.offsets, table=table, sessions=counts.sessions)

    @classmethod
    def recorded(cls, propensities: npt.ArrayLike, offsets: npt.ArrayLike) -> ProductionPolicy:
        """P(document at rank), documents x ranks, as production recorded it."""
        table = np.ascontiguousarray(propensities, dtype=np.float64)
        cuts = flat.check_offsets(offsets, table.shape[0])
        sane = table.ndim == 2 and bool(np.all((table >= 0) & (table <= 1)))
        require(sane, "propensities", "in [0, 1], documents x ranks", table.shape)
        return cls("recorded", cuts, table=table)

    @property
    def exact(self) -> bool:
        """Whether all probabilities are known, without sampling error."""
        return self.sessions is None and not self.unrecorded().any()

    def unrecorded(self) -> Floats:
        """Of recorded propensities: the probability of what the log never showed, queries x ranks.

        A rank that has fewer documents than are needed to fill it shows nothing else.
        """
        queries = self.offsets.size - 1
        if self.kind != "recorded" or self.table is None:
            return np.zeros((queries, 0))
        whole = 1.0 if self.filled is None else self.filled
        rest = whole - flat.query_sums(self.table, self.offsets)
        there = np.arange(self.table.shape[1]) < flat.sizes(self.offsets)[:, None]
        return np.where(there & (rest > ROUNDING), rest, 0.0)

    def exposure(self, weights: npt.ArrayLike) -> Floats:
        r""":math:`\omega_0` of each document with the given rank weights."""
        w = np.asarray(weights, dtype=np.float64)
        if self.table is not None:
            result: Floats = self.table[:, : w.size] @ self._within(w)
            return result
        assert self.scores is not None
        return exposure_of_lists(
            self.scores, w, self.offsets, in_order=self.kind == "sorted", filled=self._own()
        )

    def rank_probabilities(self, ranks: int) -> Floats:
        """P0(d, k), documents x ranks."""
        if self.table is not None:
            self._within(np.ones(ranks))
            return self.table[:, :ranks]
        assert self.scores is not None
        return chances_of_lists(
            self.scores, ranks, self.offsets, in_order=self.kind == "sorted", filled=self._own()
        )

    def _own(self) -> Floats | None:
        """How often each rank shows one of the items."""
        return self.filled if self.inside is None else self.inside

    def _within(self, weights: Floats) -> Floats:
        """Weights of the ranks that the log shows; none may weigh beyond them."""
        assert self.table is not None
        ranks = self.table.shape[1]
        require(
            not weights[ranks:].any(), "weights", f"of the {ranks} ranks of the log", weights.size
        )
        return weights[:ranks]

    def take(self, queries: Ints, positions: Ints | slice, offsets: Ints) -> ProductionPolicy:
        """The policy on some queries, whose documents are at `positions`, cut by `offsets`."""
        return replace(
            self,
            offsets=offsets,
            scores=None if self.scores is None else self.scores[positions],
            table=None if self.table is None else self.table[positions],
            sessions=None if self.sessions is None else self.sessions[queries],
            filled=None if self.filled is None else self.filled[queries],
            inside=None if self.inside is None else self.inside[queries],
        )

    def subset(self, queries: npt.ArrayLike) -> ProductionPolicy:
        """The policy on the given queries."""
        chosen = np.asarray(queries, dtype=np.int64)
        return self.take(chosen, *flat.gather(self.offsets, chosen))

    def ranking_scores(self) -> Floats:
        """Scores that rank as production does: its own, or log-exposures of what it showed.

        Log-exposures are a place to start learning from and an order to show; no propensity is
        made of them.
        """
        if self.scores is not None:
            return self.scores
        assert self.table is not None
        weights = 1 / np.arange(1, self.table.shape[1] + 1)
        sessions = np.ones(self.offsets.size - 1) if self.sessions is None else self.sessions
        doubt = 0.5 / np.maximum(flat.repeat_per_document(sessions, self.offsets), 1)
        return np.log(self.table @ weights + doubt)

    def shortfall(self, weights: Floats, error: float) -> Floats:
        r"""How far production's true exposures may lie above those observed, per query.

        With probability at least 1 - `error` for all queries at once,
        :math:`\sum_d \max(0, \omega_0(d) - \hat\omega_0(d))` is at most

        .. math:: \tfrac12 \sqrt{Z_q (D_q w_1 - Z_q) / N_q} + Z_q \sqrt{\ln(Q/e) / (2 N_q)}

        The sum is a supremum over sets of documents of a mean of N_q sessions. In total the errors
        cancel, so its expectation is at most half the sum of standard deviations; a document's
        weight in one session lies in [0, w_1], so these are largest when all exposures are equal.
        One session moves it by at most Z_q / N_q (McDiarmid). Of recorded propensities it is the
        exposure of what the log never showed, with certainty. 0 where the policy is exact.
        """
        queries = self.offsets.size - 1
        if self.sessions is None:
            rest = self.unrecorded()
            short: Floats = rest @ weights[: rest.shape[1]] if rest.size else np.zeros(queries)
            return short
        largest = float(weights.max(initial=0.0))
        sizes = flat.sizes(self.offsets)
        z = np.concatenate([[0.0], np.cumsum(weights)])[np.minimum(sizes, weights.size)]
        sessions = np.maximum(self.sessions, 1)
        expected = 0.5 * np.sqrt(z * np.maximum(sizes * largest - z, 0.0) / sessions)
        bound = expected + z * np.sqrt(np.log(max(queries, 1) / error) / (2 * sessions))
        result: Floats = np.where(self.sessions > 0, np.minimum(bound, z), z)
        return result


def exposure_of_lists(
    scores: Floats,
    weights: Floats,
    offsets: Ints,
    *,
    in_order: bool,
    filled: Floats | None = None,
) -> Floats:
    r"""Exposure of each document in rankings drawn from scores, or sorted by them.

    Where lists are not always full, :math:`\omega(d) = \sum_k P(d, k)\,f_{q,k}\,w_k` with the share
    :math:`f_{q,k}` of the query's sessions that show something at rank k: what is compared with
    such a production is owed lists of the same lengths.
    """
    if filled is None:
        function = deterministic_exposure if in_order else exposure
        return function(scores, weights, offsets)
    each = np.zeros((offsets.size - 1, weights.size))
    ranks = min(weights.size, filled.shape[1])
    each[:, :ranks] = filled[:, :ranks] * weights[:ranks]
    chance = _chances(scores, weights.size, offsets, in_order=in_order)
    result: Floats = (chance * flat.repeat_per_document(each, offsets)).sum(axis=1)
    return result


def total_weights(offsets: Ints, weights: Floats, filled: Floats | None = None) -> Floats:
    """Z of each query: the weights of the ranks that it has documents for, as often as filled."""
    if filled is None:
        sums = np.concatenate([[0.0], np.cumsum(weights)])
        total: Floats = sums[np.minimum(flat.sizes(offsets), weights.size)]
        return total
    ranks = min(weights.size, filled.shape[1])
    there = np.arange(ranks) < flat.sizes(offsets)[:, None]
    short: Floats = (filled[:, :ranks] * there) @ weights[:ranks]
    return short


def _chances(scores: Floats, ranks: int, offsets: Ints, *, in_order: bool) -> Floats:
    """P(document at rank) of full lists."""
    function = sorted_rank_probabilities if in_order else rank_probabilities
    return function(scores, ranks, offsets)


def chances_of_lists(
    scores: Floats, ranks: int, offsets: Ints, *, in_order: bool, filled: Floats | None = None
) -> Floats:
    """P(document at rank) in rankings drawn from scores, or sorted by them, as often as filled."""
    chance = _chances(scores, ranks, offsets, in_order=in_order)
    return chance if filled is None else chance * _at_ranks(filled, offsets, ranks)


def _at_ranks(filled: Floats, offsets: Ints, ranks: int) -> Floats:
    share = np.zeros((offsets.size - 1, ranks))
    covered = min(ranks, filled.shape[1])
    share[:, :covered] = filled[:, :covered]
    return flat.repeat_per_document(share, offsets)


def inside_ranks(counts: Counts) -> Floats | None:
    """How often each rank shows one of the items, where other documents were shown, too."""
    if counts.outside is None or not counts.outside.any():
        return None
    return inside_share(counts)


def inside_share(counts: Counts) -> Floats:
    """How often each rank of each query shows one of the items, queries x ranks."""
    shown = flat.query_sums(counts.impressions, counts.offsets)
    share = shown / np.maximum(counts.sessions, 1)[:, None]
    result: Floats = np.where(counts.sessions[:, None] > 0, np.minimum(share, 1.0), 1.0)
    return result


def filled_ranks(counts: Counts) -> Floats | None:
    """How often each rank of each query shows something, queries x ranks; none if lists are full.

    Documents that have no item any more count, too. A loss of one row in a thousand is let pass.
    """
    there = np.arange(counts.ranks) < flat.sizes(counts.offsets)[:, None]
    owed = int((there * counts.sessions[:, None]).sum())
    if int((_shown(counts) * there).sum()) >= FULL * owed:
        return None
    return filled_share(counts)


def filled_share(counts: Counts) -> Floats:
    """How often each rank of each query shows something, queries x ranks; 1 of queries unseen."""
    share = _shown(counts) / np.maximum(counts.sessions, 1)[:, None]
    result: Floats = np.where(counts.sessions[:, None] > 0, np.minimum(share, 1.0), 1.0)
    return result


def _shown(counts: Counts) -> Ints:
    """Impressions of each query at each rank, with those of documents without an item."""
    shown: Ints = flat.query_sums(counts.impressions, counts.offsets)
    return shown if counts.outside is None else shown + counts.outside[0]


def check_kind(kind: str) -> Kind:
    """A kind of policy by name, or `InputError`."""
    if kind not in KINDS:
        raise InputError(
            f"`production policy` must be auto or one of {', '.join(KINDS)}; got {kind!r}."
        )
    return kind
