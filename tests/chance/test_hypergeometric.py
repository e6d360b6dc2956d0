"""The compiled hypergeometric sampler against SciPy's distribution and the known moments."""

import math

import numpy as np
import pytest
from scipy import stats

from saferank._core.chance import hypergeometric, stream
from saferank._core.flat import Ints
from saferank._core.kernels import kernel


@kernel
def many(good: int, bad: int, drawn: int, size: int, state: np.uint64) -> Ints:
    out = np.empty(size, dtype=np.int64)
    for index in range(size):
        out[index], state = hypergeometric(good, bad, drawn, state)
    return out


CASES = [
    (1, 1, 1), (3, 5, 2), (5, 3, 7), (20, 30, 10), (30, 20, 40), (13, 400, 13), (400, 13, 200),
    (1000, 1000, 1000), (50, 10**6, 10**5), (10**6, 50, 10**6), (10**4, 3 * 10**4, 2 * 10**4),
]  # fmt: skip


@pytest.mark.parametrize(("good", "bad", "drawn"), CASES)
def test_follows_the_hypergeometric_distribution(good: int, bad: int, drawn: int) -> None:
    found = many(good, bad, drawn, 100_000, stream(3, "test", good, bad, drawn))
    law = stats.hypergeom(good + bad, good, drawn)
    assert found.min() >= max(0, drawn - bad)
    assert found.max() <= min(good, drawn)
    inner = np.unique(law.ppf(np.linspace(0.01, 0.99, 40)))
    cells = np.concatenate([law.cdf(inner[:1]), np.diff(law.cdf(inner)), law.sf(inner[-1:])])
    numbers = np.histogram(found, bins=np.concatenate([[-1.0], inner, [drawn + 1.0]]) + 0.5)[0]
    keep = cells * found.size >= 5
    expected = cells[keep] * found.size
    statistic = ((numbers[keep] - expected) ** 2 / expected).sum()
    assert numbers[~keep].sum() <= 60
    assert stats.chi2.sf(statistic, max(1, expected.size - 1)) > 1e-4


@pytest.mark.parametrize(
    ("good", "bad", "drawn"),
    [(10**9, 3 * 10**9, 10**9), (10**12, 10**13, 2 * 10**12), (10**15, 10**15, 10**14),
     (7, 10**15, 10**14), (10**15, 10**6, 5 * 10**14)],
)  # fmt: skip
def test_mean_and_spread_of_large_counts(good: int, bad: int, drawn: int) -> None:
    total = good + bad
    found = many(good, bad, drawn, 50_000, stream(0, "large", good))
    share = good / total
    variance = drawn * share * (bad / total) * ((total - drawn) / (total - 1))
    z = (found - drawn * share) / math.sqrt(variance)
    assert abs(z.mean()) < 4 / math.sqrt(z.size)
    kurtosis = stats.hypergeom.stats(total, good, drawn, moments="k")
    assert abs(z.var() - 1) < 4 * math.sqrt((2 + max(0.0, float(kurtosis))) / z.size)


@pytest.mark.parametrize(
    ("good", "bad", "drawn", "value"),
    [(0, 5, 3, 0), (5, 0, 3, 3), (5, 5, 0, 0), (5, 3, 8, 5), (0, 0, 0, 0), (5, 0, 9, 5)],
)
def test_certain_numbers_use_no_chance(good: int, bad: int, drawn: int, value: int) -> None:
    assert hypergeometric(good, bad, drawn, np.uint64(3)) == (value, np.uint64(3))
