"""The change of clicks per session, against the truth of a simulated world."""

import numpy as np
import pytest

from saferank.clicks import ClickModel, relevance, simulate, trust_bias
from saferank.data import synthetic
from saferank.plackett_luce import rank_probabilities
from saferank.safety import assess

WORLD = synthetic("small", queries=80, seed=5)
DATA, USERS = WORLD.train, trust_bias()
OLD = np.random.default_rng(0).normal(size=DATA.documents)


def clicks(scores):
    """Expected clicks per session by the definition: every document at every rank."""
    shown = rank_probabilities(scores, 5, DATA.offsets)
    chance = USERS.probability(relevance(DATA.known_labels, WORLD.highest_grade))
    return float((shown * chance).sum() / DATA.queries)


def test_clicks_are_told_beside_utility():
    new = OLD + 1.5 * DATA.labels
    counts = simulate(DATA, OLD, USERS, sessions=40_000, seed=1)
    found = assess(new, DATA, production=OLD, counts=counts, click_model=USERS)
    change = found.clicks
    assert abs(change.production - clicks(OLD)) < 0.03
    truth = clicks(new) - clicks(OLD)
    assert change.difference.lower < truth < change.difference.upper
    assert change.difference.lower < change.bound.lower < truth


def test_the_scale_of_relevance_changes_nothing_that_is_said():
    """alpha R + beta is the same on every scale of relevance: so are clicks and the verdict."""
    counts = simulate(DATA, OLD, USERS, sessions=4_000, seed=2)
    new = OLD + 1.5 * DATA.labels
    other = ClickModel(USERS.alpha * 0.8, USERS.beta + 0.1 * USERS.alpha)  # R = 0.1 + 0.8 R'
    one, two = (
        assess(new, DATA, production=OLD, counts=counts, click_model=users)
        for users in (USERS, other)
    )
    shares = [found.clicks.share(found.clicks.difference.estimate) for found in (one, two)]
    assert shares[0] == pytest.approx(shares[1], rel=0.01)  # exactly so in the mean
    utility = [found.change(found.difference.estimate) for found in (one, two)]
    assert utility[0] != pytest.approx(utility[1], rel=0.1)


def test_modelled_click_rates_are_those_of_the_log_where_the_model_holds():
    """Few impressions per document: cut off at 0, relevance would be too high on average."""
    counts = simulate(DATA, OLD, USERS, sessions=1_500, seed=3)
    found = assess(OLD, DATA, production=OLD, counts=counts, click_model=USERS).log.by_rank
    clicks_ = sum(rate.observed * rate.impressions for rate in found)
    assert sum(rate.modelled * rate.impressions for rate in found) == pytest.approx(clicks_)
    for rate in found:
        error = np.sqrt(rate.observed * (1 - rate.observed) / rate.impressions)
        assert abs(rate.modelled - rate.observed) < 4 * error
