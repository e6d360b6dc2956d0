"""Fits by features without each part of the log: one step lands where fitting anew would."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from saferank.clicks.bias.em import Cells, Estimate, expectation_maximisation, first_estimate
from saferank.clicks.bias.feature_groups import Logistic, standardised
from saferank.clicks.bias.left_out import _by_part, estimates_without

RANKS, DOCUMENTS, PARTS = 4, 6000, 10


def world(trust: bool, seed: int = 0) -> tuple[np.ndarray, Cells]:
    """Each document at one rank, five times; relevance is a logistic function of features."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(DOCUMENTS, 3))
    relevance = expit(1.5 * features @ [1.0, -0.7, 0.4] - 0.5)
    alpha = np.array([0.7, 0.5, 0.35, 0.25])
    beta = np.array([0.2, 0.15, 0.1, 0.05]) if trust else np.zeros(RANKS)
    shown = np.zeros((DOCUMENTS, RANKS))
    shown[np.arange(DOCUMENTS), rng.integers(0, RANKS, DOCUMENTS)] = 5
    clicked = rng.binomial(shown.astype(int), alpha * relevance[:, None] + beta).astype(float)
    return standardised(features), Cells(shown, clicked, np.ones(DOCUMENTS))


def fit(x: np.ndarray, cells: Cells, trust: bool, start: Estimate | None = None) -> Estimate:
    relevance = Logistic(x, cells)
    start = start or first_estimate(cells, relevance, trust=trust)
    return expectation_maximisation(cells, relevance, start, tolerance=1e-9)


@pytest.mark.parametrize("trust", [False, True])
def test_one_step_is_the_fit_without_the_part(trust: bool) -> None:
    x, cells = world(trust)
    estimate = fit(x, cells, trust)
    part = np.arange(DOCUMENTS) % PARTS
    values = Logistic(x, cells).values(estimate.parameters)
    quick = np.array([each.lines(0) for each in
                      estimates_without(estimate, x, values, cells, part, PARTS)])  # fmt: skip
    slow = np.array([
        fit(x, cells._replace(weight=(part != p).astype(float)), trust, estimate).lines(0)
        for p in range(PARTS)
    ])  # fmt: skip
    both = slice(1, RANKS) if not trust else [*range(1, RANKS), *range(RANKS + 1, 2 * RANKS)]
    spread = slow[:, both].std(axis=0)
    np.testing.assert_allclose(quick[:, both].std(axis=0), spread, rtol=0.2)
    assert np.abs(quick[:, both] - slow[:, both]).max() < 0.35 * spread.max()


def test_scores_are_slopes_of_the_likelihood() -> None:
    x, cells = world(True)
    estimate = fit(x, cells, True)
    moved = Estimate(0.9 * estimate.relevant, 0.8 * estimate.other, 0.9 * estimate.parameters)
    part = np.arange(DOCUMENTS) % 2

    def likelihood(theta: np.ndarray, number: int) -> float:
        relevant, other, weights = np.split(theta, [RANKS, 2 * RANKS])
        r = expit(x @ weights)[:, None]
        p = r * relevant + (1 - r) * other
        terms = cells.clicked * np.log(p) + (cells.shown - cells.clicked) * np.log(1 - p)
        return float(terms[part == number].sum())

    values = expit(x @ moved.parameters)
    _, scores = _by_part(moved, x, values, cells, part, 2)
    theta = moved.vector()
    for number in range(2):
        for index in range(theta.size):
            step = np.zeros_like(theta)
            step[index] = 1e-6
            slope = (likelihood(theta + step, number) - likelihood(theta - step, number)) / 2e-6
            assert scores[number, index] == pytest.approx(slope, rel=1e-4, abs=1e-2)
