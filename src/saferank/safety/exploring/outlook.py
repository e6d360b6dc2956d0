"""What the next log will tell if a policy is served: certified cost, errors, and coverage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank._core.seeds import generator
from saferank.clicks.bias.predicted_errors import position_errors, trust_errors
from saferank.clicks.models import ClickModel
from saferank.data import RankingData
from saferank.evaluation.scored_policies import DataBlock, data_blocks
from saferank.policies import ProductionPolicy
from saferank.safety.examination import Examination
from saferank.safety.losses import EXCESS, LARGEST, LOSS, TOLERANCE, Views, query_facts
from saferank.safety.promise import Promise

KINDS = {"position": position_errors, "trust": trust_errors}
"""Click models that are fitted, and the errors that their fits will have."""
MOST_SESSIONS = 10**12
_ROUNDING = 1e-12
"""A share that uses up all of the slack may exceed it by this."""
_CLOSE = 0.02
_TRIES = 6


class Explored(Protocol):
    """A policy that may be served: production with some randomness."""

    def table(self, part: DataBlock, production: ProductionPolicy) -> Floats:
        """P(document at rank) of some queries, documents x K."""


@dataclass(frozen=True, eq=False)
class Outlook:
    """A policy and what the next log can tell if it is served."""

    name: str
    sentence: str
    keeps: bool
    """Whether the promise holds for every query, whatever relevance is."""
    loss: float
    """Beyond the share that the promise gives up, of the worst query, as a share of Z."""
    largest_loss: float
    """At all, of the worst query, as a share of Z: no relevance makes it more."""
    expected_loss: float | None
    """Of production's utility by the clicks of the counts, over all sessions, as a share; None
    where no click model or no counts were given: fixed lists do not tell it."""
    errors: dict[str, tuple[float | None, ...]]
    """Of each kind of click model: standard errors of log(alpha_k / alpha_1) by rank, None where
    they cannot be told."""
    coverage: float
    """Impressions of the least shown document that matters, of the middle query by traffic."""
    never_shown: float
    """Share of the documents that matter that are not shown at all."""
    sessions_needed: float | None
    """In all, for the error asked for at every rank; None where no number is enough."""

    def worst(self, kind: str) -> float:
        """The largest error over ranks; infinite where one cannot be told."""
        return max(float("inf") if error is None else error for error in self.errors[kind])


@dataclass(frozen=True, eq=False)
class NextLog:
    """The log to come: items, production, sessions, and what is taken for clicks.

    sessions : of each query, in all; `learned` is the share of them that is learned from.
    relevance : one value per document; `model` is the click model that is taken.
    depth : documents that matter are production's first so many of each query.
    kind : the click model that is to be fitted; `target` is the error asked for.
    """

    data: RankingData
    production: ProductionPolicy
    looking: Examination
    promise: Promise
    sessions: Floats
    learned: float
    relevance: Floats
    model: ClickModel
    depth: int
    kind: str
    target: float
    seed: int
    informed: bool = False
    """Whether relevance comes from counts and a click model that was given."""

    @property
    def k(self) -> int:
        """Ranks that are shown."""
        return int(self.looking.weights.size)

    def outlook(self, name: str, sentence: str, policy: Explored) -> Outlook:
        """What the log will tell if a policy is served."""
        facts, kept = np.zeros((self.data.queries, EXCESS + 1)), np.zeros(2)
        least, hidden = np.zeros(self.data.queries), 0
        table = np.zeros((self.data.documents, self.k))
        for part, old in self._parts():
            own = policy.table(part, old)
            table[part.positions] = own
            self._certify(part, old, own, facts)
            worth = self._worth(part)
            before = old.rank_probabilities(own.shape[1]) * worth
            kept += np.array([before.sum(), (own * worth).sum()])
            seen = own.sum(axis=1)
            matters = self._matters(part, old)
            first = np.where(matters, seen, np.inf)
            hidden += int(np.count_nonzero(matters & (seen <= 0)))
            least[part.queries] = _minima(first, part.data.offsets)
        errors = {kind: self._errors(table, kind, 1.0) for kind in KINDS}
        return Outlook(
            name=name,
            sentence=sentence,
            keeps=bool(np.all(facts[:, EXCESS] <= _ROUNDING)),
            loss=float(facts[:, LOSS].max()),
            largest_loss=float(facts[:, LARGEST].max()),
            expected_loss=float(1 - kept[1] / kept[0]) if self.informed and kept[0] > 0 else None,
            errors={kind: tuple(map(_finite, values)) for kind, values in errors.items()},
            coverage=self._middle(least * self.sessions),
            never_shown=hidden / max(1, int(np.minimum(self.data.sizes, self.depth).sum())),
            sessions_needed=_finite(self._needed(table, errors[self.kind])),
        )

    def subset(self, queries: Ints) -> NextLog:
        """The log of some queries."""
        positions, _ = flat.gather(self.data.offsets, queries)
        return replace(
            self, data=self.data.subset(queries), production=self.production.subset(queries),
            sessions=self.sessions[queries], relevance=self.relevance[positions],
        )  # fmt: skip

    def _parts(self) -> Iterator[tuple[DataBlock, ProductionPolicy]]:
        for part in data_blocks(self.data):
            yield part, self.production.take(part.queries, part.positions, part.data.offsets)

    def _certify(self, part: DataBlock, old: ProductionPolicy, own: Floats, facts: Floats) -> None:
        """Fill the facts of some queries, by the certificate's own kernel."""
        views, offsets = self.looking.views, part.data.offsets
        new, before = (
            self.looking.exposures(table) for table in (own, old.rank_probabilities(self.k))
        )
        block = np.empty((part.queries.size, EXCESS + 1))
        facing = Views(
            np.stack([new, before, new]), offsets, self.looking.totals(offsets),
            TOLERANCE * views.max(axis=1),
        )  # fmt: skip
        query_facts(
            part.queries.size, facing, (self.promise.keep, self.promise.slack), np.zeros(0),
            block, np.empty((part.queries.size, 2, 0)),
        )  # fmt: skip
        facts[part.queries] = block

    def _worth(self, part: DataBlock) -> Floats:
        """Utility of showing each document at each rank, times the sessions of its query."""
        own = self.relevance[part.positions] * flat.repeat_per_document(
            self.sessions[part.queries], part.data.offsets
        )
        worth: Floats = own[:, None] * self.looking.weights
        return worth

    def _matters(self, part: DataBlock, old: ProductionPolicy) -> npt.NDArray[np.bool_]:
        """Whether a document is among production's first so many."""
        ranked = flat.top(old.ranking_scores(), self.depth, part.data.offsets)
        matters = np.zeros(part.data.documents, dtype=np.bool_)
        matters[ranked[ranked >= 0]] = True
        return matters

    def _middle(self, values: Floats) -> float:
        """The median over sessions."""
        order = np.argsort(values, kind="stable")
        covered = np.cumsum(self.sessions[order])
        return float(values[order][np.searchsorted(covered, covered[-1] / 2)])

    def impressions(self, table: Floats, factor: float) -> tuple[Floats, Floats]:
        """Impressions by chance of documents shown at several ranks, and their relevance.

        A document is shown at a rank in N sessions by a multinomial draw of the ranks.
        """
        rng = generator(self.seed)
        several = np.flatnonzero(np.count_nonzero(table, axis=1) > 1)
        query = flat.query_of(self.data.offsets)[several]
        rest = rng.poisson(self.sessions * (self.learned * factor))[query]
        shown, left = np.zeros((several.size, self.k)), np.ones(several.size)
        for rank in range(self.k):
            chance = np.clip(table[several, rank] / np.maximum(left, 1e-300), 0.0, 1.0)
            shown[:, rank] = rng.binomial(rest, chance)
            rest = rest - shown[:, rank].astype(np.int64)
            left = left - table[several, rank]
        return shown, self.relevance[several]

    def _errors(self, table: Floats, kind: str, factor: float) -> Floats:
        shown, relevance = self.impressions(table, factor)
        return KINDS[kind](shown, relevance, self.model)

    def _needed(self, table: Floats, error: Floats) -> float:
        """Sessions in all until the largest error is the one asked for.

        Errors fall about as the root of the sessions; where second-order noise counts, faster.
        """
        total = float(self.sessions.sum())
        factor, worst = 1.0, float(error.max())
        for _ in range(_TRIES):
            ratio = worst / self.target
            if not np.isfinite(worst):
                ratio = 8.0
            if abs(ratio - 1) < _CLOSE:
                break
            factor *= float(np.clip(ratio**2, 1e-6, 1e6))
            if total * factor > MOST_SESSIONS or total * factor < 1:
                break
            worst = float(self._errors(table, self.kind, factor).max())
        if not np.isfinite(worst):
            return float("inf")
        return total * factor * (worst / self.target) ** 2


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _minima(values: Floats, offsets: Ints) -> Floats:
    """The smallest value of each query; 0 for a query without documents."""
    filled = np.diff(offsets) > 0
    least = np.zeros(offsets.size - 1)
    if filled.any():
        least[filled] = np.minimum.reduceat(values, offsets[:-1][filled])
    return np.where(np.isfinite(least), least, 0.0)
