"""The compiled binomial sampler against SciPy's distribution."""

import numpy as np
import pytest
from scipy import stats

from saferank._core.chance.binomial import _log_ratio, _stirling, binomial
from saferank._core.chance.streams import after, stream, uniform
from saferank._core.flat import Ints
from saferank._core.kernels import kernel


@kernel
def many(n: int, p: float, size: int, state: np.uint64) -> Ints:
    out = np.empty(size, dtype=np.int64)
    for index in range(size):
        out[index], state = binomial(n, p, state)
    return out


CASES = [
    (1, 0.3), (5, 0.5), (8, 0.9), (9, 0.01), (20, 0.1), (50, 0.9), (100, 0.099), (100, 0.101),
    (40, 0.25), (1000, 0.5), (10**6, 0.3), (10**9, 1e-9), (10**9, 1e-5), (10**12, 0.25),
    (10**15, 1 - 1e-12),
]  # fmt: skip


@pytest.mark.parametrize(("n", "p"), CASES)
def test_follows_the_binomial_distribution(n: int, p: float) -> None:
    drawn = many(n, p, 200_000, stream(7, "test", n, p))
    law = stats.binom(n, p)
    assert drawn.min() >= 0
    assert drawn.max() <= n
    inner = np.unique(law.ppf(np.linspace(0.005, 0.995, 50)))
    cells = np.concatenate([law.cdf(inner[:1]), np.diff(law.cdf(inner)), law.sf(inner[-1:])])
    found = np.histogram(drawn, bins=np.concatenate([[-1.0], inner, [float(n) + 1]]) + 0.5)[0]
    expected = cells * drawn.size
    keep = expected >= 5
    found_, expected_ = found[keep].astype(float), expected[keep]
    rest = expected[~keep].sum()
    statistic = ((found_ - expected_) ** 2 / expected_).sum()
    assert found[~keep].sum() <= rest + 6 * np.sqrt(rest + 1)
    assert stats.chi2.sf(statistic, max(1, found_.size - 1)) > 1e-4


def test_mean_and_spread_for_many_trials() -> None:
    n, p = 10**15, 0.37
    drawn = many(n, p, 100_000, stream(0, "large"))
    z = (drawn - n * p) / np.sqrt(n * p * (1 - p))
    assert abs(z.mean()) < 4 / np.sqrt(z.size)
    assert abs(z.var() - 1) < 4 * np.sqrt(2 / z.size)


@pytest.mark.parametrize(("n", "p", "value"), [(0, 0.5, 0), (7, 0.0, 0), (7, 1.0, 7), (-3, 0.5, 0)])
def test_certain_numbers_use_no_chance(n: int, p: float, value: int) -> None:
    assert binomial(n, p, np.uint64(3)) == (value, np.uint64(3))


@pytest.mark.parametrize(("n", "p", "k"), [(40, 0.3, 5), (1000, 0.5, 530), (10**6, 0.01, 10_150)])
def test_log_ratio_is_that_of_the_probabilities(n: int, p: float, k: int) -> None:
    mode = int((n + 1) * p)
    expected = stats.binom(n, p).logpmf(k) - stats.binom(n, p).logpmf(mode)
    assert _log_ratio(n, p, float(k)) == pytest.approx(expected, abs=1e-7)


def test_stirling_series_meets_the_exact_part() -> None:
    from scipy.special import gammaln

    for k in (0.0, 9.0, 10.0, 100.0):
        formula = (k + 0.5) * np.log(k + 1) - (k + 1) + 0.5 * np.log(2 * np.pi)
        assert _stirling(k) == pytest.approx(gammaln(k + 1) - formula, abs=1e-9)


def test_uniform_numbers_are_uniform() -> None:
    state = stream(1, "uniform")
    numbers = []
    for _ in range(20_000):
        state = after(np.uint64(state))
        numbers.append(uniform(np.uint64(state)))
    assert stats.kstest(numbers, "uniform").pvalue > 1e-3
