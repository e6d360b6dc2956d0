"""Logs of several policies: unbiased by enumeration with the mixture's propensities."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import saferank as sr
from saferank.counts import Counts
from saferank.estimators import ESTIMATORS, Evidence
from saferank.estimators.propensities import by_policy
from saferank.policies import ProductionPolicy, mix_policies
from saferank.policies.agreement import check_table

OFFSETS = np.array([0, 3])
MODEL = sr.clicks.ClickModel([0.8, 0.5], [0.1, 0.05])
RELEVANCE = np.array([0.9, 0.4, 0.1])
WEIGHTS = MODEL.exposure_weights


def expected_counts(scores: np.ndarray, sessions: int) -> tuple[np.ndarray, np.ndarray]:
    """Expected impressions and clicks of a Plackett-Luce round, ranking by ranking."""
    impressions, clicks = np.zeros((3, 2)), np.zeros((3, 2))
    for ranking in itertools.permutations(range(3), 2):
        chance, left = 1.0, set(range(3))
        for d in ranking:
            chance *= np.exp(scores[d]) / sum(np.exp(scores[other]) for other in left)
            left.remove(d)
        for rank, d in enumerate(ranking):
            impressions[d, rank] += sessions * chance
            clicks[d, rank] += (
                sessions * chance * (MODEL.alpha[rank] * RELEVANCE[d] + MODEL.beta[rank])
            )
    return impressions, clicks


ROUNDS = [(np.array([2.0, 0.0, -1.0]), 700), (np.array([-1.0, 0.5, 2.0]), 300)]


def test_the_mixture_is_that_of_all_sessions() -> None:
    policies = [ProductionPolicy.sampled(scores, OFFSETS) for scores, _ in ROUNDS]
    mixed = mix_policies(policies, [np.array([n]) for _, n in ROUNDS], k=2)
    by_hand = sum(expected_counts(scores, n)[0] for scores, n in ROUNDS) / 1000
    np.testing.assert_allclose(mixed.rank_probabilities(2), by_hand, atol=1e-12)


@pytest.mark.parametrize("name", ["affine-ips", "dr"])
def test_estimators_are_unbiased_on_all_rounds_together(name: str) -> None:
    policies = [ProductionPolicy.sampled(scores, OFFSETS) for scores, _ in ROUNDS]
    mixed = mix_policies(policies, [np.array([n]) for _, n in ROUNDS], k=2)
    scale = 10**9  # expected counts, as whole numbers
    shown, clicked = (
        sum(np.asarray(part) for part in parts)
        for parts in zip(*(expected_counts(scores, n) for scores, n in ROUNDS), strict=True)
    )
    impressions, clicks = (np.rint(array * scale).astype(np.int64) for array in (shown, clicked))
    counts = Counts(OFFSETS, impressions, clicks, sessions=np.array([1000 * scale + 2]))
    evidence = Evidence(
        counts, MODEL, by_policy(mixed, MODEL, WEIGHTS), predictions=np.array([0.2, 0.7, 0.5])
    )
    np.testing.assert_allclose(ESTIMATORS[name].documents(evidence), RELEVANCE, atol=1e-6)


def test_a_query_without_sessions_is_as_in_the_last_round() -> None:
    offsets = np.array([0, 2, 4])
    first, last = (
        ProductionPolicy.sorted(scores, offsets)
        for scores in ([1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0])
    )
    mixed = mix_policies([first, last], [np.array([5, 0]), np.array([5, 0])], k=1)
    assert mixed.rank_probabilities(1)[:, 0].tolist() == [0.5, 0.5, 0.0, 1.0]


def test_what_is_no_mixture_is_refused() -> None:
    policy = ProductionPolicy.uniform(OFFSETS)
    with pytest.raises(sr.InputError, match="of 1 rounds"):
        mix_policies([policy], [], k=2)
    with pytest.raises(sr.InputError, match="at least one"):
        mix_policies([], [], k=2)


@pytest.fixture(scope="module")
def world() -> sr.data.RankingData:
    return sr.data.synthetic("small", queries=60, seed=3).train


def test_learning_weighs_by_what_made_the_log(world: sr.data.RankingData) -> None:
    """From a log of another policy a ranker is learned that starts at production."""
    model = sr.clicks.trust_bias()
    rng = np.random.default_rng(0)
    production, other = rng.normal(size=(2, world.documents))
    counts = [
        sr.clicks.simulate(world, scores, model, sessions=40_000, seed=seed)
        for seed, scores in enumerate((production, other))
    ]
    policies = [ProductionPolicy.sampled(scores, world.offsets) for scores in (production, other)]
    mixed = mix_policies(policies, [own.part("learn").sessions for own in counts], model.ranks)
    whole = counts[0] + counts[1]
    assert check_table(whole.part("learn"), mixed.rank_probabilities(5)).fits
    options = {
        "method": "prpo", "scorer": "linear", "seed": 0, "production": production,
        "settings": sr.learning.Settings(steps=60),
    }  # fmt: skip
    ranker = sr.learn(world, whole, model, logged_by=mixed, **options)
    relevance = sr.clicks.relevance(world.labels, 4)
    new, old = (
        sr.plackett_luce.exposure(scores, model.exposure_weights, world.offsets) @ relevance
        for scores in (ranker.scores(world), production)
    )
    assert new > old


def test_assessing_by_a_log_that_another_policy_made(world: sr.data.RankingData) -> None:
    model = sr.clicks.trust_bias()
    production = np.zeros(world.documents)
    served = ProductionPolicy.sampled(0.3 * world.labels, world.offsets)
    counts = sr.clicks.simulate(world, 0.3 * world.labels, model, sessions=30_000, seed=1)
    new = 0.6 * world.labels
    assessment = sr.assess(
        new, world, production=production, counts=counts, click_model=model, logged_by=served
    )
    assert assessment.difference is not None
    relevance = sr.clicks.relevance(world.labels, 4)
    share = counts.part("judge").sessions / counts.part("judge").total
    weights = np.repeat(share, np.diff(world.offsets)) * relevance
    truth = sum(
        sign * sr.plackett_luce.exposure(scores, model.exposure_weights, world.offsets) @ weights
        for sign, scores in ((1, new), (-1, production))
    )
    assert assessment.difference.lower <= truth <= assessment.difference.upper
    assert assessment.fit is not None
    assert assessment.fit.fits


def test_a_wrong_word_about_who_made_the_log_ships_nothing(world: sr.data.RankingData) -> None:
    model = sr.clicks.trust_bias()
    counts = sr.clicks.simulate(world, world.labels, model, sessions=30_000, seed=1)
    claimed = ProductionPolicy.uniform(world.offsets)
    assessment = sr.assess(
        0.5 * world.labels, world, production=np.zeros(world.documents), counts=counts,
        click_model=model, logged_by=claimed,
    )  # fmt: skip
    assert not assessment.decision.ship
    assert assessment.fit is not None
    assert assessment.fit.fits is False


def test_shares_are_of_productions_clicks_and_not_of_the_logs(world: sr.data.RankingData) -> None:
    """The log of a better policy has more clicks than production would."""
    model = sr.clicks.position_bias()
    production = -0.5 * world.labels.astype(np.float64)
    logged = world.labels.astype(np.float64)
    served = ProductionPolicy.sampled(logged, world.offsets)
    counts = sr.clicks.simulate(world, logged, model, sessions=60_000, seed=1, highest_grade=4)
    options: dict[str, Any] = {"production": production, "counts": counts, "click_model": model}
    found = sr.assess(0.5 * logged, world, logged_by=served, **options).clicks
    assert found is not None
    relevance = sr.clicks.relevance(world.labels, 4)
    share = counts.part("judge").sessions / counts.part("judge").total
    weights = np.repeat(share, np.diff(world.offsets)) * relevance
    truth = sr.plackett_luce.exposure(production, model.alpha, world.offsets) @ weights
    counted = counts.part("judge").clicks.sum() / counts.part("judge").total
    assert counted > 1.5 * truth
    assert found.production == pytest.approx(truth, rel=0.1)
    with pytest.raises(sr.InputError, match="only estimated"):
        rule = sr.safety.Rule(tolerance=0.05)
        sr.assess(0.5 * logged, world, logged_by=served, rule=rule, **options)
