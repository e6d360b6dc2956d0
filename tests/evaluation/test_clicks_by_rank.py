"""Estimators from chances at ranks: unbiased by enumeration, and refusals without support."""

import itertools

import numpy as np
import pytest

import saferank as sr
from saferank.counts import Counts
from saferank.errors import InputError
from saferank.estimators.rank_form import CLICK_ESTIMATORS, RankEvidence, interpolation
from saferank.evaluation.clicks_by_rank import evaluate_clicks
from saferank.plackett_luce import rank_probabilities
from saferank.policies import ProductionPolicy

ALPHA, BETA = np.array([0.7, 0.4, 0.2]), np.array([0.2, 0.1, 0.0])
RELEVANCE = np.array([0.9, 0.5, 0.2, 0.7])


def expected_score(score, shown):
    """The mean over lists and clicks: chances at ranks are all that it takes, by linearity."""
    rates = ALPHA * RELEVANCE[:, None] + BETA
    return score.base[0] + (shown * (rates * score.clicked + (1 - rates) * score.missed)).sum()


def true_clicks(policy):
    return float((policy * (ALPHA * RELEVANCE[:, None] + BETA)).sum())


def evidence_of(shown, predictions=None, *, trust=True):
    nothing = np.zeros((4, 3), dtype=np.int64)
    beta = BETA if trust else np.zeros(3)
    return RankEvidence(
        Counts([0, 4], nothing, nothing, [0]), shown, sr.clicks.ClickModel(ALPHA, beta), predictions
    )


def policies():
    rng = np.random.default_rng(0)
    shown, wanted = (rank_probabilities(rng.normal(size=4), 3, np.array([0, 4])) for _ in range(2))
    return shown, wanted


FORMS = {
    **{name: entry.form for name, entry in CLICK_ESTIMATORS.items()},
    **{f"interpol {window}": interpolation(window).form for window in range(3)},
}


@pytest.mark.parametrize("name", FORMS)
def test_estimators_are_unbiased_where_the_click_model_is_right(name):
    shown, wanted = policies()
    score = FORMS[name](evidence_of(shown, RELEVANCE), wanted)
    assert expected_score(score, shown) == pytest.approx(true_clicks(wanted), abs=1e-9)


@pytest.mark.parametrize("name", ["ipm", "ipm-dr", "cdr", "interpol"])
def test_wrong_predictions_leave_no_bias(name):
    shown, wanted = policies()
    score = FORMS[name](evidence_of(shown, np.full(4, 0.3)), wanted)
    assert expected_score(score, shown) == pytest.approx(true_clicks(wanted), abs=1e-9)


def test_the_item_position_model_needs_no_click_model():
    shown, wanted = policies()
    nothing = np.zeros((4, 3), dtype=np.int64)
    alone = RankEvidence(Counts([0, 4], nothing, nothing, [0]), shown)
    score = FORMS["ipm"](alone, wanted)
    assert expected_score(score, shown) == pytest.approx(true_clicks(wanted), abs=1e-9)
    with pytest.raises(InputError, match="click_model"):
        FORMS["cips"](alone, wanted)


def test_interpolation_goes_from_ranks_to_documents():
    shown, wanted = policies()
    evidence = evidence_of(shown, trust=False)
    near, far = (interpolation(window).form(evidence, wanted) for window in (0, 2))
    np.testing.assert_allclose(near.clicked, FORMS["ipm"](evidence, wanted).clicked)
    np.testing.assert_allclose(far.clicked, FORMS["cips"](evidence, wanted).clicked)


def test_chances_at_ranks_are_all_that_a_mean_over_lists_needs():
    """The route by linearity, once in full: every list and its chance, every pattern of clicks."""
    scores = np.array([0.3, -0.5, 0.8, 0.0])
    shown, wanted = rank_probabilities(scores, 3, np.array([0, 4])), policies()[1]
    score = FORMS["ipm"](evidence_of(shown), wanted)
    total = 0.0
    for order in itertools.permutations(range(4), 3):
        left, chance = np.exp(scores).sum(), 1.0
        for document in order:
            chance *= np.exp(scores[document]) / left
            left -= np.exp(scores[document])
        for clicks in itertools.product([0, 1], repeat=3):
            likely, said = chance, 0.0
            for rank, (document, click) in enumerate(zip(order, clicks, strict=True)):
                rate = ALPHA[rank] * RELEVANCE[document] + BETA[rank]
                likely *= rate if click else 1 - rate
                said += (score.clicked if click else score.missed)[document, rank]
            total += likely * said
    assert total == pytest.approx(true_clicks(wanted), abs=1e-9)


def world(sessions, shown=None, seed=0):
    items = sr.data.synthetic("small", queries=60, seed=1).train
    click_model = sr.clicks.trust_bias()
    shown = np.zeros(items.documents) if shown is None else shown(items)
    counts = sr.clicks.simulate(items, shown, click_model, sessions=sessions, seed=seed, judge=0)
    return items, counts, click_model


def true_change(items, counts, click_model, production):
    wanted = ProductionPolicy.sorted(items.labels, items.offsets).rank_probabilities(5)
    relevance = items.labels / 4
    rates = click_model.alpha * relevance[:, None] + click_model.beta
    share = np.repeat(counts.sessions / counts.total, np.diff(items.offsets))
    return float((share[:, None] * (wanted - production.rank_probabilities(5)) * rates).sum())


@pytest.mark.parametrize("control", ["none", "by-rank", "normalised"])
def test_intervals_hold_the_truth(control):
    held = 0
    for seed in range(14):
        items, counts, click_model = world(3000, seed=seed)
        production = ProductionPolicy.uniform(items.offsets)
        result = evaluate_clicks(
            items.labels, items, counts, production, deployed="sorted", control=control
        )
        truth = true_change(items, counts, click_model, production)
        gap = result.interval("normal")
        held += gap.lower <= truth <= gap.upper
    assert held >= 11


def test_a_control_by_rank_narrows_the_interval():
    items, counts, _ = world(3000)
    production = ProductionPolicy.uniform(items.offsets)
    plain, better = (
        evaluate_clicks(items.labels, items, counts, production, control=control).interval("normal")
        for control in ("none", "by-rank")
    )
    assert better.upper - better.lower < 0.95 * (plain.upper - plain.lower)


def test_a_fixed_ranking_tells_by_clicks_and_not_by_ranks():
    items, counts, click_model = world(
        60_000, lambda items: 1e3 * np.random.default_rng(0).normal(size=items.documents)
    )
    production = ProductionPolicy.observed(counts)
    reversed_top = production.rank_probabilities(5) @ np.arange(1, 6)
    options = {"deployed": "sorted", "click_model": click_model, "predictions": items.labels / 4}
    with pytest.raises(InputError, match="cannot tell"):
        evaluate_clicks(reversed_top, items, counts, production, **options)
    wanted = ProductionPolicy.sorted(reversed_top, items.offsets).rank_probabilities(5)
    rates = click_model.alpha * (items.labels / 4)[:, None] + click_model.beta
    share = np.repeat(counts.sessions / counts.total, np.diff(items.offsets))[:, None]
    truth = float((share * wanted * rates).sum())
    for name in ("cips", "cdr"):
        result = evaluate_clicks(reversed_top, items, counts, production, estimator=name, **options)
        assert result.new.estimate == pytest.approx(truth, rel=0.02)


@pytest.mark.parametrize("name", ["interpol", "cips", "cdr"])
def test_intervals_reach_as_far_as_what_was_never_shown(name):
    items, counts, click_model = world(
        20_000, lambda items: 1e3 * np.random.default_rng(0).normal(size=items.documents)
    )
    production = ProductionPolicy.observed(counts)
    new = production.rank_probabilities(5) @ np.arange(5, 0, -1) + 0.8 * items.labels
    result = evaluate_clicks(
        new, items, counts, production, estimator=name, deployed="sorted",
        click_model=click_model, predictions=np.full(items.documents, 0.4),
    )  # fmt: skip
    wanted = ProductionPolicy.sorted(new, items.offsets).rank_probabilities(5)
    rates = click_model.alpha * (items.labels / 4)[:, None] + click_model.beta
    share = np.repeat(counts.sessions / counts.total, np.diff(items.offsets))[:, None]
    gap = result.interval("normal", of="new")
    assert 0.5 < result.support.share < 0.99
    assert gap.lower <= float((share * wanted * rates).sum()) <= gap.upper
