"""Unbiasedness by exact expectation over every ranking and every click of a session."""

import numpy as np
import pytest
import worlds
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from saferank.clicks import ClickModel, trust_bias
from saferank.counts import Counts
from saferank.errors import InputError
from saferank.estimators import ESTIMATORS, Evidence, Propensities
from saferank.estimators.propensities import exact, from_log

POSITION = ClickModel([0.9, 0.5], [0.0, 0.0])
TRUST = ClickModel([0.35, 0.53], [0.65, 0.26])
SCORES = [0.3, -0.5, 1.2]
RELEVANCE = np.array([0.25, 1.0, 0.5])


def moments(gain, users, predictions=None, scores=SCORES, relevance=RELEVANCE, rho=None):
    """Mean and variance of the gains over one session, by enumeration."""
    offsets = [0, len(scores)]
    known = exact(scores, offsets, users, users.alpha + users.beta)
    if rho is not None:
        known = Propensities(np.asarray(rho), known.omega, known.seen)
    first = second = 0.0
    for n, c, probability in worlds.sessions(scores, relevance, users.alpha, users.beta):
        evidence = Evidence(Counts(offsets, n, c, [1]), users, known, predictions)
        value = ESTIMATORS[gain].documents(evidence)
        first, second = first + probability * value, second + probability * value**2
    return first, second - first**2


@pytest.mark.parametrize(
    ("gain", "users"),
    [
        ("ips", POSITION),
        ("affine-ips", POSITION),
        ("affine-ips", TRUST),
        ("dr", POSITION),
        ("dr", TRUST),
        ("evidence-dr", POSITION),
        ("evidence-dr", TRUST),
    ],
)
def test_unbiased_under_top_k(gain, users):
    for predictions in (np.zeros(3), np.array([0.9, 0.1, 0.4])):
        mean, _ = moments(gain, users, predictions)
        assert mean == pytest.approx(RELEVANCE, abs=1e-9)


@pytest.mark.parametrize("gain", ["naive", "bayes-ips", "ips"])
def test_the_baselines_are_biased_under_trust_bias(gain):
    mean, _ = moments(gain, TRUST)
    assert np.abs(mean - RELEVANCE).max() > 0.05


def test_bayes_ips_is_ips_without_trust_bias():
    users = ClickModel([0.9, 0.5], [0.0, 0.0])
    assert moments("bayes-ips", users)[0] == pytest.approx(moments("ips", users)[0])


def test_doubly_robust_survives_either_being_wrong():
    wrong_rho = [0.9, 0.2, 0.7]
    right_predictions, _ = moments("dr", TRUST, RELEVANCE, rho=wrong_rho)
    # with the right predictions the correction has mean 0, whatever it is divided by
    assert right_predictions == pytest.approx(RELEVANCE, abs=1e-9)
    right_propensities, _ = moments("dr", TRUST, np.array([1.0, 0.0, 0.0]))
    assert right_propensities == pytest.approx(RELEVANCE, abs=1e-9)
    both_wrong, _ = moments("dr", TRUST, np.array([1.0, 0.0, 0.0]), rho=wrong_rho)
    assert np.abs(both_wrong - RELEVANCE).max() > 0.05


@settings(max_examples=25)
@given(
    scores=st.lists(st.floats(-2, 2), min_size=2, max_size=4),
    relevance=st.lists(st.floats(0.05, 1), min_size=4, max_size=4),
    factor=st.floats(0, 1.99),
)
def test_dr_has_less_variance_than_ips_with_predictions_below_twice_the_truth(
    scores, relevance, factor
):
    truth = np.array(relevance[: len(scores)])
    _, ips = moments("affine-ips", TRUST, scores=scores, relevance=truth)
    _, dr = moments("dr", TRUST, factor * truth, scores=scores, relevance=truth)
    assert (dr <= ips + 1e-9).all()


def test_never_shown_documents():
    users = trust_bias()
    counts = Counts([0, 2], [[3, 0, 0, 0, 0], [0] * 5], [[1, 0, 0, 0, 0], [0] * 5])
    known = from_log(counts, users, users.alpha + users.beta)
    assert known.rho == pytest.approx([0.35, 0])
    assert known.omega == pytest.approx([1.0, 0])
    predictions = np.array([0.5, 0.7])
    evidence = Evidence(counts, users, known, predictions)
    assert ESTIMATORS["affine-ips"].documents(evidence)[1] == 0
    assert ESTIMATORS["dr"].documents(evidence)[1] == 0.7
    assert ESTIMATORS["click-model"].documents(evidence)[1] == pytest.approx(0.5)


@given(st.integers(1, 10**6), st.integers(1, 1000))
def test_the_regression_is_trusted_as_far_as_impressions_warrant(sessions, features):
    """Between IPS, without any, and DR, with many; in their proportion where DR is linear."""
    users = trust_bias()
    counts = Counts([0, 2], [[sessions, 0, 0, 0, 0], [0] * 5], [[0] * 5, [0] * 5], [sessions])
    known = from_log(counts, users, users.alpha + users.beta)
    evidence = Evidence(counts, users, known, np.array([0.5, 0.7]), features=features)
    low, middle, high = (
        ESTIMATORS[name].documents(evidence) for name in ("affine-ips", "evidence-dr", "dr")
    )
    trust = sessions / (sessions + 100 * features)
    assert middle == pytest.approx((1 - trust) * low + trust * high)
    assert middle[1] == pytest.approx(trust * 0.7)


def test_clipping_touches_propensities_and_not_the_metric():
    known = Propensities(np.array([0.001, 0.5]), np.array([0.002, 0.9]), np.array([0.002, 0.9]))
    clipped = known.clipped(10_000)
    assert clipped.rho == pytest.approx([0.1, 0.5])
    assert clipped.omega is known.omega


@given(st.integers(0, 2**32))
def test_click_model_gain_is_the_most_likely_relevance(seed):
    rng = np.random.default_rng(seed)
    users = trust_bias()
    shown = rng.integers(0, 50, (1, 5))
    clicks = rng.binomial(shown, 0.4)
    sessions = shown.max(initial=1)
    counts = Counts([0, 1], shown, clicks, [max(int(sessions), 1)])
    known = Propensities(np.ones(1), np.ones(1), np.ones(1))
    ours = ESTIMATORS["click-model"].documents(Evidence(counts, users, known))[0]

    def loss(r):
        p = np.clip(users.alpha * r + users.beta, 1e-12, 1 - 1e-12)
        data = (clicks * np.log(p) + (shown - clicks) * np.log(1 - p)).sum()
        return -(data + np.log(r) + np.log(1 - r))

    best = minimize_scalar(loss, bounds=(1e-9, 1 - 1e-9), method="bounded", options={"xatol": 1e-9})
    assert loss(ours) <= best.fun + 1e-6


def test_predictions_are_asked_for():
    counts = Counts.zeros([0, 1], 5)
    known = Propensities(np.ones(1), np.ones(1), np.ones(1))
    with pytest.raises(InputError, match="`predictions` must be there"):
        ESTIMATORS["dr"].documents(Evidence(counts, trust_bias(), known))
    with pytest.raises(InputError, match=r"`click_model` must be of 5 ranks; got 2\."):
        Evidence(counts, TRUST, known)
