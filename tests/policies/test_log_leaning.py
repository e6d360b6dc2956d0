"""Whether a log with recorded propensities leans: rarely where they are true, mostly where not."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

from saferank.counts import Counts
from saferank.plackett_luce import rank_probabilities
from saferank.plackett_luce.exact import sorted_rank_probabilities
from saferank.policies import ProductionPolicy
from saferank.policies.log_leaning import leaning
from saferank.policies.recorded import moments_if_seen

QUERIES, SIZE, K = 20, 12, 5
OFFSETS = np.arange(0, QUERIES * SIZE + 1, SIZE)
LEVEL = 0.01
KINDS = ("sampled", "mixture", "mixture of sorted")


def world(kind, seed):
    """Scores of production and new ranker, the new one's share by query, P(document at rank)."""
    rng = np.random.default_rng([seed, 1])
    old = rng.normal(size=OFFSETS[-1])
    new = old + 1.5 * rng.normal(size=OFFSETS[-1])
    share = np.zeros(QUERIES) if kind == "sampled" else rng.uniform(0.3, 0.9, QUERIES)
    table = sorted_rank_probabilities if "sorted" in kind else rank_probabilities
    each = np.repeat(share, SIZE)[:, None]
    return old, new, share, each * table(new, K, OFFSETS) + (1 - each) * table(old, K, OFFSETS)


def served(rng, kind, old, new, share, sessions):
    """Impressions of lists of which each is one ranker's, drawn as a whole."""
    shown = np.zeros((OFFSETS[-1], K), dtype=np.int64)
    for query in range(QUERIES):
        own = slice(OFFSETS[query], OFFSETS[query + 1])
        is_new = rng.random(sessions) < share[query]
        scores = np.where(is_new[:, None], new[own], old[own])
        noise = 0 if "sorted" in kind else rng.gumbel(size=scores.shape)
        lists = np.argsort(-(scores + noise), axis=1)[:, :K]
        np.add.at(shown[own], (lists, np.arange(K)), 1)
    return shown


def z_of_log(kind, sessions, seed, unrecorded_share=None):
    """The lean of a log towards its new ranker; `unrecorded_share` served it without a record."""
    old, new, share, table = world(kind, seed)
    if unrecorded_share is not None:
        share = np.full(QUERIES, unrecorded_share)
    rng = np.random.default_rng([seed, 2])
    judged = sessions // 5
    parts = [served(rng, kind, old, new, share, n) for n in (judged, sessions - judged)]
    recorded = np.where(parts[0] + parts[1] > 0, table, 0.0)
    counts = Counts(OFFSETS, parts[0], 0 * parts[0], np.full(QUERIES, judged))
    policy = ProductionPolicy.recorded(recorded, OFFSETS)
    return leaning(counts, policy, new, np.full(QUERIES, sessions))


def alarms(kind, sessions, logs, **options):
    found = [z_of_log(kind, sessions, seed, **options) for seed in range(logs)]
    return float(np.mean(np.array(found) > norm.isf(LEVEL)))


@pytest.mark.parametrize("kind", KINDS)
def test_true_propensities_are_rarely_said_to_lean(kind):
    """Without regard to what was never shown, every small log leaned (by nine deviations)."""
    assert alarms(kind, 20, 100) <= 0.05
    assert alarms(kind, 200, 50) <= 0.06


def test_propensities_of_another_policy_are_found_to_lean():
    assert alarms("sampled", 100, 30, unrecorded_share=0.3) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_true_propensities_lean_as_rarely_as_said(kind):
    rates = {sessions: alarms(kind, sessions, 2000) for sessions in (10, 50, 500)}
    print(kind, rates)
    assert max(rates.values()) <= 0.02


@pytest.mark.slow
def test_how_much_another_policy_must_serve_to_be_found():
    shares = (0.05, 0.1, 0.2, 0.4)
    power = {
        (sessions, share): alarms("sampled", sessions, 200, unrecorded_share=share)
        for sessions, share in itertools.product((50, 250), shares)
    }
    print(power)
    assert power[250, 0.2] >= 0.95


def test_moments_given_that_something_was_shown_are_those_of_enumeration():
    part, trials, chance = 2, 5, 0.3
    weights, values = [], []
    for outcome in itertools.product((0, 1), repeat=trials):
        if any(outcome):
            ones = sum(outcome)
            weights.append(chance**ones * (1 - chance) ** (trials - ones))
            values.append(sum(outcome[:part]))
    total = math.fsum(weights)
    mean = math.fsum(w * x for w, x in zip(weights, values, strict=True)) / total
    square = math.fsum(w * x * x for w, x in zip(weights, values, strict=True)) / total
    found = moments_if_seen(*(np.array([float(x)]) for x in (part, trials, chance)))
    np.testing.assert_allclose([found[0][0], found[1][0]], [mean, square - mean**2], rtol=1e-12)
