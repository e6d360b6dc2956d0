"""Long lists and large weights: right to the stated tolerance, or refused."""

import itertools

import numpy as np
import pytest

from saferank.errors import InputError
from saferank.plackett_luce import exposure, exposure_gradient
from saferank.plackett_luce.nodes import grid


@pytest.mark.parametrize("ranks", [5, 7_000, 8_500, 9_900])
def test_the_step_meets_the_tolerance(ranks):
    r"""The rule errs by 4 |Gamma(K + iy)| / Gamma(K) with y = 2 pi / h, here by its product.

    |Gamma(K + iy)|^2 = (pi y / sinh(pi y)) prod_{k<K} (k^2 + y^2)
    """
    for tol in (1e-6, 1e-12):
        y = 2 * np.pi / grid(tol, ranks, 0).step
        k = np.arange(1, ranks)
        sinh = np.pi * y - np.log(2) + np.log1p(-np.exp(-2 * np.pi * y))
        error = (np.log(np.pi * y) - sinh + np.log1p((y / k) ** 2).sum()) / 2
        assert np.log(4) + error <= np.log(tol) + 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [8_500])
def test_many_ranks_are_right_to_the_tolerance(ranks):
    """The last rank of n-1: a document misses it only if it is the one left out of n."""
    documents = ranks + 1
    scores = np.zeros(documents)
    scores[:2] = [1.0, -1.0]
    found = exposure(scores, np.ones(ranks), [0, documents], tol=1e-9)
    # P(last of all n) = E[prod over the others of their coming first], by the integral in u:
    # the slowest of exponential clocks: int_0^1 prod_{j != d} (1 - u^{r_j / r_d}) du
    grid_, weight = np.polynomial.legendre.leggauss(4000)
    u, w = (grid_ + 1) / 2, weight / 2
    for d, rate in ((1, np.exp(-1.0)),):
        others = np.exp(np.delete(scores, d))
        log = np.log1p(-(u[:, None] ** (np.array([others[0], 1.0]) / rate)))
        last = w @ np.exp(log[:, 0] + (documents - 2) * log[:, 1])
        assert found[d] == pytest.approx(1 - last, abs=1e-7)
    assert found.sum() == pytest.approx(ranks, rel=1e-9)


def test_more_ranks_than_the_tolerance_allows_are_refused():
    with pytest.raises(InputError, match="fewer ranks"):
        grid(1e-13, 10**6, 0)


@pytest.mark.parametrize("bad", [1e308, np.inf, np.nan, -1e200])
def test_weights_whose_sums_are_no_numbers_are_refused(bad):
    weights = np.array([1.0, bad, 0.5])
    with pytest.raises(InputError, match=r"`weights` must be finite .* at position 1"):
        exposure(np.zeros(10), weights, [0, 10])
    with pytest.raises(InputError, match="`weights` must be finite"):
        exposure_gradient(np.zeros(10), weights, [0, 10], np.ones(10))


@pytest.mark.parametrize("documents", [1, 2, 7, 24])
def test_ranks_that_no_document_can_have_change_no_bit(documents):
    rng = np.random.default_rng(documents)
    scores, slope = rng.normal(size=documents), rng.normal(size=documents)
    weights, cuts = rng.uniform(size=500), [0, documents]
    own = weights[:documents]
    expected = exposure(scores, own, cuts)
    np.testing.assert_array_equal(exposure(scores, weights, cuts), expected)
    expected = exposure_gradient(scores, own, cuts, slope)
    np.testing.assert_array_equal(exposure_gradient(scores, weights, cuts, slope), expected)


def test_a_query_is_computed_alike_beside_longer_and_shorter_ones():
    """States, chunks and grids are those of the query's own, whatever the space was used for."""
    rng = np.random.default_rng(0)
    cuts = np.r_[0, np.cumsum([1500, 3, 1, 40, 2, 701, 24])]
    scores, slope = 3 * rng.normal(size=(2, cuts[-1]))
    weights = rng.uniform(-1, 1, size=60)
    omega = exposure(scores, weights, cuts)
    gradient = exposure_gradient(scores, weights, cuts, slope)
    for first, last in itertools.pairwise(cuts):
        own, ends = scores[first:last], [0, last - first]
        np.testing.assert_array_equal(omega[first:last], exposure(own, weights, ends))
        alone = exposure_gradient(own, weights, ends, slope[first:last])
        np.testing.assert_array_equal(gradient[first:last], alone)


@pytest.mark.parametrize("ranks", [1, 2, 3, 8, 150])
def test_chunks_of_a_long_query_meet(ranks):
    """Long enough for several chunks, odd, so that the last pair has one document."""
    rng = np.random.default_rng(ranks)
    scores, slope, weights = rng.normal(size=2501), rng.normal(size=2501), rng.uniform(size=ranks)
    order = rng.permutation(2501)  # other neighbours, other chunks
    cuts = [0, 2501]
    omega = exposure(scores, weights, cuts)
    np.testing.assert_allclose(exposure(scores[order], weights, cuts), omega[order], atol=1e-13)
    gradient = exposure_gradient(scores, weights, cuts, slope)
    permuted = exposure_gradient(scores[order], weights, cuts, slope[order])
    np.testing.assert_allclose(permuted, gradient[order], atol=1e-12)
