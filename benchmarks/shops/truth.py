"""The referee: what a ranking policy truly does in a shop, beside what production really does.

A policy is anything that makes lists: `sampled(scores)`, `in_order(scores)`, `Table` (rank
probabilities), `Lists` (rankings of sessions), `Mixture` (of two, by query). Expected clicks are
exact for users with position or trust bias; for users who scan and stop, lists are drawn and the
expectation over their clicks is exact. Nothing here is shared with `saferank`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from benchmarks.shops.lists import Floats, Ints, Maker
from benchmarks.shops.users import ByPosition, Cascade, Users, relevance_of

DRAWS = 500
"""Lists per query where an expectation has to be drawn."""


class Policy(Protocol):
    """Makes lists."""

    def probabilities(self, offsets: Ints, k: int) -> Floats:
        """P(document at rank), documents x k."""
        ...

    def draw(self, rng: np.random.Generator, query: Ints, offsets: Ints, k: int) -> Ints:
        """A list for each entry of `query`: positions, -1 past the end."""
        ...


def sampled(scores: Sequence[float] | Floats, temperature: float = 1.0) -> Maker:
    """Plackett-Luce over scores / temperature."""
    return Maker(np.asarray(scores, dtype=np.float64), "gumbel", temperature)


def in_order(scores: Sequence[float] | Floats) -> Maker:
    """Sorted by score, always."""
    return Maker(np.asarray(scores, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class Weekly:
    """One way of making lists in each week, all weeks alike in traffic."""

    makers: tuple[Maker, ...]

    def probabilities(self, offsets: Ints, k: int) -> Floats:
        """P(document at rank), documents x k: the mean over the weeks."""
        total = np.zeros((int(offsets[-1]), k))
        for maker in self.makers:
            total += maker.probabilities(offsets, k)
        return total / len(self.makers)

    def draw(self, rng: np.random.Generator, query: Ints, offsets: Ints, k: int) -> Ints:
        """Lists of random weeks."""
        week = rng.integers(0, len(self.makers), query.size)
        lists = np.empty((query.size, k), dtype=np.int64)
        for index, maker in enumerate(self.makers):
            mine = week == index
            lists[mine] = maker.draw(rng, query[mine], offsets, k)
        return lists


@dataclass(frozen=True, eq=False)
class Table:
    """Rank probabilities as they are, documents x k."""

    table: Floats

    def probabilities(self, offsets: Ints, k: int) -> Floats:
        """P(document at rank), documents x k."""
        if self.table.shape != (int(offsets[-1]), k):
            raise ValueError(f"expected {int(offsets[-1])} x {k}; got {self.table.shape}")
        return self.table

    def draw(self, *_: object) -> Ints:
        """Rank probabilities do not say which documents are shown together."""
        raise ValueError("lists cannot be drawn from rank probabilities: give scores or lists")


@dataclass(frozen=True, eq=False)
class Lists:
    """Rankings of sessions: the query and the positions (-1 past the end) of each."""

    query: Ints
    rankings: Ints

    def probabilities(self, offsets: Ints, k: int) -> Floats:
        """How often each document was at each rank, per list of its query."""
        count = np.bincount(self.query, minlength=offsets.size - 1)
        if (count == 0).any():
            raise ValueError(f"{int((count == 0).sum())} queries have no list")
        table = np.zeros((int(offsets[-1]), k))
        for rank in range(min(k, self.rankings.shape[1])):
            shown = self.rankings[:, rank]
            table[:, rank] = np.bincount(shown[shown >= 0], minlength=table.shape[0])
        return table / np.repeat(count, np.diff(offsets))[:, None]

    def draw(self, rng: np.random.Generator, query: Ints, offsets: Ints, k: int) -> Ints:
        """Random ones of the given lists."""
        order = np.argsort(self.query, kind="stable")
        count = np.bincount(self.query, minlength=offsets.size - 1)
        first = np.concatenate([[0], np.cumsum(count)])[:-1]
        chosen = order[first[query] + np.floor(rng.random(query.size) * count[query]).astype(int)]
        lists = np.full((query.size, k), -1, dtype=np.int64)
        width = min(k, self.rankings.shape[1])
        lists[:, :width] = self.rankings[chosen, :width]
        return lists


@dataclass(frozen=True, eq=False)
class Mixture:
    """Serves `one` to a share of each query's sessions, and `other` to the rest."""

    share: Floats
    one: Policy
    other: Policy

    def probabilities(self, offsets: Ints, k: int) -> Floats:
        """P(document at rank), documents x k."""
        share = np.repeat(self.share, np.diff(offsets))[:, None]
        one, other = self.one.probabilities(offsets, k), self.other.probabilities(offsets, k)
        return share * one + (1 - share) * other

    def draw(self, rng: np.random.Generator, query: Ints, offsets: Ints, k: int) -> Ints:
        """Each list from one of the two."""
        first = rng.random(query.size) < self.share[query]
        lists = np.empty((query.size, k), dtype=np.int64)
        for mine, policy in ((first, self.one), (~first, self.other)):
            lists[mine] = policy.draw(rng, query[mine], offsets, k)
        return lists


@dataclass(frozen=True)
class Change:
    """What a policy truly changes: clicks of people per session, and query by query."""

    new: float
    production: float
    difference: float
    percent: float
    worst_loss: float
    """Most clicks per session that a query loses (0 if none loses any)."""
    worst_loss_percent: float
    """The largest loss of a query in per cent of what production has there."""
    losing: float
    """Share of the traffic on queries that lose more than 1 %."""

    def to_dict(self) -> dict[str, Any]:
        """The record for JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Truth:
    """Relevance, users and production of a shop as they really are, on the items sold today."""

    offsets: Ints
    relevance: Floats
    users: Users
    production: Policy
    traffic: Floats
    """Share of the people's sessions of each query."""
    k: int
    seed: int = 0

    @cached_property
    def shown(self) -> Floats:
        """P0(d, k): how often production really shows each document at each rank."""
        return self.production.probabilities(self.offsets, self.k)

    @cached_property
    def production_clicks(self) -> Floats:
        """Expected clicks per session of production, one value per query."""
        return self.clicks(self.production)

    def clicks(self, policy: Policy) -> Floats:
        """Expected clicks per session, one value per query."""
        if isinstance(self.users, ByPosition):
            here = self.shown if policy is self.production else self._probabilities(policy)
            return self._sums(here * self.users.chances(self.relevance))
        return self._drawn_clicks(policy, self.users)

    def _probabilities(self, policy: Policy) -> Floats:
        return policy.probabilities(self.offsets, self.k)

    def _drawn_clicks(self, policy: Policy, users: Cascade) -> Floats:
        queries = np.arange(self.offsets.size - 1)
        if isinstance(policy, Lists):
            query, lists = policy.query, policy.rankings[:, : self.k]
        else:
            certain = isinstance(policy, Maker) and policy.scale == 0
            query = np.repeat(queries, 1 if certain else DRAWS)
            rng = np.random.default_rng([self.seed, 7])
            parts = np.array_split(query, max(1, query.size // 50_000))
            drawn = [policy.draw(rng, part, self.offsets, self.k) for part in parts]
            lists = np.concatenate(drawn)
        value = users.expected(relevance_of(lists, self.relevance))
        return np.bincount(query, value, queries.size) / np.bincount(query, minlength=queries.size)

    def _sums(self, values: Floats) -> Floats:
        total: Floats = np.add.reduceat(values.sum(axis=1), self.offsets[:-1])
        return total

    def change(self, policy: Policy) -> Change:
        """What it changes to put a policy in place of what production really does."""
        new, old = self.clicks(policy), self.production_clicks
        loss = old - new
        relative = loss / np.maximum(old, 1e-12)
        mean_new, mean_old = float(self.traffic @ new), float(self.traffic @ old)
        return Change(
            new=mean_new,
            production=mean_old,
            difference=mean_new - mean_old,
            percent=100 * (mean_new / mean_old - 1),
            worst_loss=max(0.0, float(loss.max())),
            worst_loss_percent=max(0.0, 100 * float(relative.max())),
            losing=float(self.traffic[relative > 0.01].sum()),
        )

    def promise_broken(self, policy: Policy, weights: Floats, keep: float, slack: float) -> float:
        """Share of the traffic on queries whose promise (keep, slack) does not hold.

        With exposures omega of the policy and omega0 of what production really does, it holds
        when sum_d max(0, keep omega0 - omega) <= slack (w_1 + ... ), for rank weights w. A
        twentieth of the slack is left for production's temperature, which is fitted.
        """
        k = weights.size
        omega = policy.probabilities(self.offsets, k) @ weights
        omega0 = self.production.probabilities(self.offsets, k) @ weights
        fall = np.maximum(0.0, keep * omega0 - omega)
        loss = np.add.reduceat(fall, self.offsets[:-1])
        sums = np.concatenate([[0.0], np.cumsum(weights)])
        allowed = slack * sums[np.minimum(np.diff(self.offsets), k)]
        return float(self.traffic[loss > 1.05 * allowed + 1e-6].sum())

    def utility_change(
        self, policy: Policy, alpha: Floats, beta: Floats, weights: Floats
    ) -> tuple[float, float] | None:
        """Utility of production and its true change in the unit of a fitted click model.

        Clicks tell relevance up to its scale, so a fitted model has its own: the one in which
        alpha_k R + beta_k comes nearest to the true click probabilities where production shows
        the document. None for users who have no such probabilities.
        """
        if not isinstance(self.users, ByPosition):
            return None
        k = min(weights.size, self.k)
        weight = self.shown[:, :k] + 1e-9
        excess = self.users.chances(self.relevance)[:, :k] - beta[:k]
        scaled = (weight * excess) @ alpha[:k] / (weight @ alpha[:k] ** 2)
        old = self._sums((self.shown[:, :k] * weights[:k]) * scaled[:, None])
        new = self._sums((self._probabilities(policy)[:, :k] * weights[:k]) * scaled[:, None])
        return float(self.traffic @ old), float(self.traffic @ (new - old))
