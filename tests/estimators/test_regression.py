import numpy as np
import pytest
from scipy.special import expit

from saferank.clicks import position_bias, trust_bias
from saferank.counts import Counts
from saferank.estimators import Evidence
from saferank.estimators.propensities import from_log
from saferank.estimators.regression import LOSSES


def evidence(seed=0, documents=6):
    rng = np.random.default_rng(seed)
    shown = rng.integers(0, 30, (documents, 5))
    offsets = [0, documents // 2, documents]
    counts = Counts(offsets, shown, rng.binomial(shown, 0.5))
    users = trust_bias()
    return Evidence(counts, users, from_log(counts, users, users.alpha + users.beta))


@pytest.mark.parametrize("loss", LOSSES)
def test_slope_is_the_derivative_of_the_value(loss):
    judge = LOSSES[loss](evidence())
    logits, step = np.random.default_rng(1).normal(size=6), 1e-6
    everything = slice(None)
    rise = judge(logits + step, everything).value - judge(logits - step, everything).value
    assert judge(logits, everything).slope == pytest.approx(rise / (2 * step), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_pick_documents(loss):
    judge = LOSSES[loss](evidence())
    logits, rows = np.linspace(-2, 2, 6), np.array([4, 1])
    whole = judge(logits, slice(None))
    some = judge(logits[rows], rows)
    assert some.value == pytest.approx(whole.value[rows])
    assert some.slope == pytest.approx(whole.slope[rows])


@pytest.mark.parametrize("loss", ["likelihood", "cross-entropy"])
def test_expected_slope_is_zero_at_the_true_relevance(loss):
    users, truth = trust_bias(), np.array([0.2, 0.9])
    shown = np.array([[400, 300, 200, 100, 0], [0, 100, 200, 300, 400]]) * 1000
    clicks = np.rint(shown * (truth[:, None] * users.alpha + users.beta)).astype(np.int64)
    counts = Counts([0, 2], shown, clicks)
    known = Evidence(counts, users, from_log(counts, users, users.alpha))
    logits = np.log(truth / (1 - truth))
    slope = LOSSES[loss](known)(logits, slice(None)).slope
    assert slope / counts.total == pytest.approx(0, abs=1e-5)
    assert expit(logits) == pytest.approx(truth)


def test_the_prior_adds_a_thousandth_of_the_sessions_without_relevance():
    users = position_bias(1)
    counts = Counts([0, 3], np.array([[1000], [500], [0]]), np.array([[300], [499], [0]]))
    assert users.alpha[0] == 1
    judge = LOSSES["posterior"](Evidence(counts, users, from_log(counts, users, users.alpha)))
    # where a click is relevance, the most likely one is clicks over impressions, the prior's too
    most_likely = np.array([300 / (1000 + 1.5), 499 / (500 + 1.5)])
    logits = np.append(np.log(most_likely / (1 - most_likely)), 0.0)
    slope = judge(logits, slice(None)).slope
    assert counts.total == 1500
    assert slope == pytest.approx([0, 0, -0.75], abs=1e-9)


@pytest.mark.parametrize("loss", ["likelihood", "posterior"])
def test_likelihood_stays_finite_at_extreme_logits(loss):
    judged = LOSSES[loss](evidence())(np.array([-800.0, 800, 0, 50, -50, 1]), slice(None))
    assert np.isfinite(judged.value).all()
    assert np.isfinite(judged.slope).all()
