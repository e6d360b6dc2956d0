"""Harvesting, its errors, and what it says when it fails: against other routes to the same."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from saferank._core import flat
from saferank._core.flat import Floats
from saferank.clicks import ClickModel, fit_position_bias, fit_trust_bias, identifiability
from saferank.clicks.bias import canonical
from saferank.clicks.bias.em import Cells
from saferank.clicks.bias.folds import effective_number, make_folds
from saferank.clicks.bias.harvest_position import harvest_position
from saferank.clicks.bias.harvest_trust import harvest_trust
from saferank.counts import Counts
from saferank.errors import InputError

FIT = {"trust": fit_trust_bias, "position": fit_position_bias}
SHOP = ClickModel(np.array([0.5, 0.4, 0.3]), np.array([0.1, 0.05, 0.02]))


def cells_of(seed: int, documents: int = 60, often: int = 60, ranks: int = 3) -> Cells:
    """Documents shown at some ranks only, clicked by the users of a shop."""
    rng = np.random.default_rng(seed)
    shown = rng.integers(0, often, size=(documents, ranks)) * (rng.random((documents, ranks)) < 0.7)
    shown[:, 0] += 1
    p = ClickModel(SHOP.alpha[:ranks], SHOP.beta[:ranks]).probability(rng.uniform(size=documents))
    clicked = rng.binomial(shown, p)
    return Cells(shown.astype(float), clicked.astype(float), np.ones(documents))


# -- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["harvest", "em"])
def test_two_single_impressions_tell_nothing(method: str) -> None:
    """Rank 2 has 400 clicks; each document was at its other rank once, and not clicked there."""
    counts = Counts([0, 2], [[1000, 1], [1, 1000]], [[500, 0], [0, 400]], [1001])
    with pytest.raises(InputError, match="No document was shown twice at each of two"):
        fit_trust_bias(counts, method=method)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="cannot be told with any certainty"):
        fit_position_bias(counts, method=method)  # type: ignore[arg-type]


def test_a_rank_where_linked_documents_have_no_clicks_is_named() -> None:
    shown = [[100, 50, 0], [80, 0, 20], [60, 60, 20]]
    counts = Counts([0, 3], shown, [[50, 20, 0], [30, 0, 0], [20, 10, 0]])
    with pytest.raises(InputError, match="alpha cannot be told at rank 3 beside rank 1"):
        fit_position_bias(counts)


def test_links_are_counted_as_the_fit_needs_them() -> None:
    counts = Counts([0, 2], [[9, 1, 0], [5, 5, 5]], np.zeros((2, 3), dtype=int))
    assert identifiability(counts).several == 2
    strict = identifiability(counts, least=2)
    assert strict.several == 1
    assert not strict.deterministic
    assert strict.overlap.weight[0, 1] == pytest.approx(2.5)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["trust", "position"]), st.integers(2, 4))
def test_a_fit_is_refused_or_has_alpha_and_intervals_at_every_rank_shown(
    seed: int, kind: str, ranks: int
) -> None:
    """Sparse logs of every sort: never 0, never an interval without width."""
    rng = np.random.default_rng(seed)
    documents = int(rng.integers(1, 30))
    shown = rng.poisson(rng.choice([0.3, 2.0, 20.0]), size=(documents, ranks))
    clicked = rng.binomial(shown, rng.choice([0.05, 0.4]) * rng.uniform(size=(documents, 1)))
    offsets = np.unique([0, documents, *rng.integers(0, documents + 1, 5)])
    counts = Counts(offsets, shown, clicked)
    try:
        fit = FIT[kind](counts)
    except InputError:
        return
    at = np.flatnonzero(shown.any(axis=0))
    assert np.all(fit.model.alpha[at] > 0)
    others = at[at != 0]
    if fit.uncertainty.known:
        low, high = fit.uncertainty.slope[others].T
        assert np.all((low > 0) & (low < high) & np.isfinite(high))
        assert np.all((low <= fit.canonical.slope[others]) & (fit.canonical.slope[others] <= high))
    assert all(np.isfinite(fit.canonical.slope[at]))


def test_one_query_of_one_document_has_no_intervals_rather_than_none_of_width() -> None:
    counts = Counts([0, 1], [[50, 50]], [[30, 15]])
    fit = fit_position_bias(counts)
    assert fit.canonical.slope[1] == pytest.approx(0.5)
    assert not fit.uncertainty.known
    assert np.isnan(fit.slope_error).all()
    assert "There are no intervals" in " ".join(fit.sentences())


def test_a_scale_that_leaves_no_probabilities_is_refused() -> None:
    form = canonical(ClickModel(np.array([0.4, 0.5]), np.array([0.5, 0.1])))
    with pytest.raises(InputError, match="at rank 2"):
        form.model(0.0, 1.0)


# -- position bias ------------------------------------------------------------------------------


def shared_out(cells: Cells, logs: Floats) -> float:
    """The likelihood of how documents' clicks fall on ranks, document by document."""
    total = 0.0
    for n, c in zip(cells.shown, cells.clicked, strict=True):
        weight = n * np.exp(logs)
        at = n > 0
        total += float(c[at] @ np.log(weight[at] / weight.sum()))
    return total


@pytest.mark.parametrize("seed", range(3))
def test_position_bias_shares_out_clicks_in_the_likeliest_way(seed: int) -> None:
    cells = cells_of(seed)
    fit, _ = harvest_position(cells, 2, None)
    best = optimize.minimize(
        lambda free: -shared_out(cells, np.array([free[0], 0.0, free[1]])), [0.0, 0.0], tol=1e-12
    )
    np.testing.assert_allclose(np.log(fit.slope[[0, 2]]), best.x, atol=1e-4)
    assert fit.slope[1] == 1


def test_position_bias_of_expected_clicks_is_the_truth() -> None:
    """The equations hold on average: with the expected clicks they give alpha itself."""
    rng = np.random.default_rng(0)
    shown = rng.integers(0, 9, size=(40, 4)).astype(float)
    truth = np.array([0.9, 0.5, 0.4, 0.1])
    cells = Cells(shown, shown * truth * rng.uniform(size=(40, 1)), np.ones(40))
    fit, _ = harvest_position(cells, 1, None)
    np.testing.assert_allclose(fit.slope, truth / truth[0], rtol=1e-9)


# -- trust bias ---------------------------------------------------------------------------------


def test_trust_bias_of_two_ranks_is_the_leading_direction_of_their_moments() -> None:
    cells = cells_of(4, documents=400, ranks=2)
    at = (cells.shown >= 2).all(axis=1)
    (n, m), (c, d) = cells.shown[at].T, cells.clicked[at].T
    w = n * m / (n + m)
    x, y = np.average(c / n, weights=w), np.average(d / m, weights=w)
    xx = np.average(c * (c - 1) / (n * (n - 1)), weights=w) - x**2
    yy = np.average(d * (d - 1) / (m * (m - 1)), weights=w) - y**2
    xy = np.average(c * d / (n * m), weights=w) - x * y
    rate = (cells.clicked.sum(axis=0) + 0.5) / (cells.shown.sum(axis=0) + 1)
    noise = np.sqrt(rate * (1 - rate))
    matrix = np.array([[xx, xy], [xy, yy]]) / np.outer(noise, noise)
    direction = np.linalg.eigh(matrix)[1][:, -1] * noise
    fit, _ = harvest_trust(cells, 1, None)
    slope = direction[1] / direction[0]
    assert fit.slope[1] == pytest.approx(slope, rel=1e-6)
    assert fit.intercept[1] == pytest.approx(y - slope * x, rel=1e-6)


def test_trust_bias_of_expected_moments_is_the_truth() -> None:
    """With so many impressions that noise is gone, lines through all ranks at once."""
    rng = np.random.default_rng(1)
    shown = np.where(rng.random((300, 3)) < 0.6, 1e12, 0.0)
    shown[:, 0] = np.where(shown.any(axis=1), shown[:, 0], 1e12)
    clicked = shown * SHOP.probability(rng.uniform(size=300))
    fit, _ = harvest_trust(Cells(shown, clicked, np.ones(300)), 1, None)
    true = canonical(SHOP)
    np.testing.assert_allclose(fit.slope, true.slope, rtol=1e-6)
    np.testing.assert_allclose(fit.intercept, true.intercept, atol=1e-6)


# -- leaving out parts --------------------------------------------------------------------------


@pytest.mark.parametrize("harvest", [harvest_position, harvest_trust])
def test_fits_without_a_part_are_those_of_the_other_documents(harvest) -> None:
    cells = cells_of(2, documents=600, often=300)
    folds = make_folds(cells, np.arange(600) // 2, 20, linked=True)
    assert folds is not None
    assert (folds.count, folds.unit) == (20, "queries")
    centre, left_out = harvest(cells, 1, folds)
    assert left_out is not None
    for part in (0, 7, 19):
        rest = Cells(*(values[folds.of_document != part] for values in cells))
        exact, _ = harvest(rest, 1, None)
        moved = np.abs(exact.slope - centre.slope).max()
        np.testing.assert_allclose(left_out.slope[part], exact.slope, atol=0.05 * moved)
        np.testing.assert_allclose(left_out.intercept[part], exact.intercept, atol=0.05 * moved)


def test_parts_are_of_queries_unless_few_have_most_of_the_traffic() -> None:
    cells = cells_of(3, documents=200)
    many = make_folds(cells, np.arange(200) // 4, 10, linked=True)
    few = make_folds(cells, np.arange(200) // 40, 10, linked=True)
    assert many is not None
    assert few is not None
    assert (many.unit, few.unit) == ("queries", "documents")
    assert 9 < many.effective <= 10
    for query in range(50):
        assert np.unique(many.of_document[4 * query : 4 * query + 4]).size == 1
    assert many.reach() > 2.2  # Student's t with 9 degrees of freedom, not 1.96


def test_effective_number_of_queries() -> None:
    traffic = 1 / np.arange(1, 301)
    assert effective_number(traffic) == pytest.approx(traffic.sum() ** 2 / (traffic**2).sum())
    assert effective_number(np.zeros(3)) == 0


def test_jackknife_error_of_a_ratio_is_that_of_its_residuals() -> None:
    """Two ranks, few clicks each: the error of log alpha is that of a sum of independent parts."""
    rng = np.random.default_rng(5)
    shown = np.full((400, 2), 50)
    clicked = rng.binomial(shown, rng.uniform(0, 0.1, (400, 1)) * np.array([1.0, 0.5]))
    counts = Counts(np.arange(401), shown, clicked)
    fit = fit_position_bias(counts, folds=400)
    slope = clicked[:, 1].sum() / clicked[:, 0].sum()
    residual = clicked[:, 1] - slope / (1 + slope) * clicked.sum(axis=1)
    bend = clicked.sum() * slope / (1 + slope) ** 2
    expected = np.sqrt(np.sum(residual**2)) / bend
    assert fit.canonical.slope[1] == pytest.approx(slope)
    assert fit.slope_error[1] / slope == pytest.approx(expected, rel=0.02)
    assert flat.query_of(counts.offsets).size == 400
