"""What production does: kinds of policy, and how the log tells which."""

import numpy as np
import pytest
from scipy.stats import binomtest

from saferank.clicks import simulate, trust_bias
from saferank.counts import Counts
from saferank.data import synthetic
from saferank.errors import InputError
from saferank.policies import ProductionPolicy, choose_production

DATA = synthetic("small", queries=120, seed=0).train
USERS = trust_bias()
SCORES = 1.5 * np.random.default_rng(0).normal(size=DATA.documents)


def noisy_sort(sessions, noise, seed=0):
    """A shop that sorts by score plus normal noise, by plain loops."""
    rng = np.random.default_rng(seed)
    impressions = np.zeros((DATA.documents, 5), dtype=np.int64)
    seen = np.zeros(DATA.queries, dtype=np.int64)
    for query in rng.integers(0, DATA.queries, sessions):
        first, last = DATA.offsets[query : query + 2]
        order = np.argsort(-(SCORES[first:last] + noise * rng.normal(size=last - first)))[:5]
        impressions[first + order, np.arange(order.size)] += 1
        seen[query] += 1
    return Counts(DATA.offsets, impressions, np.zeros_like(impressions), seen)


@pytest.mark.parametrize("temperature", [0.2, 0.7, 1.0, 2.0])
@pytest.mark.parametrize("sessions", [500, 20_000])
def test_a_sampled_log_is_known_with_its_temperature(temperature, sessions):
    counts = simulate(DATA, SCORES, USERS, sessions, 1, temperature=temperature)
    policy, fit = choose_production(counts, SCORES)
    assert fit.kind == "sampled"
    assert fit.fits
    low, high = fit.temperature_interval
    assert low / 1.1 < temperature < high * 1.1
    np.testing.assert_allclose(policy.scores, SCORES / fit.temperature)


def test_a_sorted_log_a_noisy_one_and_a_uniform_one():
    fixed = simulate(DATA, SCORES, USERS, 3000, 1, deterministic=True)
    assert choose_production(fixed, SCORES)[1].kind == "sorted"
    assert choose_production(noisy_sort(20_000, 0.5), SCORES)[1].kind == "observed"
    flat = simulate(DATA, 0 * SCORES, USERS, 20_000, 1)
    assert choose_production(flat)[1].kind == "uniform"
    assert choose_production(noisy_sort(5000, 0.5))[1].kind == "observed"


def test_one_test_in_a_hundred_errs():
    wrong = 0
    for seed in range(60):
        counts = simulate(DATA, SCORES, USERS, 2000, seed)
        wrong += choose_production(counts, SCORES)[1].kind != "sampled"
    # two tests at 1 % each
    assert binomtest(wrong, 60, 0.02, alternative="greater").pvalue > 1e-3


def test_insisting_on_a_kind_does_not_silence_the_log():
    counts = noisy_sort(20_000, 0.5)
    for kind in ("sampled", "sorted", "uniform"):
        fit = choose_production(counts, SCORES, kind)[1]
        assert fit.asked_for
        assert fit.fits is False
    with pytest.raises(InputError, match="one of"):
        choose_production(counts, SCORES, "guessed")
    with pytest.raises(InputError, match="scores"):
        choose_production(counts, None, "sorted")


def test_exposures_are_rank_probabilities_times_weights():
    weights = np.array([1.0, 0.6, 0.4, 0.3, 0.2])
    counts = noisy_sort(2000, 0.5)
    policies = [
        ProductionPolicy.sampled(SCORES, DATA.offsets, 0.5),
        ProductionPolicy.sorted(SCORES, DATA.offsets),
        ProductionPolicy.uniform(DATA.offsets),
        ProductionPolicy.observed(counts),
    ]
    chosen = np.array([3, 1, 7])
    for policy in policies:
        table = policy.rank_probabilities(5)
        np.testing.assert_allclose(policy.exposure(weights), table @ weights, atol=1e-8)
        some = policy.subset(chosen)
        rows = np.concatenate([np.arange(DATA.offsets[q], DATA.offsets[q + 1]) for q in chosen])
        np.testing.assert_allclose(some.exposure(weights), (table @ weights)[rows], atol=1e-8)


def test_observed_exposures_lie_within_the_shortfall_that_is_allowed_for():
    weights = USERS.exposure_weights
    truth = ProductionPolicy.sampled(SCORES, DATA.offsets).exposure(weights)
    broken = 0
    for seed in range(40):
        counts = simulate(DATA, SCORES, USERS, 5000, seed)
        seen = ProductionPolicy.observed(counts)
        missing = np.maximum(truth - seen.exposure(weights), 0.0)
        below = np.add.reduceat(missing, DATA.offsets[:-1])
        broken += bool(np.any(below > seen.shortfall(weights, 0.05)))
    assert broken <= 4
