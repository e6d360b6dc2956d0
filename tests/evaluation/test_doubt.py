"""A promise graded by doubt, against enumeration, another solver, and simulated users."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from worlds import exposure, rankings, sessions

import saferank as sr
from benchmarks import corners as corner_figures
from saferank._core.threads import use_threads
from saferank.clicks import ClickModel, simulate, trust_bias
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.estimators import Evidence, by_policy
from saferank.estimators.session_form import SessionScore
from saferank.evaluation import Contrast, click_weights
from saferank.evaluation.bias_set import BiasSet
from saferank.evaluation.click_weights import choose_weights
from saferank.evaluation.document_weights import Multipliers, Prospect, Sample, solve_documents
from saferank.evaluation.doubt import LOOKS, NEAR, _crossing, _Shares, doubt_curve
from saferank.evaluation.doubted_loss import DoubtedLoss
from saferank.evaluation.measuring import count_moments
from saferank.policies import ProductionPolicy

TINY = ClickModel([0.6, 0.4], [0.2, 0.1])
SCORES = np.array([0.5, 0.0, -0.3])
NEW = np.array([-1.0, 1.2, 0.1])


def one_session(n, c):
    return Counts([0, len(n)], n, c, [1])


def tiny_loss(counts, model=TINY, **options):
    """The loss of one query of three documents, from some sessions of it."""
    w = model.exposure_weights
    shown = np.zeros((3, 2))
    for ranking, chance in rankings(SCORES, 2):
        for rank, document in enumerate(ranking):
            shown[document, rank] += chance
    policy = ProductionPolicy.recorded(shown, [0, 3])
    evidence = Evidence(
        counts, model, by_policy(policy, model, w), np.array([0.2, 0.6, 0.4]), shown=shown
    )
    return DoubtedLoss(
        Contrast(exposure(NEW, w), exposure(SCORES, w), evidence), method="normal", **options
    )


def expected_bound(kappa, bias, v, relevance, true, **options):
    """The bound without its width, in expectation over every list and every click."""
    total = 0.0
    for n, c, chance in sessions(SCORES, relevance, true.alpha, true.beta):
        loss = tiny_loss(one_session(n, c), **options)
        said = loss.said(kappa, bias, v)
        trust = 0.0 if bias.per_document else loss._trust(bias, said.weights)
        total += chance * (said.scores.mean[0] + trust)
    return total


def true_loss(kappa, relevance):
    w = TINY.exposure_weights
    return float((kappa * exposure(SCORES, w) - exposure(NEW, w)) @ relevance)


def corners(bias):
    """Click models at the corners of a set, as far as they are probabilities."""
    for choice in itertools.product((0, 1), repeat=4):
        alpha = np.where(choice[:2], bias.alpha_high, bias.alpha_low)
        beta = np.where(choice[2:], bias.beta_high, bias.beta_low)
        if (alpha + beta <= 1).all():
            yield ClickModel(alpha, beta)


@pytest.mark.parametrize("per_document", [False, True])
@pytest.mark.parametrize("doubt", [0.0, 0.3])
def test_the_bound_holds_in_expectation_at_every_corner(doubt, per_document):
    bias = BiasSet.around(TINY, doubt, per_document=per_document)
    rng = np.random.default_rng(0)
    for true in list(corners(bias))[::3]:
        v, relevance = rng.normal(size=(3, 2)), rng.integers(0, 2, 3).astype(float)
        for kappa in (0.7, 1.2):
            bound = expected_bound(kappa, bias, v, relevance, true, per_document=per_document)
            assert bound >= true_loss(kappa, relevance) - 1e-12


def test_without_doubt_weights_by_exposure_leave_nothing_to_be_charged():
    bias, relevance = BiasSet.around(TINY, 0.0), np.array([0.3, 0.9, 0.1])
    loss = tiny_loss(one_session([[1, 0], [0, 1], [0, 0]], np.zeros((3, 2), int)))
    w = TINY.exposure_weights
    ratio = (1.1 * exposure(SCORES, w) - exposure(NEW, w)) / (loss.shown @ TINY.alpha)
    v = np.repeat(ratio[:, None], 2, axis=1)
    assert expected_bound(1.1, bias, v, relevance, TINY) == pytest.approx(
        true_loss(1.1, relevance), abs=1e-12
    )


def test_the_document_wise_bound_is_the_maximum_over_all_its_corners():
    bias = BiasSet.around(TINY, 0.25, per_document=True)
    v = np.array([[0.8, -0.5], [-1.1, 0.3], [0.0, 0.7]])
    loss = tiny_loss(one_session(np.zeros((3, 2), int), np.zeros((3, 2), int)), per_document=True)
    kappa, worst = 1.1, 0.0
    weighed = loss.shown * v
    for d in range(3):  # documents do not share anything: each has its own worst case
        cases = []
        for alpha in itertools.product(*zip(bias.alpha_low, bias.alpha_high, strict=True)):
            for beta in itertools.product(*zip(bias.beta_low, bias.beta_high, strict=True)):
                left = kappa * loss.omega0[d] - loss.omega[d] - weighed[d] @ alpha
                cases += [left * relevance - weighed[d] @ beta for relevance in (0.0, 1.0)]
        worst += max(cases)
    base = (loss.said(kappa, bias, v).scores.mean - (weighed * loss.expected).sum())[0]
    assert base == pytest.approx(worst, abs=1e-12)


def test_the_rank_wise_bound_is_never_below_the_maximum_over_its_corners():
    bias = BiasSet.around(TINY, 0.25)
    v = np.array([[0.8, -0.5], [-1.1, 0.3], [0.0, 0.7]])
    loss = tiny_loss(one_session(np.zeros((3, 2), int), np.zeros((3, 2), int)))
    weighed, kappa = loss.shown * v, 1.1
    cases = []
    for alpha in itertools.product(*zip(bias.alpha_low, bias.alpha_high, strict=True)):
        for beta in itertools.product(*zip(bias.beta_low, bias.beta_high, strict=True)):
            left = kappa * loss.omega0 - loss.omega - weighed @ alpha
            cases.append(np.maximum(0, left).sum() - (weighed @ beta).sum())
    base = (loss.said(kappa, bias, v).scores.mean - (weighed * loss.expected).sum())[0]
    bound = base + loss._trust(bias, loss.said(kappa, bias, v).weights)
    assert max(cases) - 1e-12 <= bound <= max(cases) + 0.1


def test_of_one_sign_the_rank_wise_bound_is_the_maximum():
    bias, loss = (
        BiasSet.around(TINY, 0.25),
        tiny_loss(one_session(np.zeros((3, 2), int), np.zeros((3, 2), int))),
    )
    v, cases = np.full((3, 2), 0.4), []
    weighed = loss.shown * v
    for alpha in itertools.product(*zip(bias.alpha_low, bias.alpha_high, strict=True)):
        for beta in itertools.product(*zip(bias.beta_low, bias.beta_high, strict=True)):
            left = loss.omega0 - loss.omega - weighed @ alpha
            cases.append(np.maximum(0, left).sum() - (weighed @ beta).sum())
    base = (loss.said(1.0, bias, v).scores.mean - (weighed * loss.expected).sum())[0]
    assert base + loss._trust(bias, loss.said(1.0, bias, v).weights) == pytest.approx(
        max(cases), abs=1e-12
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_each_documents_weights_are_the_best_there_are(seed, per_document):
    rng = np.random.default_rng(seed)
    model = ClickModel(rng.uniform(0.1, 0.5, 3), rng.uniform(0, 0.4, 3))
    bias = BiasSet.around(model, rng.uniform(0, 0.6), per_document=per_document)
    prospect = Prospect(
        rng.dirichlet(np.ones(4), 1)[:, :3], np.ones(1), rng.random(1),
        rng.uniform(0.05, 0.3, (1, 3)), 1000,
    )  # fmt: skip
    loss, price = rng.normal(size=1), rng.uniform(0.005, 0.5)
    trust = rng.uniform(-0.1, 0.1, 3) * (not per_document)
    v, start = np.zeros((1, 3)), rng.random(1)
    solve_documents(loss, prospect, bias, Multipliers(price, trust, np.inf, start), v)

    def cost(weights):
        weighed = prospect.shown * weights.reshape(1, 3)
        spread = (prospect.shown * weights**2 * prospect.variance).sum()
        said = (weighed @ model.alpha) @ prospect.predicted + weighed.sum(axis=0) @ trust
        if per_document:
            said += (bias.least_trust(weighed) + model.beta * weighed).sum()
        rest = np.maximum(0, loss - bias.covered(weights.reshape(1, 3), prospect.shown))
        return float(said + rest[0] + price * spread)

    best = min(
        minimize(cost, v.ravel() + rng.normal(size=3) * scale, method="Nelder-Mead",
                 options={"xatol": 1e-10, "fatol": 1e-13, "maxiter": 4000}).fun
        for scale in (0.0, 1.0)
    )  # fmt: skip
    assert cost(v.ravel()) <= best + 1e-9


def expect(loss, prospect, bias, v, quantile):
    """The bound if predictions are right, and the variance of a session, by plain array code."""
    weighed = prospect.traffic[:, None] * prospect.shown * v
    clicks = (weighed * (bias.alpha * prospect.predicted[:, None] + bias.beta)).sum()
    left = prospect.traffic @ np.maximum(0, loss - bias.covered(v, prospect.shown))
    trust = bias.least_trust(weighed if bias.per_document else weighed.sum(axis=0)).sum()
    variance = (weighed * v * prospect.variance).sum()
    return clicks + left + trust + quantile * np.sqrt(variance / prospect.sessions), variance


@pytest.mark.parametrize("per_document", [False, True])
def test_what_the_compiled_weights_add_up_to_is_what_plain_sums_give(per_document):
    rng = np.random.default_rng(2)
    prospect = Prospect(
        rng.dirichlet(np.ones(6), 700)[:, :5], np.full(700, 1 / 70), rng.random(700),
        rng.uniform(0.05, 0.3, (700, 5)), 900,
    )  # fmt: skip
    bias = BiasSet.around(trust_bias(), 0.2, per_document=per_document)
    loss, v = rng.normal(size=700), np.zeros((700, 5))
    start = Multipliers(0.01, rng.uniform(-0.02, 0.02, 5), 9.0, np.full(700, 0.5))
    sums = solve_documents(loss, prospect, bias, start, v)
    bound, variance = expect(loss, prospect, bias, v, 1.64)
    assert sums.bound(prospect, bias, 1.64) == pytest.approx(bound, rel=1e-12)
    assert sums.variance == pytest.approx(variance, rel=1e-12)
    again = np.zeros((700, 5))
    with use_threads(1):
        solve_documents(loss, prospect, bias, replace(start, theta=np.full(700, 0.5)), again)
    np.testing.assert_array_equal(v, again)


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("per_document", [False, True])
def test_one_sweep_says_what_scores_of_sessions_say(per_document, observed):
    *_, omega, omega0, evidence = small_world(9, judged=100)
    counts, kappa = evidence.counts, 1.1
    w = evidence.click_model.exposure_weights if observed else None
    loss = DoubtedLoss(
        Contrast(omega, omega0, evidence), method="normal", observed=w, per_document=per_document,
        unseen=np.full(counts.queries, 0.1),
    )  # fmt: skip
    v, bias = loss.weights(kappa, 0.2)[0], loss.bias(0.2)
    v[counts.offsets[3] : counts.offsets[4]] = 0.0  # a query that no click is asked of
    weighed, total = loss.shown * v, lambda values: np.add.reduceat(values, counts.offsets[:-1])
    left = kappa * omega0 - omega - bias.covered(v, loss.shown)
    trust = bias.least_trust(weighed) if per_document else -bias.beta * weighed
    base = total(np.maximum(0, left) + (weighed * loss.expected + trust).sum(axis=1)) + 0.1 * kappa
    score = SessionScore(base, -v * loss.expected, v * (1 - loss.expected))
    lists = (kappa * w - bias.smallest(v)) * (left > 1e-9)[:, None] if observed else 0.0
    wider = SessionScore(base, score.missed + lists, score.clicked + lists)
    plain, spread = (count_moments(each, counts, base) for each in (score, wider))
    scores = loss.said(kappa, bias, v).scores
    np.testing.assert_allclose(scores.mean, plain.mean, atol=1e-12)
    asked = np.ones(counts.queries, bool) if observed else total(np.abs(v).sum(axis=1)) > 0
    np.testing.assert_allclose(scores.variance, np.where(asked, spread.variance, 0), atol=1e-10)
    np.testing.assert_allclose(scores.low, spread.low, atol=1e-12)
    np.testing.assert_allclose(scores.high, spread.high, atol=1e-12)
    np.testing.assert_allclose(loss.said(kappa, bias, v).weights, total(weighed), atol=1e-12)


def test_better_weights_than_none_and_than_those_of_one_step():
    rng = np.random.default_rng(1)
    model = trust_bias()
    prospect = Prospect(
        rng.dirichlet(np.ones(5), 60), np.full(60, 1 / 6), rng.random(60) * 0.5,
        np.full((60, 5), 0.2), 5000,
    )  # fmt: skip
    loss = rng.normal(size=60)
    bias = BiasSet.around(model, 0.1)
    v, _ = choose_weights(loss, prospect, bias, 1.64)
    expected = expect(loss, prospect, bias, v, 1.64)[0]
    assert expected < expect(loss, prospect, bias, np.zeros_like(v), 1.64)[0]
    for _ in range(50):
        other = v * rng.uniform(0.5, 1.5, v.shape)
        assert expected <= expect(loss, prospect, bias, other, 1.64)[0] + 1e-3


def many_documents(rng, documents, ranks=5):
    """Lists of 100 of which the first documents are shown most, in traffic that some queries have
    a lot of."""
    traffic = np.repeat(rng.pareto(1.5, documents // 100) + 0.1, 100)
    chance = np.tile(np.exp(-np.arange(100) / 8), documents // 100)[:, None]
    shown = chance * rng.uniform(0.5, 1, (documents, ranks))
    shown /= np.repeat(np.add.reduceat(shown, np.arange(0, documents, 100)), 100, axis=0)
    return Prospect(
        shown, traffic / (traffic.sum() / 100), rng.random(documents) * 0.6,
        rng.uniform(0.1, 0.25, (documents, ranks)), documents // 25,
    )  # fmt: skip


def test_sums_over_a_sample_are_about_those_over_all_documents():
    rng = np.random.default_rng(3)
    prospect = many_documents(rng, 20_000)
    places, sample = Sample.of(prospect, 2000)
    assert (np.diff(places) > 0).all()
    assert 1000 < places.size <= 2000
    for value in (
        np.ones(20_000),
        prospect.shown @ np.ones(5),
        prospect.predicted,
        rng.random(20_000),
    ):
        exact = prospect.traffic @ value
        assert sample.traffic @ value[places] == pytest.approx(exact, rel=0.05)
    heavy = np.argsort(prospect.traffic)[-100:]  # a query that has a part of the traffic by itself
    assert np.isin(heavy[np.argsort(prospect.shown[heavy, 0])[-5:]], places).all()


def test_multipliers_of_a_sample_give_weights_as_good_as_those_of_all_documents(monkeypatch):
    rng = np.random.default_rng(4)
    prospect = many_documents(rng, 20_000)
    loss = prospect.shown.sum(axis=1) - rng.permutation(prospect.shown.sum(axis=1))
    bias = BiasSet.around(trust_bias(), 0.1)
    nothing = prospect.traffic @ np.maximum(0, loss)
    best, _ = choose_weights(loss, prospect, bias, 1.64)
    monkeypatch.setattr(click_weights, "SAMPLE", 1000)
    monkeypatch.setattr(Prospect, "sample", property(lambda self: Sample.of(self, 1000)))
    v, start = choose_weights(loss, prospect, bias, 1.64)
    assert not np.array_equal(v, best)
    gained, sampled = (nothing - expect(loss, prospect, bias, each, 1.64)[0] for each in (best, v))
    assert sampled > 0.99 * gained > 0
    again, _ = choose_weights(loss, prospect, bias, 1.64, start=start)
    assert nothing - expect(loss, prospect, bias, again, 1.64)[0] > 0.99 * gained


@given(st.lists(st.tuples(st.floats(-20, 20), st.floats(-2, 2)), min_size=1, max_size=5),
       st.floats(0, 10), st.floats(0, 2))  # fmt: skip
def test_a_crossing_is_never_beyond_what_passes(lines, square, spare):
    def convex(at):
        return max(slope * at + level for slope, level in lines) + square * at**2

    looks = {}

    def excess(at):
        looks[at] = convex(at) - convex(0.0) - spare
        return looks[at]

    last = convex(1.0) - convex(0.0) - spare
    assume(last > 0)
    place = _crossing(excess, -spare, last)
    assert place == 0 or looks[place] <= 0
    assert len(looks) <= LOOKS
    if len(looks) < LOOKS and place + NEAR < 1:
        assert excess(place + 1.01 * NEAR) > -1e-9


# -- laws --------------------------------------------------------------------------------------


def small_world(seed, queries=12, documents=6, judged=400, model=None, new=None):
    """Items, production's policy, exposures and evidence of a small simulated log."""
    rng = np.random.default_rng(seed)
    model = trust_bias(3) if model is None else model
    labels = rng.integers(0, 5, queries * documents).astype(float)
    data = RankingData(
        rng.normal(size=(labels.size, 2)), np.arange(queries + 1) * documents, labels=labels
    )
    scores = rng.normal(size=labels.size)
    better = 0.8 * labels + rng.normal(size=labels.size) if new is None else new
    policy = ProductionPolicy.sampled(scores, data.offsets)
    counts = simulate(data, scores, model, judged, seed, highest_grade=4, judge=0, progress=False)
    w = model.exposure_weights
    evidence = Evidence(
        counts, model, by_policy(policy, model, w),
        np.clip(labels / 4 + 0.1 * rng.normal(size=labels.size), 0, 1),
        shown=policy.rank_probabilities(model.ranks),
    )  # fmt: skip
    omega = sr.plackett_luce.exposure(better, w, data.offsets)
    return data, scores, better, policy, omega, policy.exposure(w), evidence


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["normal", "clustered", "bernstein"]))
def test_more_doubt_never_promises_more(seed, method):
    *_, omega, omega0, evidence = small_world(seed)
    loss = DoubtedLoss(Contrast(omega, omega0, evidence), method=method)
    curve, other = doubt_curve(loss, doubt=0.07), doubt_curve(loss, doubt=0.085)
    assert list(curve.doubts) == sorted(curve.doubts)
    assert all(a >= b for a, b in itertools.pairwise((*curve.shares, curve.unbounded)))
    assert curve.shares[1] >= curve.share >= other.share >= curve.shares[2]
    if curve.breakdown is not None:
        again = doubt_curve(loss, doubt=curve.breakdown)
        assert again.share >= 1


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10**6))
def test_without_bound_it_is_the_certificate(seed):
    data, scores, better, _, omega, omega0, evidence = small_world(seed, judged=50)
    certificate = sr.certify(
        better, data, production=scores, weights=evidence.click_model.exposure_weights,
        traffic=evidence.counts,
    )  # fmt: skip
    loss = DoubtedLoss(Contrast(omega, omega0, evidence), method="normal")
    nothing, anything = np.zeros_like(loss.shown), loss.bias(np.inf)
    for kept, mean in zip(certificate.curve.kept, certificate.curve.mean, strict=True):
        assert loss.upper(kept, anything, nothing) == pytest.approx(mean, abs=1e-12)
        assert loss.worst(kept) == pytest.approx(mean, abs=1e-12)
    for slack in (0.0, 0.05):
        unbounded = _Shares(loss, slack, 1.0).unbounded
        assert loss.worst(unbounded) <= slack * loss.largest + 1e-8
        assert unbounded == 1 or loss.worst(unbounded + 1e-6) > slack * loss.largest


def test_if_any_document_may_be_clicked_anyhow_clicks_are_of_no_use():
    *_, omega, omega0, evidence = small_world(3)
    loss = DoubtedLoss(Contrast(omega, omega0, evidence), method="normal", per_document=True)
    v, _ = loss.weights(0.9, np.inf)
    assert not v.any()


def test_production_against_itself_keeps_all_for_any_users():
    *_, omega0, evidence = small_world(4)
    curve = doubt_curve(DoubtedLoss(Contrast(omega0, omega0, evidence)))
    assert curve.unbounded == 1
    assert curve.for_any_users
    assert curve.breakdown == 1
    assert min(curve.shares) >= 1


def test_what_the_log_never_showed_is_charged():
    *_, omega, omega0, evidence = small_world(5)
    unseen = np.full(evidence.counts.queries, 0.3)
    plain = DoubtedLoss(Contrast(omega, omega0, evidence), method="normal")
    owed = DoubtedLoss(Contrast(omega, omega0, evidence), method="normal", unseen=unseen)
    v, _ = plain.weights(1.0, 0.1)
    bias = plain.bias(0.1)
    assert owed.upper(1.0, bias, v) == pytest.approx(plain.upper(1.0, bias, v) + 0.3, abs=1e-12)
    assert owed.worst(0.5) == pytest.approx(plain.worst(0.5) + 0.15, abs=1e-12)


def test_weights_do_not_look_at_the_clicks():
    *_, omega, omega0, evidence = small_world(6)
    others = replace(
        evidence, counts=replace(evidence.counts, clicks=np.zeros_like(evidence.counts.clicks))
    )
    one, other = (
        DoubtedLoss(Contrast(omega, omega0, each)).weights(1.0, 0.1)[0]
        for each in (evidence, others)
    )
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [("doubt", -0.1, "doubt"), ("doubt", np.nan, "doubt"), ("slack", 1.0, "slack"),
     ("confidence", 0.4, "confidence"), ("method", "guess", "method")],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(option, value, said):
    *_, omega, omega0, evidence = small_world(7, judged=50)
    of_loss = {option: value} if option in ("confidence", "method") else {}
    of_curve = {} if of_loss else {option: value}
    with pytest.raises(sr.InputError, match=said):
        doubt_curve(DoubtedLoss(Contrast(omega, omega0, evidence), **of_loss), **of_curve)


def test_hard_cases_are_no_special_cases():
    model = trust_bias(4)
    data = RankingData(np.zeros((4, 1)), [0, 1, 1, 4], labels=[1.0, 0.0, 1.0, 0.0])
    policy = ProductionPolicy.sorted(np.array([0.0, 2.0, 1.0, 0.0]), data.offsets)
    impressions = np.zeros((4, 4), int)
    impressions[[0, 1, 2, 3], [0, 0, 1, 2]] = [5, 7, 7, 7]
    counts = Counts(data.offsets, impressions, impressions // 2)
    w = model.exposure_weights
    evidence = Evidence(
        counts, model, by_policy(policy, model, w), shown=policy.rank_probabilities(4)
    )
    omega = sr.plackett_luce.exposure(data.labels, w, data.offsets)
    curve = doubt_curve(DoubtedLoss(Contrast(omega, policy.exposure(w), evidence), method="normal"))
    assert all(0 <= share <= 1.1 for share in curve.shares)


# -- coverage ----------------------------------------------------------------------------------


def failures(doubt, models, logs, *, method, observed=False):
    """How often the bound of a loss that is exactly 0 is below 0, when these models are true."""
    fitted = ClickModel([0.5, 0.4, 0.3], [0.25, 0.15, 0.1])
    data, scores, _, _, omega, omega0, evidence = small_world(
        1, queries=30, documents=5, model=fitted
    )
    true = data.labels / 4
    failed, v = 0, None
    for number in range(logs):
        counts = simulate(
            data, scores, models[number % len(models)], 3000, 10_000 + number, highest_grade=4,
            judge=0, progress=False,
        )  # fmt: skip
        # utilities are averaged over the log's own traffic
        own = np.repeat(counts.sessions / counts.total, 5)
        kappa = (own @ (omega * true)) / (own @ (omega0 * true))
        shown, old = evidence.shown, omega0
        if observed:
            seen = ProductionPolicy.observed(counts)
            shown, old = seen.rank_probabilities(3), seen.exposure(fitted.exposure_weights)
        log = replace(evidence, counts=counts, shown=shown)
        w = fitted.exposure_weights if observed else None
        loss = DoubtedLoss(Contrast(omega, old, log), method=method, observed=w)
        if v is None or observed:
            v, _ = loss.weights(kappa, doubt)
        failed += loss.upper(kappa, loss.bias(doubt), v) < 0
    return failed / logs


def corner_models(doubt):
    fitted = ClickModel([0.5, 0.4, 0.3], [0.25, 0.15, 0.1])
    bias = BiasSet.around(fitted, doubt)
    return [
        ClickModel(
            np.where(choice[:3], bias.alpha_high, bias.alpha_low),
            np.where(choice[3:], bias.beta_high, bias.beta_low),
        )
        for choice in itertools.product((0, 1), repeat=6)
    ]


def noise(logs):
    return 0.05 + 2.6 * np.sqrt(0.05 * 0.95 / logs)


@pytest.mark.parametrize("method", ["normal", "clustered", "bernstein"])
def test_with_the_right_click_model_the_bound_fails_as_seldom_as_promised(method):
    logs = 150
    assert failures(0.0, corner_models(0.0)[:1], logs, method=method) <= noise(logs)


def test_at_every_corner_of_the_set_the_bound_fails_as_seldom_as_promised():
    logs = 128
    assert failures(0.2, corner_models(0.2), logs, method="normal") <= noise(logs)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["normal", "clustered"])
def test_a_thousand_logs_at_the_corners(method):
    assert failures(0.2, corner_models(0.2), 1024, method=method) <= noise(1024)
    assert failures(0.0, corner_models(0.0)[:1], 1000, method=method) <= noise(1000)


@pytest.mark.parametrize("method", ["normal", "clustered"])
def test_production_known_from_frequencies_keeps_the_promise(method):
    logs = 100
    assert failures(0.0, corner_models(0.0)[:1], logs, method=method, observed=True) <= noise(logs)


@pytest.mark.parametrize("name", ["adversarial", "cascade", "noise"])
def test_for_any_users_nothing_is_promised_that_is_not_kept(name):
    model, users = trust_bias(3), sr.clicks.USERS[name](3)
    data, scores, better, _, omega, omega0, evidence = small_world(8)
    counts = simulate(data, scores, users, 2000, 8, highest_grade=4, judge=0, progress=False)
    for new in (omega, sr.plackett_luce.exposure(-better, model.exposure_weights, data.offsets)):
        curve = doubt_curve(DoubtedLoss(Contrast(new, omega0, replace(evidence, counts=counts))))
        own = np.repeat(counts.sessions / counts.total, 6)
        true = data.labels / 4
        assert curve.unbounded <= (own @ (new * true)) / (own @ (omega0 * true))


@pytest.mark.slow
@pytest.mark.parametrize("doubt", [0.0, 0.1, 0.2, 0.5])
def test_the_figures_on_corners_of_the_docs(doubt):
    """A thousand logs, the true click model at each corner in turn; without doubt it is sharp."""
    found = corner_figures.failures(doubt, 1000, seed=1)
    assert all(mean <= noise(1000) for mean, _ in found.values())
    assert doubt > 0 or found["normal"][0] > 0.02
