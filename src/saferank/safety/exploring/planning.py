"""`explore`: which randomisation to serve so that the next log can tell."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats
from saferank._core.progress import bar
from saferank.clicks.models import ClickModel, position_bias
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.errors import InputError, require
from saferank.evaluation.scored_policies import query_shares
from saferank.policies import ProductionPolicy
from saferank.safety.examination import Asked, Examination
from saferank.safety.exploring import candidates
from saferank.safety.exploring.assumed_clicks import (
    places_of,
    relevance_by_counts,
    relevance_by_rate,
)
from saferank.safety.exploring.best_moves import Room
from saferank.safety.exploring.candidates import Candidate, Moving
from saferank.safety.exploring.moves import Moves
from saferank.safety.exploring.outlook import KINDS, NextLog, Outlook
from saferank.safety.exploring.plan import (
    ITEMS,
    ExplorationPlan,
    document_names,
    weights_of,
)
from saferank.safety.guarded import GuardRule
from saferank.safety.promise import Promise

_DEFAULT = Promise()
_TRIED_QUERIES = 300
"""Queries that temperatures are compared on."""
PRODUCTION = "production"


@dataclass(frozen=True)
class Aim:
    """What the next log is for.

    kind : the click model that will be fitted to it, "trust" or "position" (`saferank bias`).
    target : the standard error of log(alpha_k / alpha_1) asked for at every rank: 0.1 is 10 %.
    depth : documents that matter are production's first so many of each query; by default those
        that it shows.
    coverage : of the most that documents beyond the ranks can be shown, the share asked for.
    judge : share of the sessions that will be set aside to judge by (`saferank count --judge`).
    """

    kind: str = "trust"
    target: float = 0.1
    depth: int | None = None
    coverage: float = 0.2
    judge: float = 0.2

    def __post_init__(self) -> None:
        require(self.kind in KINDS, "kind", f"one of {', '.join(KINDS)}", self.kind)
        require(0 < self.target < 10, "target", "in (0, 10)", self.target)
        require(self.depth is None or self.depth >= 1, "depth", "at least 1", self.depth)
        require(0 <= self.coverage <= 1, "coverage", "in [0, 1]", self.coverage)
        require(0 <= self.judge < 1, "judge", "in [0, 1)", self.judge)


_AIM = Aim()


def explore(
    data: RankingData,
    production: ProductionPolicy | None = None,
    *,
    k: int,
    sessions: float,
    counts: Counts | None = None,
    click_model: ClickModel | None = None,
    click_rate: float = 0.1,
    promise: Promise = _DEFAULT,
    examination: Asked = "any",
    aim: Aim = _AIM,
    choose: str | None = None,
    production_from: str = ITEMS,
    production_temperature: float = 1.0,
    seed: int = 0,
) -> ExplorationPlan:
    """Which randomisation to serve, at a certified cost, so that the next log can tell.

    Candidates add chance to production as far as the promise allows on every query, whatever
    relevance is. Of those that keep it, the one is taken whose log needs the fewest sessions until
    the fitted examination curve is as certain as asked for; where documents matter that production
    does not show, only those that show all of them.

    Parameters
    ----------
    data
        Items.
    production
        What production does: sorts or samples; by default it sorts by the items'
        production_score.
    k
        Ranks that are shown.
    sessions
        How many are to come.
    counts
        Of production's log on the same documents, if there is one: traffic of queries and clicks.
    click_model
        What is taken for how clicks depend on rank; by default alpha of rank k is 1 / k.
    click_rate
        Clicks per impression at rank 1, where there are no counts.
    promise
        What every query keeps.
    examination
        What the promise is for: "any" way of looking, "dcg", "fitted" (alpha + beta of the click
        model), or rank weights.
    aim
        What the log is for.
    choose
        A candidate's name, to take that one.
    production_from
        Where production's order comes from, for the record.
    production_temperature
        What production's scores are divided by before it samples, for serving.
    seed
        For impressions and relevance that are drawn.

    Returns
    -------
    ExplorationPlan
        With `outlooks` of all candidates; `plan.policy(...)` serves it, `plan.save(...)` keeps it.

    Examples
    --------
    >>> items = RankingData(np.zeros((60, 0)), offsets=np.arange(11) * 6,
    ...                     production=np.tile(np.arange(6.0, 0, -1), 10))
    >>> plan = explore(items, k=4, sessions=100_000, aim=Aim(kind="position"))
    >>> plan.chosen, plan.outlook.keeps, plan.outlook.worst("position") < 0.1
    ('moves', True, True)
    """
    require(data.queries > 0, "data", "of at least one query", data.queries)
    require(k >= 1, "k", "at least 1", k)
    require(sessions >= 1, "sessions", "at least 1", sessions)
    known, (model, looking) = _known(production, data), _looking(click_model, examination, k)
    relevance, why = _relevance(data, known, counts, model, click_rate, seed)
    shares = query_shares(None if counts is None else counts.sessions, data.queries)
    log = NextLog(
        data=data, production=known, looking=looking, promise=promise,
        sessions=shares * sessions, learned=1 - aim.judge, relevance=relevance, model=model,
        depth=aim.depth or k, kind=aim.kind, target=aim.target, seed=seed,
        informed=click_model is not None and counts is not None,
    )  # fmt: skip
    tried = _candidates(log, aim, counts)
    outlooks = _outlooks(log, tried)
    best = _choose(outlooks, choose)
    return ExplorationPlan(
        chosen=best.name,
        outlooks=_in_order(outlooks, best),
        promise=promise,
        weights=weights_of(looking.weights),
        every=looking.every,
        sessions=float(sessions),
        judge=aim.judge,
        kind=aim.kind,
        target=aim.target,
        depth=log.depth,
        production_kind="sorted" if known.kind == "sorted" else "sampled",
        production_temperature=production_temperature,
        production_from=production_from,
        production_sentence=_SERVED[known.kind],
        assumes=(*why, looking.sentence(), *_ASSUMED, _traffic(counts)),
        **_served(next(one for one in tried if one.name == best.name), log),
    )


def _looking(
    click_model: ClickModel | None, examination: Asked, k: int
) -> tuple[ClickModel, Examination]:
    """What is taken for how clicks depend on rank, and what the promise is for."""
    model = (click_model or position_bias(k)).at(k)
    sane = bool(np.all(model.alpha > 0))
    require(sane, "click_model", f"with an alpha above 0 at the first {k} ranks", model)
    looking = Examination.of(
        examination, model.exposure_weights, "alpha + beta of the click model taken here"
    )
    require(looking.weights.size == k, "examination", f"of {k} ranks", looking.weights.size)
    return model, looking


def _in_order(outlooks: list[Outlook], best: Outlook) -> tuple[Outlook, ...]:
    """Production as it is, the one that is taken, and the others from good to bad."""
    first, *others = outlooks
    rest = sorted((one for one in others if one is not best), key=_order)
    return (first, *rest) if best is first else (first, best, *rest)


def _known(production: ProductionPolicy | None, data: RankingData) -> ProductionPolicy:
    """What production does: as it is said, or sorting by its score."""
    if production is not None:
        rule = "sorted or sampled: lists in random order tell as they are"
        require(production.kind in _SERVED, "production", rule, production.kind)
        return production
    if data.production is None:
        raise InputError(
            "`production` must be given: the items have no production_score; production's lists "
            "will do (a table of query_id, doc_id, rank)."
        )
    return ProductionPolicy.sorted(data.production, data.offsets)


def _relevance(
    data: RankingData, production: ProductionPolicy, counts: Counts | None, model: ClickModel,
    click_rate: float, seed: int,
) -> tuple[Floats, tuple[str, ...]]:  # fmt: skip
    """What is taken for relevance, and sentences on it."""
    curve = " ".join(f"{value:.3g}" for value in model.alpha)
    taken = f"Until the next log tells, alpha of the ranks is taken to be {curve}"
    if counts is not None and counts.clicks.any():
        places = places_of(production.ranking_scores(), data.offsets)
        own = counts.part("all")
        return relevance_by_counts(own, model, places, seed), (
            f"{taken}, and documents to be clicked as often as they were "
            f"({int(own.clicks.sum()):,} clicks).",
        )
    return relevance_by_rate(data.documents, model, click_rate, seed), (
        f"{taken}, and documents to get {click_rate:.3g} clicks per impression at rank 1 on "
        "average, some of them several times that: give --counts or --click-rate for yours.",
    )


def _candidates(log: NextLog, aim: Aim, counts: Counts | None) -> list[Candidate]:
    """All ways that are compared, production as it is first."""
    scores = log.production.ranking_scores()
    places = places_of(scores, log.data.offsets)
    sessions = flat.repeat_per_document(log.sessions * log.learned, log.data.offsets)
    depth = min(max(log.depth, log.k), max(int(log.data.sizes.max()), log.k))
    near = places < depth
    weight = (sessions * log.relevance)[near]
    mass = np.bincount(places[near], weight, minlength=depth).astype(np.float64)
    rule = GuardRule(log.promise, log.looking)
    room = Room.of(log.looking, log.promise, depth)
    still = Candidate(PRODUCTION, "As it is.", Moving(Moves(np.eye(depth), log.k)))
    ways = [still, *candidates.moving(room, mass, log.model.alpha, aim.coverage)]
    warm = list(candidates.temperatures(rule, scores, log.data.offsets))
    if warm:
        ways.append(_warmest(log, warm))
    if counts is not None:
        ways.append(candidates.optimistic(rule, counts, log.relevance, log.model.alpha))
    return [*ways, candidates.uniform(rule, log.data.documents)]


def _warmest(log: NextLog, warm: list[Candidate]) -> Candidate:
    """The temperature of smallest errors on some of the queries."""
    queries = np.arange(0, log.data.queries, max(1, log.data.queries // _TRIED_QUERIES))
    positions, _ = flat.gather(log.data.offsets, queries)
    some = replace(log.subset(queries), kind="position")

    def error(candidate: Candidate) -> float:
        assert isinstance(candidate.policy, candidates.Guarding)
        policy = replace(candidate.policy, scores=candidate.policy.scores[positions])
        return some.outlook(candidate.name, "", policy).worst("position")

    return min(warm, key=error)


def _outlooks(log: NextLog, tried: list[Candidate]) -> list[Outlook]:
    with bar("Comparing ways to explore", len(tried)) as advance:
        outlooks = []
        for one in tried:
            outlooks.append(log.outlook(one.name, one.sentence, one.policy))
            advance(note=one.name)
    return outlooks


def _order(outlook: Outlook) -> tuple[bool, float, float]:
    """Those that keep the promise first, then by sessions needed, then by errors."""
    needed = outlook.sessions_needed
    return (not outlook.keeps, np.inf if needed is None else needed, outlook.worst("position"))


def _choose(outlooks: list[Outlook], choose: str | None) -> Outlook:
    names = [one.name for one in outlooks]
    if choose is not None:
        require(choose in names, "choose", f"one of {', '.join(names)}", choose)
        return outlooks[names.index(choose)]
    kept = [one for one in outlooks[1:] if one.keeps]
    if not kept:
        raise InputError("no way of exploring keeps the promise; ask for a smaller --keep.")
    least = min(one.never_shown for one in kept)
    return min((one for one in kept if one.never_shown <= least), key=_order)


def _served(taken: Candidate, log: NextLog) -> dict[str, Any]:
    """As what a candidate is served."""
    if isinstance(taken.policy, Moving):
        return {"moves": tuple(map(tuple, taken.policy.moves.matrix.tolist()))}
    if taken.name == "optimistic":
        names = document_names(log.data)
        return {"optimism": dict(zip(names, taken.policy.scores.tolist(), strict=True))}
    return {"temperature": taken.temperature}


def _traffic(counts: Counts | None) -> str:
    if counts is None:
        return "Each query gets the same number of sessions, as no counts were given."
    return "Queries are asked as often as in the counts."


_SERVED = {
    "sorted": "Production sorts documents.",
    "sampled": "Production draws its lists by its score.",
}
_ASSUMED = (
    "Utility adds up over the documents shown: the weight of a rank times a relevance in [0, 1] "
    "that does not depend on the ranking. Whatever that relevance is, the promise is kept.",
)
