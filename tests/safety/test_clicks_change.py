"""The change of clicks per session, against the truth of a simulated world."""

import numpy as np

from saferank.clicks import relevance, simulate, trust_bias
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
    found = assess(new, DATA, production=OLD, counts=counts, users=USERS)
    change = found.clicks
    assert abs(change.production - clicks(OLD)) < 0.03
    truth = clicks(new) - clicks(OLD)
    assert change.difference.lower < truth < change.difference.upper
