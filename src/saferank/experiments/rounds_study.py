"""The study of rounds: methods that log, learn and serve again, measured against the truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from saferank._core.flat import Floats
from saferank._core.seeds import derive
from saferank.clicks import relevance, stand_in_production, trust_bias
from saferank.counts import Counts
from saferank.data import Collection, RankingData
from saferank.errors import require
from saferank.experiments.online_learners import Online
from saferank.experiments.rounds_world import RoundsWorld
from saferank.experiments.study import STUDY_USERS
from saferank.learning import Ranker, Settings, learn
from saferank.policies import ProductionPolicy, mix_policies
from saferank.policies.production import chances_of_lists
from saferank.rounds import Candidate, take_step
from saferank.safety.examination import Examination
from saferank.safety.exploring import assumed_clicks
from saferank.safety.exploring.candidates import optimism
from saferank.safety.guarded import GuardRule
from saferank.safety.promise import Promise
from saferank.safety.rule import Rule

PROMISE = Promise(0.9, 0.01)
HALF = Promise(0.95, 0.005)
"""Kept twice, once against the other, it keeps `PROMISE`: shares multiply, slacks add up."""
USERS = ("trust", "misspecified", "cascade", "adversarial", "drift")
"""Who clicks; "drift": trust-bias users whose relevance changes half-way."""


@dataclass(frozen=True)
class RoundMeasure:
    """What a method served in a round, in truth."""

    method: str
    users: str
    seed: int
    number: int
    utility: float
    """Mean over queries, as a share of the first production's."""
    skyline: float
    """The same of a ranker learned from labels."""
    broken: int
    """Queries below the promise against the first production."""
    replaced: bool


@dataclass
class Player:
    """What a method knows: the rounds so far."""

    world: RoundsWorld
    settings: Settings
    served: list[ProductionPolicy] = field(default_factory=list)
    counts: list[Counts] = field(default_factory=list)
    adopted: ProductionPolicy | None = None
    """What was certified last, where something is explored beside it; None: the first one."""
    online: Online | None = None

    def learn(self, method: str, number: int, *, whole: bool) -> Ranker:
        """A ranker from all rounds: `whole` takes the last one's sessions to judge by, too."""
        promised: dict[str, Any] = (
            {"keep": PROMISE.keep, "slack": PROMISE.slack} if method == "keep" else {}
        )
        parts = [counts.part("all") for counts in self.counts]
        if not whole:
            parts[-1] = self.counts[-1].part("learn")
        k = self.world.click_model.ranks
        policy = mix_policies(self.served, [part.sessions for part in parts], k)
        return learn(
            self.world.items, reduce(add, parts), self.world.click_model, method=method,
            production=self.world.scores, logged_by=policy, scorer="linear",
            settings=self.settings, seed=derive(self.world.seed, method, number), **promised,
        )  # fmt: skip


Move = Callable[[Player, int], ProductionPolicy]


def _unguarded(method: str) -> Move:
    """Serve whatever was learned, at once."""

    def move(player: Player, number: int) -> ProductionPolicy:
        ranker = player.learn(method, number, whole=True)
        items = player.world.items
        return ProductionPolicy.sampled(ranker.scores(items), items.offsets)

    return move


def _certified(method: str, *, against_first: bool = True) -> Move:
    """Serve the best policy under the promise, if it is surely no worse than what is served.

    The promise is against the first production, or against what is served now.
    """

    def move(player: Player, number: int) -> ProductionPolicy:
        world, now = player.world, player.served[-1]
        ranker = player.learn(method, number, whole=False)
        looking = Examination.of("fitted", world.click_model.exposure_weights)
        against = world.production if against_first else now
        candidate = Candidate(ranker, PROMISE, against, looking)
        judged = player.counts[-1].part("judge")
        step = take_step(candidate, world.items, judged, now, world.click_model, Rule(by="clicks"))
        if not step.replace:
            return now
        return ProductionPolicy.recorded(candidate.table(world.items), world.items.offsets)

    return move


@dataclass(frozen=True, eq=False)
class _Exploring(Candidate):
    """A candidate that is served with some chance for documents that may be relevant.

    Half of the promise is for the candidate, half for what is explored beside it.
    """

    hopes: Floats
    """One optimistic score per document."""

    def table(self, items: RankingData) -> Floats:
        return self.explored(super().table(items), items)

    def explored(self, table: Floats, items: RankingData) -> Floats:
        """P(document at rank) with exploration, as close to the optimistic order as HALF allows."""
        ranks = self.examination.weights.size
        hoped = chances_of_lists(self.hopes, ranks, items.offsets, in_order=True)
        served = GuardRule(HALF, self.examination, "best").serve(hoped, table, items.offsets)
        return np.clip(served.table, 0.0, 1.0)  # up to rounding

    def adopted(self, items: RankingData) -> Floats:
        """P(document at rank) without exploration."""
        return super().table(items)


def _explored(method: str) -> Move:
    """As `_certified`; whatever is adopted is served with the exploration that HALF allows."""

    def move(player: Player, number: int) -> ProductionPolicy:
        world, now = player.world, player.served[-1]
        items, model = world.items, world.click_model
        ranker = player.learn(method, number, whole=False)
        looking = Examination.of("fitted", model.exposure_weights)
        candidate = _Exploring(ranker, HALF, world.production, looking, _hopes(player))
        judged = player.counts[-1].part("judge")
        step = take_step(candidate, items, judged, now, model, Rule(by="clicks"))
        if step.replace:
            player.adopted = ProductionPolicy.recorded(candidate.adopted(items), items.offsets)
        adopted = player.adopted or world.production
        table = candidate.explored(adopted.rank_probabilities(model.ranks), items)
        return ProductionPolicy.recorded(table, items.offsets)

    return move


def _hopes(player: Player) -> Floats:
    """Optimistic scores of all documents, by the clicks of all rounds so far."""
    world = player.world
    counts = reduce(add, (own.part("all") for own in player.counts))
    places = assumed_clicks.places_of(world.scores, world.items.offsets)
    relevance = assumed_clicks.relevance_by_counts(counts, world.click_model, places, world.seed)
    return optimism(counts, relevance, world.click_model.alpha)


def _online(learn_round: Callable[[Online, int], ProductionPolicy]) -> Move:
    def move(player: Player, number: int) -> ProductionPolicy:
        if player.online is None:
            player.online = Online.start(player.world)
        return learn_round(player.online, number)

    return move


METHODS: dict[str, Move] = {
    "IPS": _unguarded("ips"),
    "DR": _unguarded("dr"),
    "safe DR": _unguarded("safe-dr"),
    "PRPO": _unguarded("prpo"),
    "DR, certified and guarded": _certified("dr"),
    "PRPO, certified and guarded": _certified("prpo"),
    "keep, certified and guarded": _certified("keep"),
    "DR, certified, guarded and explored": _explored("dr"),
    "DR, certified against the last": _certified("dr", against_first=False),
    "PDGD": _online(Online.learn_pdgd),
    "DBGD": _online(Online.learn_dbgd),
}
"""What each method serves next, given the rounds so far."""
ONLINE = ("PDGD", "DBGD")
"""Methods that learn from each session as it comes."""


def make_world(
    collection: Collection, users: str, *, sessions: int, rounds: int, seed: int, k: int = 5
) -> RoundsWorld:
    """A world of the study: queries of a collection, a production of few labels, users by name."""
    require(users in USERS, "users", f"one of {', '.join(USERS)}", users)
    items = collection.train
    scores = stand_in_production(items, seed=seed)
    return RoundsWorld(
        replace(items, production=scores),
        relevance(items.known_labels, collection.highest_grade),
        STUDY_USERS["trust" if users == "drift" else users](k),
        trust_bias(k),
        ProductionPolicy.sampled(scores, items.offsets),
        scores,
        sessions,
        seed,
        drifts_at=rounds // 2 + 1 if users == "drift" else None,
    )


@dataclass
class Skylines:
    """Utilities of linear rankers learned from the truth; methods and users of a seed share them.

    Worlds of one collection only: what differs between them is the seed, and whether it drifted.
    """

    settings: Settings
    learned: dict[tuple[int, bool], float] = field(default_factory=dict)

    def utility(self, world: RoundsWorld, number: int) -> float:
        """Mean utility of the ranker that is learned from the truth of a round."""
        key = (world.seed, world.drifted(number))
        if key not in self.learned:
            self.learned[key] = skyline(world, number, self.settings)
        return self.learned[key]


def skyline(world: RoundsWorld, number: int, settings: Settings) -> float:
    """Mean utility of a linear ranker that is learned from the truth of a round."""
    grades = np.rint(4 * world.truth(number)).astype(np.float32)
    items = replace(world.items, labels=grades)
    ranker = learn(
        items, method="skyline", scorer="linear", k=world.click_model.ranks, settings=settings,
        seed=world.seed,
    )  # fmt: skip
    policy = ProductionPolicy.sampled(ranker.scores(items), items.offsets)
    return float(world.utilities(policy, number).mean())


def play(
    world: RoundsWorld, method: str, users: str, rounds: int, skylines: Skylines
) -> Iterator[RoundMeasure]:
    """Rounds of one method: each logs what is served, learns, and serves what comes of it."""
    player = Player(world, skylines.settings, [world.production])
    for number in range(1, rounds + 1):
        if method not in ONLINE:
            player.counts.append(world.simulate(player.served[-1], number))
        served = METHODS[method](player, number)
        replaced = served is not player.served[-1]
        player.served.append(served)
        first = float(world.utilities(world.production, number).mean())
        yield RoundMeasure(
            method, users, world.seed, number,
            utility=float(world.utilities(served, number).mean()) / first,
            skyline=skylines.utility(world, number) / first,
            broken=world.broken(served, number, PROMISE),
            replaced=replaced,
        )  # fmt: skip
