"""Errors that are predicted before any click: by networks, and beside the spread of real fits."""

from __future__ import annotations

import numpy as np
import pytest

from saferank.clicks import ClickModel
from saferank.clicks.bias.em import Cells
from saferank.clicks.bias.harvest_position import harvest_position
from saferank.clicks.bias.harvest_trust import harvest_trust
from saferank.clicks.bias.predicted_errors import position_errors, trust_errors

RARE = 1e-6
FLAT = ClickModel(np.ones(3), np.zeros(3))


def test_two_ranks_are_one_resistor():
    shown = 1e6 * np.array([[30.0, 10.0, 0.0], [5.0, 5.0, 0.0]])
    relevance = np.array([RARE, 2 * RARE])
    conductance = 30 * 10 / 40 + 2 * 5 * 5 / 10
    error = position_errors(shown, relevance, FLAT)
    np.testing.assert_allclose(error[:2], [0, conductance**-0.5], rtol=1e-5)
    assert error[2] == np.inf


def test_resistors_in_a_row_add_and_beside_each_other_share():
    chain = 1e7 * np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
    one = position_errors(chain, np.full(2, RARE), FLAT) ** 2
    np.testing.assert_allclose(one[2], 2 * one[1], rtol=1e-5)
    beside = position_errors(np.vstack([chain, [[1e7, 0, 1e7]]]), np.full(3, RARE), FLAT) ** 2
    # between 1 and 3: a resistor beside two in a row, 1 / (1 + 1 / 2)
    np.testing.assert_allclose(beside[2], one[1] * 2 / 3, rtol=1e-5)


@pytest.mark.parametrize(
    ("kind", "sessions", "beta"), [("position", 60, 0.0), ("trust", 1000, 0.1)]
)
def test_fits_of_simulated_logs_spread_as_predicted(kind, sessions, beta):
    rng = np.random.default_rng(3)
    ranks, documents = 4, 150
    model = ClickModel(0.6 / np.arange(1, ranks + 1), np.full(ranks, beta))
    relevance = rng.beta(1, 3, documents)
    chance = np.full((documents, ranks), 0.08)
    chance[np.arange(documents), rng.integers(ranks, size=documents)] = 1 - 0.08 * (ranks - 1)
    shown = np.array([rng.multinomial(sessions, own) for own in chance])
    predict, fit = {
        "position": (position_errors, harvest_position),
        "trust": (trust_errors, harvest_trust),
    }[kind]
    said = predict(shown.astype(float), relevance, model)
    probability = model.probability(relevance)
    fits = []
    for _ in range(250):
        clicked = rng.binomial(shown, probability)
        cells = Cells(shown.astype(float), clicked.astype(float), np.ones(documents))
        fits.append(np.log(fit(cells, 1, None)[0].slope))
    np.testing.assert_allclose(said[1:], np.std(fits, axis=0, ddof=1)[1:], rtol=0.2)


def test_trust_needs_documents_that_differ_and_two_impressions():
    model = ClickModel([0.5, 0.3], [0.1, 0.1])
    once = np.ones((50, 2))
    assert trust_errors(once, np.linspace(0, 1, 50), model)[1] == np.inf
    alike = trust_errors(10 * once, np.full(50, 0.3), model)[1]
    apart = trust_errors(10 * once, np.linspace(0, 1, 50), model)[1]
    assert not alike < 1e3
    assert apart < 1
