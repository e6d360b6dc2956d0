"""Fitted click models against the users that made the clicks, on the scale that clicks identify."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from saferank._core.flat import Floats
from saferank.clicks import (
    ClickModel,
    FittedBias,
    cascade,
    fit_position_bias,
    fit_trust_bias,
    position_bias,
    simulate,
    trust_bias,
)
from saferank.clicks.bias import canonical
from saferank.clicks.bias.em import (
    Cells,
    Estimate,
    PerDocument,
    expectation_maximisation,
    first_estimate,
    step,
)
from saferank.clicks.bias.feature_groups import Logistic, standardised
from saferank.clicks.bias.misfit import best_relevance, misfit
from saferank.clicks.users import dependent_clicks
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.errors import InputError

FIT = {"trust": fit_trust_bias, "position": fit_position_bias}
TRUTH = {"trust": trust_bias(), "position": position_bias()}


def collection(queries: int = 120, seed: int = 0) -> tuple[RankingData, Floats]:
    """Queries of ten documents whose relevance is a logistic function of two features."""
    rng = np.random.default_rng(seed)
    documents = 10 * queries
    x = rng.normal(size=(documents, 2))
    labels = 1 / (1 + np.exp(1 - 1.5 * x[:, 0] + x[:, 1]))
    data = RankingData(x, np.arange(queries + 1) * 10, labels=labels)
    return data, labels + rng.normal(size=documents)


def clicks_of(users: object, sessions: int, seed: int = 0, **options: object) -> Counts:
    data, scores = collection()
    return simulate(data, scores, users, sessions, seed, highest_grade=1, **options)  # type: ignore[arg-type]


def distance(fit: FittedBias, truth: ClickModel) -> Floats:
    """How many standard errors slopes and intercepts are from the truth's, but at the reference."""
    true = canonical(truth, fit.reference)
    away = [(fit.canonical.slope - true.slope, fit.slope_error)]
    if fit.kind == "trust":
        away.append((fit.canonical.intercept - true.intercept, fit.intercept_error))
    others = np.arange(truth.ranks) != fit.reference - 1
    return np.concatenate([gap[others] / error[others] for gap, error in away])


@pytest.mark.parametrize("method", ["em", "harvest"])
@pytest.mark.parametrize("kind", ["trust", "position"])
def test_the_users_are_found_within_three_standard_errors(kind: str, method: str) -> None:
    counts = clicks_of(TRUTH[kind], 10**7)
    fit = FIT[kind](counts, method=method, folds=40)  # type: ignore[arg-type]
    z = distance(fit, TRUTH[kind])
    assert np.abs(z).max() < 3
    assert np.nanmax(fit.slope_error) < 0.02
    assert not fit.misfit.found
    assert fit.misfit.cells > 1000


@pytest.mark.parametrize("kind", ["trust", "position"])
def test_relevance_by_features_finds_them_too(kind: str) -> None:
    data, _ = collection()
    counts = clicks_of(TRUTH[kind], 10**6)
    fit = FIT[kind](counts, features=data.features, folds=40)
    assert np.abs(distance(fit, TRUTH[kind])).max() < 3.5


def test_features_tell_what_a_deterministic_log_cannot() -> None:
    data, _ = collection()
    counts = clicks_of(position_bias(), 10**6, deterministic=True)
    with pytest.raises(InputError, match="always shown at one rank"):
        fit_position_bias(counts)
    fit = fit_position_bias(counts, features=data.features, folds=20)
    assert np.abs(distance(fit, position_bias())).max() < 3.5
    assert "Every document was always shown at one rank" in fit.identifiability.verdict
    assert fit.misfit.cells == 0


def test_both_methods_agree_and_another_reference_tells_the_same() -> None:
    counts = clicks_of(trust_bias(), 10**6)
    em = fit_trust_bias(counts, method="em", folds=0)
    harvest = fit_trust_bias(counts, method="harvest", folds=0)
    np.testing.assert_allclose(em.canonical.slope, harvest.canonical.slope, atol=0.03)
    third = fit_trust_bias(counts, method="em", folds=0, reference=3)
    again = canonical(third.model, 1)
    np.testing.assert_allclose(again.slope, em.canonical.slope, rtol=1e-3)
    np.testing.assert_allclose(third.model.alpha, em.model.alpha, atol=1e-3)


def test_harvesting_is_not_misled_by_documents_that_were_shown_rarely() -> None:
    """Ten impressions a document: fitting a relevance for each biases EM, not harvesting."""
    data, scores = collection(queries=1200)
    counts = simulate(data, scores, trust_bias(), 24_000, 0, highest_grade=1)
    true = canonical(trust_bias())
    harvest = fit_trust_bias(counts, folds=30)
    assert np.abs(distance(harvest, trust_bias())).max() < 3.5
    em = fit_trust_bias(counts, method="em", folds=0)
    assert np.abs(em.canonical.slope - true.slope).max() > 0.3


def test_relevance_of_documents_is_found_on_the_models_scale() -> None:
    data, _ = collection()
    fit = fit_trust_bias(clicks_of(trust_bias(), 10**7), folds=0)
    # The truth on the same scale: its click probability at rank 1, read through the fitted model.
    expected = (
        trust_bias().probability(data.known_labels)[:, 0] - fit.model.beta[0]
    ) / fit.model.alpha[0]
    assert np.nanmax(np.abs(fit.relevance - np.clip(expected, 0, 1))) < 0.1
    assert stats.spearmanr(fit.relevance, data.known_labels).statistic > 0.99


@pytest.mark.parametrize(
    "users", [cascade(stop=0.8, noise=0.1), dependent_clicks([0.7, 0.6, 0.5, 0.4, 0.3])]
)
@pytest.mark.parametrize("kind", ["trust", "position"])
def test_users_whose_clicks_depend_on_each_other_are_told(users: object, kind: str) -> None:
    fit = FIT[kind](clicks_of(users, 10**6), folds=0)
    assert fit.misfit.found
    assert "does not fit" in fit.misfit.verdict


def test_position_bias_does_not_explain_trust_bias() -> None:
    counts = clicks_of(trust_bias(), 10**6)
    assert fit_position_bias(counts, folds=0).misfit.size > 0.03
    assert not fit_trust_bias(counts, folds=0).misfit.found


@pytest.mark.parametrize("most", [30, 200, 2000])
def test_misfit_of_the_truth_is_found_by_chance_only(most: int) -> None:
    """Also where cells are sparse and some documents are never clicked."""
    rng = np.random.default_rng(most)
    values = []
    for seed in range(30):
        shown = rng.integers(0, most, size=(300, 5)).astype(float)
        relevance = rng.choice([0.0, 0.2, 0.7], size=300)
        p = trust_bias().probability(relevance)
        clicked = rng.binomial(shown.astype(int), p).astype(float)
        values.append(misfit(shown, clicked, trust_bias(), seed=seed).p_value)
    assert np.min(values) > 1e-4
    assert 0.1 < np.mean(values) < 0.9


def test_size_of_a_misfit() -> None:
    rng = np.random.default_rng(0)
    shown = np.full((500, 4), 2000.0)
    truth = position_bias(4).probability(rng.uniform(0.3, 0.9, 500))
    wrong = truth + 0.03 * np.array([1, -1, 1, -1])
    clicked = rng.binomial(shown.astype(int), wrong).astype(float)
    found = misfit(shown, clicked, position_bias(4))
    assert found.found
    assert 0.02 < found.size < 0.031


alphas = st.lists(st.floats(0.05, 0.5), min_size=1, max_size=6)


@given(alphas, st.data())
def test_canonical_form_does_not_depend_on_the_scale_of_relevance(
    alpha: list[float], data: st.DataObject
) -> None:
    beta = [data.draw(st.floats(0.0, 0.4)) for _ in alpha]
    model = ClickModel(alpha, beta)
    form = canonical(model)
    wide = form.widest(through_zero=False)
    np.testing.assert_allclose(canonical(wide).slope, form.slope, rtol=1e-6)
    np.testing.assert_allclose(canonical(wide).intercept, form.intercept, atol=1e-6)
    assert wide.beta.min() == pytest.approx(0, abs=1e-9)
    assert wide.exposure_weights.max() == pytest.approx(1)
    same = form.model(model.beta[0], model.beta[0] + model.alpha[0])
    np.testing.assert_allclose(same.alpha, model.alpha, atol=1e-9)
    np.testing.assert_allclose(same.beta, model.beta, atol=1e-9)


def test_canonical_form_needs_a_reference_with_bias() -> None:
    with pytest.raises(InputError, match="alpha"):
        canonical(ClickModel([0.0, 0.5], [0.5, 0.1]))
    with pytest.raises(InputError, match="reference"):
        canonical(trust_bias(), 6)


def random_cells(seed: int) -> Cells:
    rng = np.random.default_rng(seed)
    shown = rng.integers(0, 30, size=(12, 3))
    shown[:, 0] += 1
    clicked = rng.binomial(shown, rng.uniform(0.1, 0.9, size=shown.shape))
    return Cells(shown.astype(float), clicked.astype(float), rng.integers(1, 3, 12).astype(float))


def likelihood(cells: Cells, estimate: Estimate, values: Floats) -> float:
    p = values[:, None] * estimate.relevant + (1 - values)[:, None] * estimate.other
    logs = cells.clicked * np.log(p) + (cells.shown - cells.clicked) * np.log1p(-p)
    return float(cells.weight @ logs.sum(axis=1))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_no_step_of_em_lowers_the_likelihood(seed: int, by_features: bool) -> None:
    cells = random_cells(seed)
    x = standardised(np.random.default_rng(seed).normal(size=(12, 2)))
    relevance = Logistic(x, cells, ridge=1e-12) if by_features else PerDocument()
    now = first_estimate(cells, relevance, trust=True)
    last = -np.inf
    for _ in range(20):
        after, said = step(cells, relevance, now)
        direct = likelihood(cells, now, relevance.values(now.parameters))
        assert said == pytest.approx(direct, rel=1e-9)
        assert said >= last - 1e-6
        now, last = after, said


def test_em_ends_where_the_likelihood_is_largest() -> None:
    """Against a general optimiser on a small table of clicks of trusting users."""
    rng = np.random.default_rng(3)
    shown = rng.integers(50, 300, size=(12, 3))
    p = trust_bias(3).probability(rng.uniform(size=12))
    cells = Cells(shown.astype(float), rng.binomial(shown, p).astype(float), np.ones(12))
    estimate = expectation_maximisation(
        cells, PerDocument(), first_estimate(cells, PerDocument(), trust=True), tolerance=1e-10
    )
    best = likelihood(cells, estimate, np.clip(estimate.parameters, 1e-12, 1 - 1e-12))

    def loss(free: Floats) -> float:
        p = 1 / (1 + np.exp(-free))
        return -likelihood(cells, Estimate(p[:3], p[3:6], p[6:]), p[6:])

    begin = np.concatenate([np.full(3, 1.0), np.full(3, -1.0), np.zeros(12)])
    found = optimize.minimize(loss, begin, method="L-BFGS-B", options={"maxiter": 2000})
    assert best >= -found.fun - 1e-3


def test_position_bias_stays_without_beta() -> None:
    cells = random_cells(1)
    estimate = expectation_maximisation(
        cells, PerDocument(), first_estimate(cells, PerDocument(), trust=False)
    )
    assert estimate.other.tolist() == [0.0] * 3


def test_best_relevance_maximises_each_documents_likelihood() -> None:
    cells, model = random_cells(5), trust_bias(3)
    found = best_relevance(cells.shown, cells.clicked, model.alpha, model.beta)
    grid = np.linspace(1e-6, 1 - 1e-6, 2001)
    p = model.probability(grid)[:, None, :]
    logs = (cells.clicked * np.log(p) + (cells.shown - cells.clicked) * np.log1p(-p)).sum(axis=2)
    np.testing.assert_allclose(found, grid[logs.argmax(axis=0)], atol=1e-3)


def test_many_blocks_and_one_tell_the_same() -> None:
    rng = np.random.default_rng(0)
    documents = 40_000
    shown = rng.integers(1, 9, size=(documents, 2)).astype(float)
    cells = Cells(shown, rng.binomial(shown.astype(int), 0.4).astype(float), np.ones(documents))
    now = first_estimate(cells, PerDocument(), trust=True)
    whole, total = step(cells, PerDocument(), now)
    halves = [Cells(*(part[index::2].copy() for part in cells)) for index in (0, 1)]
    parts = [
        step(half, PerDocument(), Estimate(now.relevant, now.other, now.parameters[index::2]))
        for index, half in enumerate(halves)
    ]
    assert total == pytest.approx(parts[0][1] + parts[1][1])
    joined = np.empty(documents)
    joined[0::2], joined[1::2] = parts[0][0].parameters, parts[1][0].parameters
    np.testing.assert_allclose(whole.parameters, joined)


def test_a_fit_is_saved_as_a_click_model(tmp_path: Path) -> None:
    fit = fit_trust_bias(clicks_of(trust_bias(), 10**5), folds=5)
    fit.save(tmp_path / "bias.json")
    again = ClickModel.load(tmp_path / "bias.json")
    np.testing.assert_array_equal(again.alpha, fit.model.alpha)
    assert fit.to_dict()["identifiability"]["identified"]


def test_the_same_seed_gives_the_same_fit_and_chance() -> None:
    counts = clicks_of(position_bias(), 10**5)
    first, second, third = (
        fit_position_bias(counts, method="harvest", folds=10, seed=seed) for seed in (0, 0, 1)
    )
    assert first.to_dict() == second.to_dict()
    np.testing.assert_array_equal(first.slope_error, third.slope_error)
    assert first.misfit.expected != third.misfit.expected


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "guess"}, "method"),
        ({"reference": 0}, "reference"),
        ({"reference": 6}, "reference"),
        ({"folds": -1}, "folds"),
        ({"folds": 1}, "folds"),
        ({"features": np.zeros((3, 2))}, "features"),
        ({"features": np.zeros((1200, 2)), "method": "harvest"}, "method"),
        ({"features": np.full((1200, 2), np.nan)}, "features"),
    ],
)
def test_bad_options_of_a_fit_are_refused(options: dict[str, object], words: str) -> None:
    counts = clicks_of(position_bias(), 1000)
    with pytest.raises(InputError, match=words):
        fit_position_bias(counts, **options)  # type: ignore[arg-type]


def test_clicks_that_vary_less_than_chance_are_told() -> None:
    shown = np.full((10, 2), 2, dtype=np.int64)
    counts = Counts(np.arange(11), shown, shown // 2)
    with pytest.raises(InputError, match="trust bias cannot be told at rank 2"):
        fit_trust_bias(counts)


def test_logs_without_clicks_or_impressions_are_refused() -> None:
    nothing = np.zeros((4, 2), dtype=np.int64)
    with pytest.raises(InputError, match="impressions"):
        fit_trust_bias(Counts([0, 4], nothing, nothing))
    with pytest.raises(InputError, match="clicks"):
        fit_trust_bias(Counts([0, 4], nothing + 5, nothing))


def test_em_that_does_not_come_to_rest_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = clicks_of(position_bias(), 200_000)
    assert fit_position_bias(counts, method="em", folds=0).method == "em"
    monkeypatch.setattr("saferank.clicks.bias.em.MOST_STEPS", 2)
    with pytest.raises(InputError, match="EM had not come to rest after 2 steps"):
        fit_position_bias(counts, method="em", folds=0)


def test_em_rests_although_the_scale_of_relevance_drifts_on() -> None:
    """The paper's users: alpha and beta go on along scales that fit equally, lines do not."""
    counts = clicks_of(trust_bias(), 10**6)
    fit = fit_trust_bias(counts, method="em", folds=0)
    np.testing.assert_allclose(fit.canonical.slope, canonical(trust_bias()).slope, atol=0.1)


def test_position_bias_by_em_has_no_trust_out_of_rounding() -> None:
    """Relevant documents only: what is left for irrelevant ones are the last bits of sums."""
    counts = Counts([0, 2], [[1000, 1], [1, 1000]], [[500, 0], [0, 400]], [1001])
    fit = fit_position_bias(counts, method="em", folds=0)
    assert fit.model.beta.tolist() == [0.0, 0.0]


def test_what_is_not_found_is_told_with_the_size_that_would_have_been() -> None:
    fit = fit_trust_bias(clicks_of(trust_bias(), 10**6), folds=0)
    assert not fit.misfit.found
    assert 0 < fit.misfit.detectable < 0.02
    assert f"by {fit.misfit.detectable:.4f} or more" in fit.misfit.verdict
    few = fit_trust_bias(clicks_of(trust_bias(), 10**5), folds=0)
    assert few.misfit.detectable > 2 * fit.misfit.detectable


@pytest.mark.slow
def test_deviations_of_the_detectable_size_are_found_four_times_in_five() -> None:
    rng = np.random.default_rng(0)
    shown = np.full((300, 5), 400.0)
    p = trust_bias().probability(rng.uniform(0.2, 0.8, 300))
    clicked = rng.binomial(400, p).astype(float)
    size = misfit(shown, clicked, trust_bias()).detectable
    # Deviations that no relevance explains: what is left of random ones, cell by cell.
    turn = rng.choice([-1.0, 1.0], size=p.shape)
    alpha, weight = trust_bias().alpha, 1 / (p * (1 - p))
    turn -= ((turn * weight) @ alpha / (weight @ alpha**2))[:, None] * alpha
    turn *= size / np.sqrt(np.mean(turn**2))
    found, sizes = 0, []
    for seed in range(100):
        drawn = rng.binomial(400, p + turn).astype(float)
        result = misfit(shown, drawn, trust_bias(), seed=seed)
        found += result.found
        sizes.append(result.size)
    assert 68 <= found <= 95
    assert np.mean(sizes) == pytest.approx(size, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["trust", "position"])
def test_a_right_kind_of_model_is_hardly_ever_said_not_to_fit(kind: str) -> None:
    """Errors of the fit are part of what chance makes of the misfit: 1 in 1000 logs is meant."""
    data, scores = collection(40)
    values = []
    for seed in range(150):
        counts = simulate(data, scores, TRUTH[kind], 20_000, seed, highest_grade=1)
        values.append(FIT[kind](counts, folds=0, seed=seed).misfit.p_value)
    assert np.sum(np.array(values) < 1e-3) <= 1
    assert np.mean(np.array(values) < 0.1) < 0.2
