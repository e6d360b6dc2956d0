"""Laws of exposures, for scores and weights that Hypothesis comes up with."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from plackett_luce_oracle import central_differences, enumerated_exposure

from saferank.plackett_luce import exposure, exposure_gradient, rank_probabilities

ordinary = settings(deadline=None, max_examples=60)


def floats(bound):
    return st.floats(-bound, bound, allow_subnormal=False)


@st.composite
def queries(draw, most=40, bound=60.0):
    """Scores of one query, equal ones included."""
    documents = draw(st.integers(1, most))
    return draw(arrays(np.float64, documents, elements=floats(bound)))


def weights(most=8, lowest=-1.0):
    elements = st.floats(lowest, 1.0, allow_subnormal=False)
    return arrays(np.float64, st.integers(1, most), elements=elements)


@st.composite
def falling(draw):
    """Weights that never rise with the rank."""
    return np.sort(draw(weights(lowest=0.0)))[::-1].copy()


@given(queries(), weights())
@ordinary
def test_exposures_sum_to_the_weights_of_the_ranks_there_are(scores, w):
    total = exposure(scores, w, [0, scores.size]).sum()
    np.testing.assert_allclose(total, w[: scores.size].sum(), rtol=0, atol=1e-10 * scores.size)


@given(queries(), falling(), st.data())
@ordinary
def test_a_higher_score_never_lowers_its_own_exposure(scores, w, data):
    chosen = data.draw(st.integers(0, scores.size - 1))
    raised = scores.copy()
    raised[chosen] += data.draw(st.floats(0, 30))
    before, after = (exposure(s, w, [0, scores.size]) for s in (scores, raised))
    assert after[chosen] >= before[chosen] - 2e-10
    others = np.arange(scores.size) != chosen
    assert np.all(after[others] <= before[others] + 2e-10)


@given(queries(), falling())
@ordinary
def test_higher_scores_have_higher_exposures(scores, w):
    omega = exposure(scores, w, [0, scores.size])
    assert np.all(np.diff(omega[np.argsort(scores)]) >= -2e-10)


@given(queries(), weights(), floats(1e4))
@ordinary
def test_a_shift_of_all_scores_changes_nothing(scores, w, shift):
    shifted = scores + shift
    omega = exposure(shifted - shift, w, [0, scores.size])  # the same rounding of the scores
    np.testing.assert_allclose(exposure(shifted, w, [0, scores.size]), omega, rtol=0, atol=2e-10)


@given(queries(), weights(), st.randoms(use_true_random=False))
@ordinary
def test_permuted_documents_have_permuted_exposures(scores, w, random):
    order = np.array(random.sample(range(scores.size), scores.size))
    cuts, slope = [0, scores.size], np.sin(np.arange(scores.size))
    omega, gradient = exposure(scores, w, cuts), exposure_gradient(scores, w, cuts, slope)
    np.testing.assert_allclose(exposure(scores[order], w, cuts), omega[order], rtol=0, atol=1e-13)
    permuted = exposure_gradient(scores[order], w, cuts, slope[order])
    np.testing.assert_allclose(permuted, gradient[order], rtol=0, atol=1e-12)


@given(queries(), weights(), weights(), floats(3.0))
@ordinary
def test_exposure_is_linear_in_the_weights(scores, one, other, factor):
    k, cuts = max(one.size, other.size), [0, scores.size]
    one, other = np.pad(one, (0, k - one.size)), np.pad(other, (0, k - other.size))
    mixed = exposure(scores, one + factor * other, cuts)
    parts = exposure(scores, one, cuts) + factor * exposure(scores, other, cuts)
    np.testing.assert_allclose(mixed, parts, rtol=0, atol=1e-9)


@given(queries(most=5, bound=40.0), weights(most=6))
@ordinary
def test_exposure_is_that_of_all_rankings(scores, w):
    expected = enumerated_exposure(scores, w)
    got = exposure(scores, w, [0, scores.size])
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-10)


@given(queries(most=5, bound=12.0), weights(most=6), st.data())
@settings(deadline=None, max_examples=30)
def test_gradient_is_that_of_differences(scores, w, data):
    slope = data.draw(arrays(np.float64, scores.size, elements=floats(1.0)))
    expected = central_differences(lambda s: slope @ enumerated_exposure(s, w), scores)
    got = exposure_gradient(scores, w, [0, scores.size], slope)
    np.testing.assert_allclose(got, expected, rtol=0, atol=5e-9)


@given(queries(), weights(), st.data())
@ordinary
def test_the_gradient_sums_to_zero_and_ignores_a_constant_slope(scores, w, data):
    slope = data.draw(arrays(np.float64, scores.size, elements=floats(1.0)))
    cuts = [0, scores.size]
    gradient = exposure_gradient(scores, w, cuts, slope)
    np.testing.assert_allclose(gradient.sum(), 0, atol=1e-9 * scores.size)
    shifted = exposure_gradient(scores, w, cuts, slope + 5.0)
    np.testing.assert_allclose(shifted, gradient, rtol=0, atol=1e-12)


@given(queries(most=20), st.integers(1, 6))
@ordinary
def test_ranks_are_a_doubly_stochastic_table(scores, k):
    table = rank_probabilities(scores, k, [0, scores.size])
    np.testing.assert_allclose(table[:, : scores.size].sum(axis=0), 1, atol=1e-8)
    assert np.all(table.sum(axis=1) <= 1 + 1e-9)
    assert np.all(table >= 0)
