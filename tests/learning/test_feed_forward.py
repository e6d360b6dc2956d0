"""Scores without torch: those of the formula, the same bits however documents are scored."""

import math

import numpy as np
import pytest
import torch

from saferank._core.threads import use_threads
from saferank.data import RankingData, Scaling
from saferank.errors import InputError
from saferank.scorers import networks
from saferank.scorers.feed_forward import score

SHAPES = [(1, ()), (136, ()), (5, (3,)), (136, (32, 32)), (7, (9, 1, 33))]


def scorer_of(width, hidden):
    return networks.NetworkScorer(networks.make_network(width, hidden, 1), width, hidden)


def plain_score(module, row):
    """In Python's own numbers."""
    values = [float(x) for x in row]
    for layer in module:
        if isinstance(layer, torch.nn.ReLU):
            values = [max(0.0, x) for x in values]
        else:
            weights, bias = layer.weight.tolist(), layer.bias.tolist()
            values = [
                math.fsum([b, *(w * x for w, x in zip(row, values, strict=True))])
                for row, b in zip(weights, bias, strict=True)
            ]
    return values[0]


@pytest.mark.parametrize(("width", "hidden"), SHAPES)
def test_scores_are_those_of_the_formula_and_of_torch(width, hidden):
    scorer = scorer_of(width, hidden)
    features = np.random.default_rng(0).normal(size=(70, width)).astype(np.float32)
    scores = scorer.scores(features)
    expected = [plain_score(scorer.module, row) for row in features]
    np.testing.assert_allclose(scores, expected, rtol=0, atol=2e-6)
    with torch.no_grad():
        theirs = scorer.module(torch.from_numpy(features)).reshape(-1).numpy()
    np.testing.assert_allclose(scores, theirs, rtol=0, atol=2e-6)


@pytest.mark.parametrize(("width", "hidden"), [(136, ()), (20, (17, 6))])
def test_a_score_does_not_depend_on_batch_threads_or_layout(width, hidden):
    scorer = scorer_of(width, hidden)
    features = np.random.default_rng(0).normal(size=(1000, width)).astype(np.float32)
    with use_threads(1):
        expected = scorer.scores(features)
    with use_threads(7):
        assert scorer.scores(features).tobytes() == expected.tobytes()
    apart = np.concatenate([scorer.scores(features[i : i + 1]) for i in range(40)])
    assert apart.tobytes() == expected[:40].tobytes()
    assert scorer.scores(np.asfortranarray(features)).tobytes() == expected.tobytes()
    assert scorer.scores(features[::-1]).tobytes() == expected[::-1].tobytes()


def test_what_is_not_a_number_stays_so():
    scorer = scorer_of(3, (4, 2))
    features = np.array([[1, 2, 3], [np.nan, 2, 3]], np.float32)
    assert np.isnan(scorer.scores(features)).tolist() == [False, True]
    assert scorer.scores(features[:0]).tolist() == []


@pytest.mark.parametrize("shape", [(2, 4), (2, 2), (3,)])
def test_features_of_another_width_are_refused(shape):
    layers = [(np.zeros((1, 3), np.float32), np.zeros(1, np.float32))]
    with pytest.raises(InputError, match=r"`features` must be of shape \(documents, 3\)"):
        score(layers, np.zeros(shape, np.float32))


@pytest.mark.parametrize("documents", [1, 2, 17, 100])
def test_features_scaled_within_the_loop_give_the_same_bits(documents):
    rng = np.random.default_rng(documents)
    features = rng.normal(3, 50, size=(documents, 9)).astype(np.float32)
    scaling = Scaling.fit(RankingData(features, [0, documents]), "standard", encode=True)
    features[rng.random(features.shape) < 0.1] = np.nan
    scorer = scorer_of(9, (6, 5))
    standard = scaling.as_standard()
    assert standard is not None
    quick = scorer.prepare(standard).scores(features)
    assert quick.tobytes() == scorer.scores(scaling.apply(features)).tobytes()
    assert Scaling("none", 9).as_standard() is None
