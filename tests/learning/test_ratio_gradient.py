"""The gradient of log probabilities of rankings, by sixty digits and by the definition."""

from decimal import Decimal, getcontext

import numpy as np
import pytest

from saferank.objectives.ratios import ratio_gradient

getcontext().prec = 60


def expected(scores, ranking, slope):
    """d/ds of slope log pi: one at a place less the chance of each race, race by race."""
    rates = [Decimal(float(s)).exp() for s in scores]
    result, left = [Decimal(0)] * len(scores), set(range(len(scores)))
    for document in ranking:
        total = sum(rates[d] for d in left)
        for d in left:
            result[d] -= Decimal(slope) * rates[d] / total
        result[document] += Decimal(slope)
        left.remove(document)
    return np.array([float(value) for value in result])


@pytest.mark.parametrize("scores", [
    [0.0, -40.0, -41.0, -42.0],
    [40.0, 0.0, 0.0, 0.0],
    [0.0, 0.0, 0.0, 0.0],
    [900.0, 0.0, -900.0, 1.0],
    [-3.0, 700.0, 699.0, -700.0],
])  # fmt: skip
@pytest.mark.parametrize("ranking", [[0, 1, 2], [2, 0, -1], [3, 2, 1], [1, -1, -1]])
def test_extreme_scores(scores, ranking):
    found = ratio_gradient(
        np.array(scores), np.array([0, 4]), np.array([[ranking]]), np.array([[1.5]])
    )
    placed = [document for document in ranking if document >= 0]
    np.testing.assert_allclose(found, expected(scores, placed, 1.5), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("spread", [0.1, 1.0, 5.0, 20.0, 60.0])
def test_several_queries_and_rankings(spread):
    rng = np.random.default_rng(int(spread))
    sizes = [1, 5, 8]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    scores = spread * rng.normal(size=offsets[-1])
    rankings = np.full((3, 4, 3), -1)
    slope = rng.normal(size=(3, 4))
    total = np.zeros(offsets[-1])
    for query, size in enumerate(sizes):
        for sample in range(4):
            drawn = rng.permutation(size)[:3]
            rankings[query, sample, : drawn.size] = drawn + offsets[query]
            part = scores[offsets[query] : offsets[query + 1]]
            total[offsets[query] : offsets[query + 1]] += expected(
                part, drawn, slope[query, sample]
            )
    np.testing.assert_allclose(
        ratio_gradient(scores, offsets, rankings, slope), total, rtol=1e-10, atol=1e-13
    )
