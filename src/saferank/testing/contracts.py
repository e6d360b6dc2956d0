"""What a part must do to be used beside the others: the laws, checked on a small world."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats
from saferank.clicks import ClickModel, simulate, trust_bias
from saferank.counts import Counts
from saferank.data import RankingData, synthetic
from saferank.estimators import Evidence
from saferank.estimators.estimator_table import EstimatorLike, estimator_of
from saferank.estimators.propensities import exact
from saferank.learning.descent import Settings
from saferank.learning.families import family
from saferank.objectives import Context, Terms, schedule
from saferank.objectives.goals import Goal, QueryBlock, Risk
from saferank.objectives.in_exposures import Queries
from saferank.objectives.in_pairs import pair_goal
from saferank.objectives.objective_table import ObjectiveLike, objective_entry
from saferank.policies import ProductionPolicy
from saferank.scorers.networks import ModuleFactory


class _World(NamedTuple):
    data: RankingData
    production: Floats
    click_model: ClickModel
    counts: Counts
    weights: Floats


@cache
def _world() -> _World:
    data = synthetic("small", queries=8, seed=1).train
    production = np.random.default_rng(0).normal(size=data.documents)
    click_model = trust_bias()
    counts = simulate(data, production, click_model, sessions=400, seed=0, judge=0)
    return _World(data, production, click_model, counts, click_model.exposure_weights)


def _evidence(counts: Counts, production: Floats, *, predictions: bool = True) -> Evidence:
    world = _world()
    propensities = exact(production, counts.offsets, world.click_model, world.weights)
    guess = np.linspace(0.1, 0.9, counts.documents)
    return Evidence(
        counts, world.click_model, propensities, guess if predictions else None, labels=guess
    )


def _holds(what: str, holds: bool) -> None:
    if not holds:
        raise AssertionError(f"A part must keep its contract: {what}.")


def check_estimator(estimator: EstimatorLike, *, averages: bool = True) -> None:
    r"""One finite value per document, whatever was shown; both forms agree.

    Parameters
    ----------
    estimator : a name, an `Estimator`, or a function of `Evidence`.
    averages : whether ten times the same log gives the same values, as averages do; a prior does
        not.

    Examples
    --------
    >>> check_estimator("dr")
    >>> check_estimator(lambda evidence: evidence.counts.ctr())
    """
    part, world = estimator_of(estimator), _world()
    counts = world.counts
    evidence = _evidence(counts, world.production)
    gains = np.asarray(part.documents(evidence))
    _holds("one value per document", gains.shape == (counts.documents,))
    _holds("finite values, also of documents never shown", bool(np.isfinite(gains).all()))
    again = np.asarray(part.documents(evidence))
    _holds("the same evidence, the same values", bool(np.array_equal(gains, again)))
    unseen = Counts.zeros(counts.offsets, counts.ranks)
    nothing = np.asarray(part.documents(_evidence(unseen, world.production)))
    _holds("finite values where nothing was shown", bool(np.isfinite(nothing).all()))
    order = np.arange(counts.queries)[::-1]
    places, _ = flat.gather(counts.offsets, order)
    turned = _evidence(counts.subset(order), world.production[places])
    kept = Evidence(
        turned.counts, turned.click_model, turned.propensities,
        evidence.predictions[places] if evidence.predictions is not None else None,
        labels=None if evidence.labels is None else evidence.labels[places],
    )  # fmt: skip
    _holds("queries in any order", _close(part.documents(kept), gains[places]))
    if averages:
        more = Counts(
            counts.offsets, counts.impressions * 10, counts.clicks * 10, counts.sessions * 10
        )
        _holds("the values of a log ten times over",
               _close(part.documents(_evidence(more, world.production)), gains))  # fmt: skip
    if part.sessions is not None:
        omega = np.random.default_rng(1).random(counts.documents)
        means = part.sessions(evidence, omega).means(counts)
        summed = flat.query_sums(omega * gains, counts.offsets)
        seen = counts.sessions > 0
        _holds("both forms say the same of a query", _close(means[seen], summed[seen], 1e-9))


def check_objective(objective: ObjectiveLike, *, delta: float = 0.5) -> None:
    """A finite value whose gradient in the scores is that of finite differences.

    Objectives in pairs push instead of descending: their value is checked, and that pushes are
    finite.

    Parameters
    ----------
    objective
        A name, an `Entry`, or a function of `Context`.
    delta
        What the objective is built with.

    Examples
    --------
    >>> check_objective("prpo")
    """
    world = _world()
    entry = objective_entry(objective)
    assert schedule(entry.delta) is not None
    gain = np.random.default_rng(2).normal(size=world.data.documents)
    production = ProductionPolicy.sampled(world.production, world.data.offsets)
    omega0 = production.exposure(world.weights)
    total = flat.repeat_per_document(
        flat.query_sums(omega0, world.data.offsets), world.data.offsets
    )
    largest = float(np.abs(gain).max())
    built = entry.build(Context(400, delta, world.weights, world.click_model, largest))
    share = np.full(world.data.queries, 1 / world.data.queries)
    goal = built.on(
        Queries(world.data.offsets, Terms(gain, omega0, total), world.weights, share,
                world.production, samples=30, groups=np.arange(gain.size) % 3)
    )  # fmt: skip
    scores = world.production + np.random.default_rng(3).normal(size=gain.size)
    value, risk, gradient = _judged(goal, scores, None)
    _holds("a finite value", np.isfinite(value))
    _holds("a finite gradient per score",
           gradient.shape == scores.shape and bool(np.isfinite(gradient).all()))  # fmt: skip
    if built.goal is pair_goal:
        return
    direction, step = np.random.default_rng(4).normal(size=scores.size), 1e-6
    rise = _judged(goal, scores + step * direction, None)[0]
    rise -= _judged(goal, scores - step * direction, None)[0]
    gradient = _judged(goal, scores, risk)[2]
    slope, wanted = float(gradient @ direction), rise / (2 * step)
    _holds(
        f"the slope of finite differences ({wanted:.6g}, not {slope:.6g})",
        abs(slope - wanted) <= 1e-6 + 1e-3 * abs(wanted),
    )


def _judged(goal: Goal, scores: Floats, risk: Risk | None) -> tuple[float, Risk, Floats]:
    data = _world().data
    place = QueryBlock(np.arange(data.queries), slice(0, data.documents), data.offsets)
    judged = goal.value_and_gradient(scores, place, risk)
    alone = goal.values(scores, place)
    _holds("the same values without a gradient",
           all(map(np.array_equal, alone, judged[:2])))  # fmt: skip
    reward, risks = float(judged.reward.sum()), judged.risk.sum(axis=0)
    return goal.value(reward, risks), risks, judged.gradient


def check_scorer(scorer: str | ModuleFactory) -> None:
    """One finite score per document; a copy is its own; saved and loaded to the bit.

    Parameters
    ----------
    scorer
        A name of `SCORERS`, or a function from a width to a torch module.

    Examples
    --------
    >>> check_scorer("linear")
    """
    kind, world = family(scorer), _world()
    features = world.data.features
    fresh = kind.fresh(world.data.width, Settings(hidden=(4,)), 0)
    scores = fresh.scores(features)
    _holds("one score per document", scores.shape == (world.data.documents,))
    _holds("finite scores", bool(np.isfinite(scores).all()))
    same = kind.fresh(world.data.width, Settings(hidden=(4,)), 0)
    _holds("the same seed, the same scores", bool(np.array_equal(same.scores(features), scores)))
    copied = fresh.copy()
    _holds("a copy scores alike", bool(np.array_equal(copied.scores(features), scores)))
    _holds("a copy has the same fingerprint", copied.fingerprint() == fresh.fingerprint())
    with tempfile.TemporaryDirectory() as name:
        record = fresh.save(Path(name))
        module = None if isinstance(scorer, str) else scorer
        loaded = kind.load(Path(name), {"kind": fresh.kind, **record}, module)
        _holds("loaded as saved", bool(np.array_equal(loaded.scores(features), scores)))


def check_click_model(model: Any) -> None:
    """Click probabilities of documents and ranks, in [0, 1] and growing with relevance.

    Parameters
    ----------
    model
        Anything with `ranks` and `probability(relevance)`.

    Examples
    --------
    >>> check_click_model(ClickModel([0.5, 0.3], [0.1, 0.1]))
    """
    relevance = np.linspace(0, 1, 11)
    chance = np.asarray(model.probability(relevance))
    _holds("documents x ranks", chance.shape == (relevance.size, model.ranks))
    _holds("in [0, 1]", bool(np.all((chance >= 0) & (chance <= 1))))
    _holds("growing with relevance", bool(np.all(np.diff(chance, axis=0) >= -1e-12)))
    few = model.at(1)
    _holds("of fewer ranks", few.ranks == 1 and _close(few.probability(relevance), chance[:, :1]))


def check_policy(policy: ProductionPolicy) -> None:
    """Probabilities of documents at ranks, at most 1 in all; exposures that are their sums.

    Parameters
    ----------
    policy
        A policy of production on a few documents.

    Examples
    --------
    >>> check_policy(ProductionPolicy.sampled([0.0, 1.0, 2.0], [0, 1, 3]))
    """
    ranks = 2 if policy.table is None else policy.table.shape[1]
    weights = 1 / np.arange(1, ranks + 1)
    chance = policy.rank_probabilities(ranks)
    _holds("in [0, 1]", bool(np.all((chance >= -1e-12) & (chance <= 1 + 1e-9))))
    sums = flat.query_sums(chance, policy.offsets)
    _holds("a rank shows one document", bool(np.all(sums <= 1 + 1e-9)))
    _holds("exposures are weighted sums", _close(policy.exposure(weights), chance @ weights, 1e-9))
    last = np.array([policy.offsets.size - 2])
    last_query = policy.subset(last)
    own = slice(int(policy.offsets[-2]), int(policy.offsets[-1]))
    _holds("queries do not depend on each other",
           _close(last_query.exposure(weights), policy.exposure(weights)[own], 1e-9))  # fmt: skip


def _close(first: Any, second: Any, relative: float = 1e-12) -> bool:
    return bool(np.allclose(np.asarray(first), np.asarray(second), rtol=relative, atol=relative))
