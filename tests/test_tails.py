import numpy as np
import pytest
from scipy import stats

from saferank._core import tails


@pytest.mark.parametrize("value", [-8.0, -0.5, 0.0, 1.96, 8.0])
def test_tails_are_those_of_scipy(value):
    assert tails.normal_tail(value) == pytest.approx(stats.norm.sf(value), rel=1e-12)
    for freedom in (1, 4.5, 200):
        expected = stats.t.sf(value, freedom)
        assert tails.student_tail(value, freedom) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("tail", [1e-12, 0.01, 0.3, 0.99])
def test_quantiles_are_those_of_scipy(tail):
    assert tails.normal_quantile(tail) == pytest.approx(stats.norm.isf(tail), rel=1e-10)
    for freedom in (1, 19):
        student, square = stats.t.isf(tail, freedom), stats.chi2.isf(tail, freedom)
        assert tails.student_quantile(tail, freedom) == pytest.approx(student, rel=1e-8)
        assert tails.chi_square_quantile(tail, freedom) == pytest.approx(square, rel=1e-8)


@pytest.mark.parametrize("chance", [0.0, 1e-9, 0.2, 0.65, 1.0])
@pytest.mark.parametrize("trials", [0, 1, 7, 10**6])
def test_counts_are_as_likely_as_scipy_says(trials, chance):
    count = np.unique(np.round(np.linspace(0, trials, 8)))
    few, many = stats.binom.cdf(count, trials, chance), stats.binom.sf(count - 1, trials, chance)
    n = np.full(count.size, float(trials))
    np.testing.assert_allclose(
        tails.binomial_at_most(count, n, chance), few, rtol=1e-8, atol=1e-300
    )
    np.testing.assert_allclose(
        tails.binomial_at_least(count, n, chance), many, rtol=1e-8, atol=1e-300
    )
