"""Counts that are left out because they are unlikely: exposures of many ranks by a plain route."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saferank.metrics import dcg_weights
from saferank.plackett_luce import bands, exposure, exposure_gradient


def plain_exposure(scores, weights, nodes=1500):
    """The race at many times: chances of each number of arrivals among the others, one by one."""
    rates = np.exp(scores - scores.max())
    log_time = np.linspace(-30 - np.log(rates.sum()), 8 - np.log(rates.min()), nodes)
    omega = np.zeros(scores.size)
    x = np.exp(log_time[:, None]) * rates
    q, p = np.exp(-x), -np.expm1(-x)
    for d in range(scores.size):
        counts = np.zeros((nodes, scores.size))
        counts[:, 0] = 1
        for other in range(scores.size):
            if other != d:
                moved = np.pad(counts[:, :-1], ((0, 0), (1, 0)))
                counts = q[:, [other]] * counts + p[:, [other]] * moved
        at_rank = counts[:, : weights.size] @ weights[: scores.size]
        omega[d] = np.trapezoid(x[:, d] * q[:, d] * at_rank, log_time)
    return omega


@pytest.mark.parametrize("k", [7, 17, 18, 30])
@pytest.mark.parametrize("spread", [0.0, 1.0, 4.0])
def test_many_ranks_are_those_of_a_plain_race(k, spread):
    rng = np.random.default_rng(k)
    scores = spread * rng.normal(size=18)
    weights = rng.uniform(-1, 1, size=k)
    found = exposure(scores, weights, [0, 18])
    np.testing.assert_allclose(found, plain_exposure(scores, weights), rtol=0, atol=1e-9)


@pytest.mark.parametrize("k", [12, 38, 40])
def test_gradient_of_many_ranks_is_that_of_differences(k):
    rng = np.random.default_rng(k)
    scores, slope, weights = rng.normal(size=40), rng.normal(size=40), dcg_weights(k)
    step = 1e-4

    def value(moved):
        return slope @ exposure(moved, weights, [0, 40], tol=1e-13)

    steps = step * np.eye(40)
    wanted = [(value(scores + e) - value(scores - e)) / (2 * step) for e in steps]
    found = exposure_gradient(scores, weights, [0, 40], slope)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-7)


@given(
    st.lists(st.floats(-8, 8), min_size=8, max_size=40),
    st.floats(0, 2),
    st.floats(1e-12, 1e-3),
    st.data(),
)
def test_what_is_left_out_is_less_likely_than_the_tolerance(log_rates, half, tolerance, data):
    documents = len(log_rates)
    ranks = data.draw(st.integers(7, documents))
    rates = np.zeros(-(-documents // 8) * 8)
    rates[:documents] = np.exp(log_rates)
    counts, missing = bands.band(rates, documents, half, ranks, tolerance)
    assert 0 <= counts <= documents
    for time in np.exp([-half, 0.0, half]):
        there = _number_there(1 - np.exp(-rates[:documents] * time))
        if counts == 0:
            assert there[: ranks + 1].sum() <= tolerance
        elif missing:
            assert there[::-1][counts:].sum() <= tolerance
        elif counts < ranks:
            assert there[counts:].sum() <= tolerance


def _number_there(chances):
    """P(0, 1, 2, ... of them), one after another."""
    there = np.ones(1)
    for chance in chances:
        there = np.append(there * (1 - chance), 0) + np.append(0, there * chance)
    return there


@given(st.floats(0, 300), st.integers(1, 400), st.floats(1, 60))
def test_as_few_counts_as_the_bound_allows(mean, most, tail):
    def unlikely(count):
        return count * np.log(count / mean) - count + mean if mean > 0 else np.inf

    above = [count for count in range(int(mean) + 1, most) if unlikely(count) >= tail]
    assert bands._counts_up_to(mean, most, tail) == min([*above, most])
