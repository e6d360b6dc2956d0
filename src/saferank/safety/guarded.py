r"""What a guard makes of a new ranker and of production: P(document at rank) of what is served.

- `mix`: the new ranker with the largest probability :math:`\lambda_q` that keeps the promise, and
  production else. For every way of looking it is the smallest of those for "in the first j".
- `best`: the policy of largest gain among all that keep the promise (`best_policy` for given rank
  weights, `prefix_policy` for every way of looking). A document's gain is its exposure by the new
  ranker, unless others are given.

- `constant`: where production's probabilities are not known when a query is served, or lists are
  cut short there, every query gets the share of the new ranker that keeps the promise whatever
  production does, 1 - keep + slack.

With a hold-out of h every query gives at least the share h of its sessions to production, whatever
the mode: there is then something to compare with, and the promise is kept all the more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank.errors import require
from saferank.evaluation.scored_policies import Deployed
from saferank.policies import ProductionPolicy
from saferank.policies.production import chances_of_lists
from saferank.safety.best_policy import best_exposures
from saferank.safety.decomposition import decomposed_tables
from saferank.safety.examination import ByExposure, Examination
from saferank.safety.floored_policy import best_with_floors
from saferank.safety.floors import GroupLosses, required
from saferank.safety.losses import TOLERANCE, blind_share, mixing_shares
from saferank.safety.prefix_policy import best_rank_tables
from saferank.safety.promise import Promise

Mode = Literal["best", "mix", "constant"]
MODES: tuple[Mode, ...] = get_args(Mode)
BLIND = ("observed", "recorded")
"""Kinds of production whose probabilities are known for the queries of the log only."""


def mode_of(text: str) -> Mode:
    """A mode by its name; `InputError` for another."""
    require(text in MODES, "mode of the guard", f"one of {', '.join(MODES)}", text)
    return next(mode for mode in MODES if mode == text)


def what_is_left(mode: str, share: str) -> str:
    """What a guard leaves of the new ranker, in words."""
    if mode != "best":
        return f"{share} of the traffic gets the new ranker"
    return f"{share} of what could be gained by the new ranker's lights is kept"


def both_tables(
    scores: Floats, production: ProductionPolicy, examination: Examination, deployed: Deployed
) -> tuple[Floats, Floats]:
    """P(document at rank) of a new ranker and of production, as often as lists are filled.

    By exposure alone, where that is all that is asked for.

    Ranks of a log are as many as it has: beyond them no rank may weigh anything.
    """
    weights = examination.weights
    if isinstance(examination, ByExposure):
        own = examination.table(
            scores, production.offsets, in_order=deployed == "sorted", filled=production.filled
        )
        return own, production.exposure(weights)[:, None]
    ranks = weights.size
    if production.table is not None:
        ranks = 1 + int(np.flatnonzero(examination.views.any(axis=0)).max(initial=0))
    new = chances_of_lists(
        scores, ranks, production.offsets, in_order=deployed == "sorted", filled=production.filled
    )
    return new, production.rank_probabilities(ranks)


@dataclass(frozen=True, eq=False)
class Guarded:
    """What is served of each query."""

    kept: Floats
    """Per query, the share of the possible gain that is kept: of a mixture that of the new ranker's
    sessions."""
    steps_in: npt.NDArray[np.bool_]
    """Per query, whether the new ranker alone would not do."""
    table: Floats
    """P(document at rank), documents x ranks."""


@dataclass(frozen=True, eq=False)
class GuardRule:
    """Promise, way of looking and mode: what a guard goes by."""

    promise: Promise
    examination: Examination
    mode: Mode = "best"
    holdout: float = 0.0
    """Share of each query's sessions that production gets at least."""

    def __post_init__(self) -> None:
        require(self.mode in MODES, "mode", f"one of {', '.join(MODES)}", self.mode)
        require(0 <= self.holdout < 1, "holdout", "in [0, 1)", self.holdout)

    @property
    def mixes(self) -> bool:
        """Whether a session gets the new ranker or production, one of the two."""
        return self.mode != "best" or self.holdout > 0

    @property
    def blind(self) -> bool:
        """Whether the share is the same for every query, whatever production does."""
        return self.mode == "constant"

    @classmethod
    def against(
        cls,
        production: ProductionPolicy,
        promise: Promise,
        examination: Examination,
        mode: Mode,
        holdout: float = 0.0,
    ) -> GuardRule:
        """The rule where production is known from a log.

        Where its probabilities are not known beyond the log, or lists are cut short at serving in
        ways that no guard controls, the share is constant: what is certified can be served.
        """
        blind = production.kind in BLIND
        short = production.filled is not None or production.inside is not None
        return cls(promise, examination, "constant" if blind or short else mode, holdout)

    def by_exposure(self) -> GuardRule:
        """The same rule for policies that are given by their exposures, where those suffice."""
        return replace(self, examination=self.examination.by_exposure())

    @property
    def least_share(self) -> float:
        """The new ranker's share of a mixture that keeps the promise whatever production does."""
        share = min(blind_share(self.promise.keep, self.promise.slack), 1 - self.holdout)
        # whatever production does, a group keeps its exposure in production's sessions
        return 0.0 if self.promise.floor_of_all > 0 else min(share, 1 - self.promise.floor)

    def serve(
        self,
        new: Floats,
        old: Floats,
        offsets: Ints,
        *,
        gains: Floats | None = None,
        filled: Floats | None = None,
        groups: Ints | None = None,
    ) -> Guarded:
        """What is served, by P(document at rank) of new ranker and production, documents x K.

        `filled` is how often each query's ranks show something, where the tables allow for it;
        `groups` is the group of each document, where the promise has floors for groups.
        """
        shares = self._shares(new, old, offsets, filled, groups)
        steps_in = shares < 1
        if self.mode != "best":
            shares = np.minimum(shares, 1 - self.holdout)
            own = flat.repeat_per_document(shares, offsets)[:, None]
            return Guarded(shares, steps_in, own * new + (1 - own) * old)
        exposure, weights = self.examination.exposure, self.examination.weights
        worth = exposure(new) if gains is None else gains
        table = self.best_table(worth, old, offsets, groups)
        if self.holdout > 0:
            table = (1 - self.holdout) * table + self.holdout * old
        kept = _kept(worth, exposure(table), exposure(old), offsets, weights)
        return Guarded(kept, steps_in, table)

    def best_table(
        self, gains: Floats, old: Floats, offsets: Ints, groups: Ints | None = None
    ) -> Floats:
        """P(document at rank) of the best policy."""
        promise, looking = self.promise, self.examination
        if looking.every:
            table = best_rank_tables(gains, old, offsets, promise.keep, promise.slack)
            share = self.floor_shares(table, old, offsets, groups)
            own = flat.repeat_per_document(share, offsets)[:, None]
            return table if (share == 1).all() else own * table + (1 - own) * old
        omega = self.best(gains, looking.exposure(old), offsets, groups)
        if isinstance(looking, ByExposure):
            return omega[:, None]
        return decomposed_tables(omega, gains, offsets, looking.weights)

    def best(
        self, gains: Floats, omega0: Floats, offsets: Ints, groups: Ints | None = None
    ) -> Floats:
        """The best exposures for the rank weights, with what floors of groups leave of them."""
        allowed = self.promise.slack * self.examination.totals(offsets)[:, 0]
        weights, keep = self.examination.weights, self.promise.keep
        if not self.promise.has_floors:
            return best_exposures(gains, omega0, offsets, weights, keep, allowed)
        own_groups = required(groups)
        return best_with_floors(gains, omega0, offsets, own_groups, weights, self.promise, allowed)

    def floor_shares(self, new: Floats, old: Floats, offsets: Ints, groups: Ints | None) -> Floats:
        """Per query, the largest share of a policy beside production that keeps every floor."""
        if not self.promise.has_floors:
            return np.ones(offsets.size - 1)
        omega, omega0 = self.examination.exposures(new), self.examination.exposures(old)
        shares = [
            GroupLosses.of(mine, theirs, offsets, groups, self.promise).shares(
                TOLERANCE * view.max()
            )
            for mine, theirs, view in zip(omega, omega0, self.examination.views, strict=True)
        ]
        smallest: Floats = np.min(shares, axis=0)
        return smallest

    def _shares(
        self,
        new: Floats,
        old: Floats,
        offsets: Ints,
        filled: Floats | None,
        groups: Ints | None,
    ) -> Floats:
        """The new ranker's share of each query: the smallest of those for each view."""
        keep, slack = self.promise.keep, self.promise.slack
        if self.blind:
            return np.full(offsets.size - 1, self.least_share)
        views, totals = self.examination.views, self.examination.totals(offsets, filled)
        omega, omega0 = self.examination.exposures(new), self.examination.exposures(old)
        shares = [
            mixing_shares(
                omega[v], omega0[v], offsets, slack * totals[:, v] + TOLERANCE * views[v].max(),
                keep,
            )
            for v in range(len(views))
        ]  # fmt: skip
        smallest: Floats = np.min([*shares, self.floor_shares(new, old, offsets, groups)], axis=0)
        return smallest


def _kept(gains: Floats, omega: Floats, omega0: Floats, offsets: Ints, weights: Floats) -> Floats:
    """Share of the most that exposures could gain, of each query; 1 where nothing can be gained."""
    ranked = flat.top(gains, weights.size, offsets)
    sorted_gains = np.where(ranked >= 0, gains[ranked], 0.0) if gains.size else np.zeros((0, 0))
    before = flat.query_sums(gains * omega0, offsets)
    most = sorted_gains @ np.sort(weights)[::-1] - before
    gained = flat.query_sums(gains * omega, offsets) - before
    scale = np.abs(sorted_gains).max(axis=1, initial=0.0) * weights.max(initial=0.0)
    some = most > TOLERANCE * np.maximum(scale, 1e-300)
    share = np.divide(gained, most, out=np.ones_like(most), where=some)
    share[share > 1 - TOLERANCE] = 1.0
    kept: Floats = np.clip(share, 0.0, 1.0)
    return kept
