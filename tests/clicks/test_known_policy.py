"""Click models from a known policy, where every list was seen once, against the truth."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saferank._core.flat import Floats
from saferank.clicks import (
    ClickModel,
    FittedBias,
    KnownPolicy,
    fit_position_bias,
    fit_trust_bias,
    position_bias,
    trust_bias,
)
from saferank.clicks.bias import canonical
from saferank.clicks.bias.em import Cells
from saferank.clicks.bias.known_policy import weight_sentence
from saferank.counts import Counts
from saferank.errors import InputError
from saferank.plackett_luce import rank_probabilities

FITS = {"position": fit_position_bias, "trust": fit_trust_bias}
MODELS = {"position": position_bias(5), "trust": trust_bias(5)}


def lists_seen_once(
    model: ClickModel,
    lists: int,
    seed: int,
    *,
    documents: int = 8,
    scores: Floats | None = None,
) -> tuple[Counts, Floats, Floats]:
    """Counts of lists that are each a query of their own, true relevance, and P0.

    Relevance is a logistic function of one feature, which is `scores` where production draws its
    lists by them (Plackett-Luce), and hidden otherwise.
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(lists, documents)) if scores is None else scores
    relevance = 1 / (1 + np.exp(1 - 1.5 * x))
    drive = np.zeros_like(x) if scores is None else scores
    order = np.argsort(-(drive + rng.gumbel(size=x.shape)), axis=1)[:, : model.ranks]
    rows = np.arange(lists)[:, None]
    chance = model.probability(relevance)[rows, order, np.arange(model.ranks)]
    shown, clicked = np.zeros((2, lists, documents, model.ranks), dtype=np.int64)
    shown[rows, order, np.arange(model.ranks)] = 1
    clicked[rows, order, np.arange(model.ranks)] = rng.random(chance.shape) < chance
    offsets = np.arange(lists + 1) * documents
    flat = (lists * documents, model.ranks)
    counts = Counts(offsets, shown.reshape(flat), clicked.reshape(flat))
    propensity = rank_probabilities(drive.ravel(), model.ranks, offsets)
    return counts, relevance.ravel(), propensity


def prediction(relevance: Floats, seed: int) -> Floats:
    """What features might say of relevance: some of it, and something else."""
    return relevance + 0.3 * np.random.default_rng(seed).normal(size=relevance.size)


def away(fit: FittedBias, truth: ClickModel) -> Floats:
    """How many standard errors slopes and intercepts are from the truth's."""
    true, others = canonical(truth), slice(1, None)
    gaps = [(fit.canonical.slope - true.slope, fit.slope_error)]
    if fit.kind == "trust":
        gaps.append((fit.canonical.intercept - true.intercept, fit.intercept_error))
    return np.concatenate([gap[others] / error[others] for gap, error in gaps])


@pytest.mark.parametrize("kind", ["position", "trust"])
def test_uniform_lists_seen_once_tell_the_click_model(kind: str) -> None:
    counts, relevance, propensity = lists_seen_once(MODELS[kind], 10_000, seed=0)
    policy = KnownPolicy(propensity, "Lists were shuffled.", prediction(relevance, 1))
    fit = FITS[kind](counts, policy=policy)
    assert np.abs(away(fit, MODELS[kind])).max() < 3
    assert np.nanmax(fit.slope_error) < (0.02 if kind == "position" else 0.3)
    assert fit.route == "policy"
    assert fit.sentences()[0].endswith("Lists were shuffled.")
    assert fit.to_dict()["identifiability"]["identified"] is True


@pytest.mark.parametrize("kind", ["position", "trust"])
def test_lists_drawn_by_a_score_tell_it_too(kind: str) -> None:
    """Raw click rates are wrong here: production puts relevant documents first."""
    scores = np.random.default_rng(5).normal(size=(20_000, 8))
    counts, relevance, propensity = lists_seen_once(
        MODELS[kind], 20_000, seed=1, documents=8, scores=scores
    )
    policy = KnownPolicy(propensity, "", prediction(relevance, 2))
    fit = FITS[kind](counts, policy=policy)
    assert np.abs(away(fit, MODELS[kind])).max() < 3.5
    raw = counts.clicks.sum(axis=0) / counts.impressions.sum(axis=0)
    if kind == "position":
        assert np.abs(raw / raw[0] - canonical(MODELS[kind]).slope)[1:].max() > 0.03


def test_position_bias_of_uniform_lists_is_the_ratio_of_click_rates() -> None:
    counts, _, propensity = lists_seen_once(position_bias(5), 2000, seed=3)
    fit = fit_position_bias(counts, policy=KnownPolicy(propensity, ""))
    clicks = counts.clicks.sum(axis=0)
    np.testing.assert_allclose(fit.canonical.slope, clicks / clicks[0], rtol=1e-12)
    # the delta method with lists as units, by another route than leaving parts out
    lists = counts.clicks.reshape(2000, 8, 5).sum(axis=1)
    influence = lists / clicks[0] - np.outer(lists[:, 0], clicks / clicks[0] ** 2)
    np.testing.assert_allclose(
        fit.slope_error[1:], np.sqrt((influence**2).sum(axis=0))[1:], rtol=0.35
    )


def test_lines_are_those_of_weighted_least_squares() -> None:
    """Slopes in f by plain regressions at each rank; the intercepts follow from the means."""
    scores = np.random.default_rng(1).normal(size=(3000, 8))
    counts, relevance, propensity = lists_seen_once(trust_bias(3), 3000, seed=4, scores=scores)
    f = prediction(relevance, 3)
    fit = fit_trust_bias(counts, policy=KnownPolicy(propensity, "", f), folds=0)
    weight = 1 / propensity / (1 / propensity).sum(axis=1, keepdims=True)
    slopes, rates = [], []
    for rank in range(3):
        at = counts.impressions[:, rank] > 0
        root = np.sqrt(weight[at, rank])
        design = np.column_stack([np.ones(at.sum()), f[at]]) * root[:, None]
        level, slope = np.linalg.lstsq(design, counts.clicks[at, rank] * root, rcond=None)[0]
        slopes.append(slope)
        rates.append((level, slope, weight[at, rank] @ f[at], weight[at, rank].sum()))
    np.testing.assert_allclose(fit.canonical.slope, np.array(slopes) / slopes[0], rtol=1e-9)
    for rank, (level, slope, total, mass) in enumerate(rates):
        first = rates[0]
        common = (total + first[2]) / (mass + first[3])
        expected = level + slope * common - slope / slopes[0] * (first[0] + first[1] * common)
        np.testing.assert_allclose(fit.canonical.intercept[rank], expected, atol=1e-9)


def test_a_policy_that_did_not_make_the_log_is_refused() -> None:
    scores = np.random.default_rng(5).normal(size=(5000, 8))
    counts, relevance, _ = lists_seen_once(position_bias(5), 5000, seed=1, scores=scores)
    uniform = KnownPolicy(np.full(counts.impressions.shape, 1 / 8), "It is said.", relevance)
    with pytest.raises(InputError, match="must be what made the log, but ranks do not show"):
        fit_position_bias(counts, policy=uniform)


def test_shorter_lists_are_compared_where_they_reach() -> None:
    """Queries with short lists are of another kind: pooled click rates would be wrong."""
    model = position_bias(4, eta=0.5)
    rng = np.random.default_rng(0)
    lists, documents = 8000, 4
    short = rng.random(lists) < 0.5
    relevance = np.where(short[:, None], 0.7, 0.3) * rng.random((lists, documents))
    order = np.argsort(rng.random((lists, documents)), axis=1)
    rows = np.arange(lists)[:, None]
    shown, clicked = np.zeros((2, lists, documents, 4), dtype=np.int64)
    shown[rows, order, np.arange(4)] = ~short[:, None] | (np.arange(4) < 2)
    chance = model.probability(relevance)[rows, order, np.arange(4)]
    clicked[rows, order, np.arange(4)] = rng.random(chance.shape) < chance
    flat = (lists * documents, 4)
    counts = Counts(np.arange(lists + 1) * 4, shown.reshape(flat), (clicked * shown).reshape(flat))
    fit = fit_position_bias(counts, policy=KnownPolicy(np.full(flat, 0.25), ""))
    assert np.abs(away(fit, model)).max() < 3
    raw = counts.clicks.sum(axis=0) / counts.impressions.sum(axis=0)
    assert abs(raw[2] / raw[0] - canonical(model).slope[2]) > 0.1


def test_propensities_of_what_was_shown_are_enough() -> None:
    scores = 0.5 * np.random.default_rng(7).normal(size=(10_000, 8))
    counts, relevance, propensity = lists_seen_once(position_bias(5), 10_000, seed=2, scores=scores)
    recorded = np.where(counts.impressions > 0, propensity, 0.0)
    policy = KnownPolicy(recorded, "", prediction(relevance, 0), complete=False)
    assert np.abs(away(fit_position_bias(counts, policy=policy), position_bias(5))).max() < 3.5


def test_trust_bias_without_predictions_is_refused() -> None:
    counts, _, propensity = lists_seen_once(trust_bias(5), 100, seed=0)
    with pytest.raises(InputError, match="cannot be told from click rates alone"):
        fit_trust_bias(counts, policy=KnownPolicy(propensity, ""))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.1, 5.0))
def test_weights_show_the_same_documents_at_every_rank(seed: int, spread: float) -> None:
    """Sum over rankings of P0 w is the same g(d) at every rank, and no weight exceeds 1."""
    scores = spread * np.random.default_rng(seed).normal(size=5)
    propensity = rank_probabilities(scores, 3, np.array([0, 5]))
    weight = KnownPolicy(propensity, "").weights(np.ones((5, 3)))
    assert (weight <= 1).all()
    np.testing.assert_allclose(weight.sum(axis=1), 1.0)
    shown = weight * propensity
    np.testing.assert_allclose(shown, np.repeat(shown[:, :1], 3, axis=1), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["position", "trust"])
def test_intervals_hold_the_truth_as_often_as_they_say(kind: str) -> None:
    """200 worlds of 10,000 lists seen once; docs/clicks.md has the figures."""
    truth = canonical(MODELS[kind])
    held: dict[str, list[bool]] = {"slope": [], "click rate": []}
    for world in range(200):
        counts, relevance, propensity = lists_seen_once(MODELS[kind], 10_000, seed=1000 + world)
        policy = KnownPolicy(propensity, "", prediction(relevance, world))
        fit = FITS[kind](counts, policy=policy)
        sure = fit.uncertainty
        for name, (low, high), true in (
            ("slope", sure.slope.T, truth.slope),
            ("click rate", sure.level.T, truth.level(fit.level_at)),
        ):
            held[name].append((low <= true) & (true <= high))
    for name, inside in held.items():
        share = np.mean(np.array(inside)[:, 1:])
        print(kind, name, f"{share:.1%}")
        assert 0.93 <= share <= 0.97


def test_heavy_weights_are_told() -> None:
    """One impression of propensity 0.01 beside a hundred of 0.99: worth about four, by hand."""
    shown = np.array([[100.0, 1.0], [1.0, 100.0]])
    cells = Cells(shown, shown / 4, np.ones(2))
    policy = KnownPolicy(np.array([[0.99, 0.01], [0.01, 0.99]]), "")
    weight = np.array([[0.01, 0.99], [0.99, 0.01]])
    worth = (weight * shown).sum(axis=0) ** 2 / (weight**2 * shown).sum(axis=0)
    said = weight_sentence(cells, policy, np.zeros(2, dtype=np.int64))
    assert f"the 101 impressions at rank 1 are worth {worth[0]:.0f} of equal weight" in said
    even = KnownPolicy(np.full((2, 2), 0.5), "")
    assert weight_sentence(cells, even, np.zeros(2, dtype=np.int64)) == ""
