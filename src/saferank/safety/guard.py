r"""The guard: makes any ranker keep a promise, on every query, seen before or not.

It serves the best policy among all that keep the promise, or a mixture of the new ranker with
production (`guarded`), for given rank weights or for every way of looking (`examination`). All of
it is exact, from the scores of the query at hand alone, and so are the probabilities of what is
served: they can be logged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank.data import RankingData
from saferank.errors import InputError, require
from saferank.evaluation.scored_policies import (
    Deployed,
    Policy,
    all_scores,
    check_policy,
    data_blocks,
    query_shares,
    rank_weights,
    scores_of,
)
from saferank.policies.production import check_kind
from saferank.safety.drawing import SALT, chances, draw
from saferank.safety.examination import Asked, Examination
from saferank.safety.guard_blocks import Block, join
from saferank.safety.guard_report import GuardReport
from saferank.safety.guarded import BLIND, GuardRule, Mode
from saferank.safety.one_query import OneQuery, ServedList, arm_chance
from saferank.safety.promise import Promise

_DEFAULT = Promise()


@dataclass(frozen=True, eq=False)
class Guard:
    """Serves as much of a new ranker as lets every query keep the promise.

    Parameters
    ----------
    new, production
        Rankers, functions of the data, or (for one set of items) scores.
    promise
        What every query keeps.
    weights
        Of the ranks; by default those that the ranker was learned with, else DCG's of five.
    deployed
        How the new ranker's scores become rankings: "sampled" or "sorted".
    production_kind, production_temperature
        What production does with its scores: it samples (by scores divided by the temperature),
        sorts, or (observed, recorded) does what no score tells; None: as the new ranker. In the
        last case every query gets the share of the new ranker that keeps the promise whatever
        production does, 1 - keep + slack; the production arm is then the ranking sorted by
        `production`'s scores: at serving, give those of the list that production made.
    salt
        Two guards with different salts choose independently of each other.
    mode
        "best": the policy of largest gain that keeps the promise; "mix": new ranker and production;
        "constant": these two, with the share that keeps the promise whatever production does.
    examination
        What the promise is for: "fitted" (the rank weights), "any" (every way of looking in which a
        rank is looked at no more than the one above it), "dcg", or rank weights.
    gains
        What "best" maximises, per unit of exposure: scores, a ranker or a function of the data; by
        default the new ranker's own exposures.
    holdout
        Share of each query's sessions that production gets at least, for comparison.

    Examples
    --------
    >>> import saferank as sr
    >>> items = sr.data.RankingData(np.eye(3), offsets=[0, 3])
    >>> promise = sr.safety.Promise(0.9, 0.01)
    >>> guard = Guard([0.0, 1.0, 2.0], [2.0, 1.0, 0.0], promise, mode="mix")
    >>> guard.mixing(items).round(3)
    array([0.364])
    >>> best = Guard([0.0, 1.0, 2.0], [2.0, 1.0, 0.0], promise)
    >>> best.rank(items, 3, session="a") - best.rank(items, 3, session="a")
    array([[0, 0, 0]])
    >>> best.propensities(items).sum(axis=0).round(9)
    array([1., 1., 1., 0., 0.])
    """

    new: Policy | None
    production: Policy | None = None
    promise: Promise = _DEFAULT
    weights: npt.ArrayLike | None = None
    deployed: Deployed = "sampled"
    production_kind: str | None = None
    production_temperature: float = 1.0
    salt: str = SALT
    mode: Mode = "best"
    examination: Asked = "fitted"
    gains: Policy | None = None
    holdout: float = 0.0

    def __post_init__(self) -> None:
        if self.production_kind is not None:
            check_kind(self.production_kind)
        temperature = self.production_temperature
        require(0 < temperature < np.inf, "production_temperature", "positive", temperature)
        GuardRule(self.promise, Examination.of(self.examination, [1.0]), self.mode, self.holdout)

    @property
    def blind(self) -> bool:
        """Whether production's exposures are not known: the share is then the same for all."""
        return self.mode == "constant" or self.needs_lists

    @property
    def needs_lists(self) -> bool:
        """Whether no score makes production's lists: they must be given."""
        return self.production_kind in BLIND

    @property
    def mixes(self) -> bool:
        """Whether sessions get the new ranker or production, one of the two."""
        return self.blind or self.mode == "mix" or self.holdout > 0

    @property
    def _is_best(self) -> bool:
        return self.mode == "best" and not self.blind

    @property
    def production_deployed(self) -> Deployed:
        """How production's arm makes a ranking of its scores."""
        if self.production_kind is None:
            return self.deployed
        return "sampled" if self.production_kind in ("sampled", "uniform") else "sorted"

    def mixing(self, data: RankingData) -> Floats:
        """The share of the possible gain that each query keeps.

        Of a mixture it is lambda, the probability of serving the new ranker.
        """
        shares = np.empty(data.queries)
        for block in self._blocks(data, self._exposure_rule):
            shares[block.part.queries] = block.serve().kept
        return shares

    def propensities(self, data: RankingData) -> Floats:
        """P(document at rank) of what is served, exactly: documents x K.

        Logged beside what is shown, they tell the next log's policy (`count --column propensity=`).
        """
        if self.blind:
            raise InputError(
                "`propensities` are not known: production's own are known from the log only."
            )
        rule = self._rule
        table = np.zeros((data.documents, rule.examination.weights.size))
        for block in self._blocks(data, rule):
            table[block.part.positions] = block.serve().table
        return table

    def exposure(self, data: RankingData) -> Floats:
        """Exposure of each document under the guarded policy."""
        rule, omega = self._exposure_rule, np.empty(data.documents)
        for block in self._blocks(data, rule):
            omega[block.part.positions] = rule.examination.exposure(block.serve().table)
        return omega

    def serves_new(self, data: RankingData, session: str | int) -> npt.NDArray[np.bool_]:
        """Whether a session gets the new ranker, of each query: always the same answer.

        The best policy is the new ranker within the promise: every session gets it that is not
        held out.
        """
        if not self.mixes:
            return np.ones(data.queries, dtype=np.bool_)
        if self._is_best:
            chance = [arm_chance(self.salt, session, q, apart=True) for q in data.ids()[0]]
            return np.array(chance) < 1 - self.holdout
        return chances(data, self.salt, session)[:, 0] < self.mixing(data)

    def scores(self, data: RankingData, session: str | int) -> Floats:
        """The scores that a session is served by: for each query those of one of the rankers."""
        which = flat.repeat_per_document(self.serves_new(data, session), data.offsets)
        new, production = (all_scores(policy, data) for policy in self._policies(data))
        return np.where(which, new, production / self.production_temperature)

    def _production_scores(self, data: RankingData) -> Floats:
        return all_scores(self._policies(data)[1], data) / self.production_temperature

    def rank(self, data: RankingData, k: int, session: str | int) -> Ints:
        """Positions of the first k documents of each query for one session; -1 past the end.

        A session that comes back sees the same ranking: the draw too depends only on its id.
        Beyond the ranks of the promise documents follow by the new ranker.
        """
        require(k >= 1, "k", "at least 1", k)
        ways = (self.deployed, self.production_deployed)
        if self._is_best:
            rankings = [
                block.draw(self.salt, session, k) for block in self._blocks(data, self._rule)
            ]
            new = join(rankings, data, k)
            if not self.mixes:
                return new
        else:
            new = draw(self.scores(data, session), data, k, session, ways[0], self.salt)
            if ways[0] == ways[1]:
                return new
        old = draw(self._production_scores(data), data, k, session, ways[1], self.salt)
        return np.where(self.serves_new(data, session)[:, None], new, old)

    def rank_query(
        self,
        new: npt.ArrayLike,
        production: npt.ArrayLike,
        k: int,
        session: str | int,
        query: object,
        groups: Ints | None = None,
    ) -> Ints:
        """The first k documents of one query for one session, from scores: the quick way to serve.

        The same ranking as that of `rank`, where `new` and `production` are the scores that the
        policies have for the query with that id, and gains are the new ranker's exposures;
        `groups` are the groups of its documents, where the promise has floors for groups.

        >>> guard = Guard(None, weights=[1.0, 0.5])
        >>> guard.rank_query([0.0, 1.0, 2.0], [2.0, 1.0, 0.0], 2, session="a", query="q").size
        2
        """
        return self._one_query(new, production, k, groups).rank(k, self.salt, session, query)

    def serve_query(
        self,
        new: npt.ArrayLike,
        production: npt.ArrayLike,
        k: int,
        session: str | int,
        query: object,
        groups: Ints | None = None,
    ) -> ServedList:
        """As `rank_query`, with the arm, its share, and the probability of each shown document.

        >>> guard = Guard(None, weights=[1.0, 0.5], mode="mix", holdout=0.1)
        >>> served = guard.serve_query([0.0, 1.0, 2.0], [0.0, 1.0, 2.0], 2, session="a", query="q")
        >>> served.share, served.is_new
        (0.9, True)
        """
        return self._one_query(new, production, k, groups).serve(k, self.salt, session, query)

    def _one_query(
        self,
        new: npt.ArrayLike,
        production: npt.ArrayLike,
        k: int = 1,
        groups: Ints | None = None,
    ) -> OneQuery:
        require(k >= 1, "k", "at least 1", k)
        require(self.gains is None, "gains", "left to the new ranker's exposures", self.gains)
        scores, shown = (np.ascontiguousarray(x, dtype=np.float64) for x in (new, production))
        shown = np.zeros(scores.size) if self.production_kind == "uniform" else shown
        ways = (self.deployed, self.production_deployed)
        shown = shown / self.production_temperature
        return OneQuery(scores, shown, ways, self._rule, groups)

    def arm(
        self,
        new: npt.ArrayLike,
        production: npt.ArrayLike,
        session: str | int,
        query: object,
        groups: Ints | None = None,
    ) -> tuple[bool, float]:
        """Whether a session gets the new ranker for a query, and with which probability.

        The best policy is the new ranker within the promise: every session gets it that is not
        held out.
        """
        if not self.mixes:
            return True, 1.0
        share = self._one_query(new, production, groups=groups).share()
        return arm_chance(self.salt, session, query, apart=self._is_best) < share, share

    def report(
        self,
        data: RankingData,
        *,
        traffic: npt.ArrayLike | None = None,
        gain: npt.ArrayLike | None = None,
    ) -> GuardReport:
        """How often the guard steps in, and what it costs where gains of documents are known."""
        rule = self._exposure_rule
        exposure = rule.examination.exposure
        shares = query_shares(traffic, data.queries)
        gains = None if gain is None else flat.check_values("gain", gain, data.offsets)
        mixing, steps_in = np.empty(data.queries), np.empty(data.queries, dtype=np.bool_)
        added, lost = np.zeros(data.queries), np.zeros(data.queries)
        for block in self._blocks(data, rule):
            own, offsets, served = block.part.queries, block.part.data.offsets, block.serve()
            mixing[own], steps_in[own] = served.kept, served.steps_in
            if gains is not None:
                worth = gains[block.part.positions]
                omega = exposure(block.new)
                gained, given_up = omega - exposure(block.old), omega - exposure(served.table)
                added[own] = flat.query_sums(gained * worth, offsets)
                lost[own] = flat.query_sums(given_up * worth, offsets)
        return GuardReport(
            promise=self.promise,
            queries=data.queries,
            share=float(np.mean(steps_in)) if data.queries else 0.0,
            traffic=float(shares[steps_in].sum()),
            mixing=float(shares @ mixing),
            cost=None if gains is None else float(shares @ lost),
            gain=None if gains is None else float(shares @ added),
            mode="best" if self._is_best else "mix",
        )

    def _policies(self, data: RankingData) -> tuple[Policy, Policy]:
        new = check_policy(self.new, data, "new")
        if self.production_kind == "uniform":
            return new, np.zeros(data.documents)
        return new, check_policy(self.production, data, "production")

    @cached_property
    def _rule(self) -> GuardRule:
        return self._rule_for(rank_weights(self.weights, self.new, self.production))

    @cached_property
    def _exposure_rule(self) -> GuardRule:
        """The rule where exposures are all that is asked for.

        The best policy is that of the tables which rankings are drawn by, to the bit: of documents
        with equal gains rounding decides.
        """
        return self._rule if self._is_best else self._rule.by_exposure()

    def _rule_for(self, weights: Floats) -> GuardRule:
        looking = Examination.of(self.examination, weights)
        mode: Mode = "constant" if self.blind else self.mode
        return GuardRule(self.promise, looking, mode, self.holdout)

    def _blocks(self, data: RankingData, rule: GuardRule) -> Iterator[Block]:
        """Some queries after another, both policies as the rule's examination goes by them."""
        new, old = self._policies(data)
        gains = None if self.gains is None else check_policy(self.gains, data, "gains")
        looking, ways = rule.examination, (self.deployed, self.production_deployed)
        for part in data_blocks(data):
            shown = scores_of(old, part, "production") / self.production_temperature
            after, before = (
                looking.table(scores, part.data.offsets, in_order=way == "sorted")
                for scores, way in zip((scores_of(new, part, "new"), shown), ways, strict=True)
            )
            worth = looking.exposure(after) if gains is None else scores_of(gains, part, "gains")
            yield Block(part, rule, after, before, worth)
