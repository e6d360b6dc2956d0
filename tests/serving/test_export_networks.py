"""Networks in other engines: scaling, filling in, categories and layers, within a millionth."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from saferank.data import FeatureSchema, RankingData, Scaling
from saferank.data.features import Feature
from saferank.errors import InputError
from saferank.learning import Provenance, Ranker
from saferank.scorers.networks import NetworkScorer, make_network
from saferank.serving.export import TARGETS
from saferank.serving.export.exporting import compare, make_parity
from saferank.serving.export.source import Source

RNG = np.random.default_rng(1)
NAMES = ("price", "clicks", "brand", "age")
X = RNG.normal(3, 2, size=(500, 4)).astype(np.float32)
X[:, 1] = np.exp(X[:, 1])
X[:, 2] = RNG.integers(0, 5, 500)
GAPS = X.copy()
GAPS[RNG.random(500) < 0.2, 1] = np.nan
KINDS = ["none", "standard", "log1p", "clip", "query_minmax"]
BRANDS = Feature("brand", "category", ("a", "b", "c", "d"))


def network_ranker(kind, *, hidden=(16, 8), rich=False, adds=False):
    features = [Feature(name) for name in NAMES]
    if rich:
        features[2] = BRANDS
    schema = FeatureSchema(tuple(features))
    data = RankingData(GAPS if rich else X, np.arange(0, 501, 20), schema=schema)
    scaling = Scaling.fit(data, kind, encode=True)
    module = make_network(scaling.outputs, hidden, seed=3)
    origin = Provenance("test", {}, 0, 0, [1.0, 0.5], None, "none")
    scorer = NetworkScorer(module, scaling.outputs, tuple(hidden))
    return Ranker(scorer, scaling, origin, adds, None, 2.0 if adds else 1.0, schema)


def check(ranker, target, tmp_path, rows=3000):
    source = Source(ranker, "model")
    path = tmp_path / "model"
    TARGETS[target].write(source, path)
    parity = make_parity(source, target, rows)
    for found in compare(TARGETS[target], path, parity):
        assert found.rows_apart == 0
        assert found.largest_difference < 1e-6
    return parity, path


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rich", [False, True])
@pytest.mark.parametrize("hidden", [(), (16, 8)])
def test_onnx_scales_fills_in_and_scores_as_the_ranker_does(kind, rich, hidden, tmp_path):
    parity, _ = check(network_ranker(kind, hidden=hidden, rich=rich), "onnx", tmp_path)
    assert np.isnan(parity.features).any()
    sizes = np.diff(parity.offsets)
    assert sizes.min() == 1
    assert np.unique(sizes).size > 20


def test_what_the_ranker_adds_to_is_an_input(tmp_path):
    parity, path = check(network_ranker("log1p", adds=True), "onnx", tmp_path)
    assert parity.production is not None
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    first = slice(0, parity.offsets[1])
    rows = {"features": parity.features[first]}
    none, more = (
        session.run(["scores"], rows | {"production": np.full(parity.offsets[1], value)})[0]
        for value in (0.0, 3.0)
    )
    assert np.allclose(more - none, 1.5)


@pytest.mark.parametrize("kind", ["none", "standard"])
def test_solr_has_layers_and_normalizers(kind, tmp_path):
    ranker = network_ranker(kind)
    parity, path = check(ranker, "solr", tmp_path)
    model = json.loads(path.read_text())
    assert [feature["name"] for feature in model["features"]] == list(NAMES)
    assert ("norm" in model["features"][0]) == (kind == "standard")
    # as a layer is written in the network itself
    with torch.no_grad():
        inputs = torch.from_numpy(ranker.scaling.apply(parity.features[:50]))
        expected = ranker.scorer.module(inputs).numpy()[:, 0]
    assert np.allclose(parity.scores[:50], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["none", "standard"])
def test_linear_weights_are_of_raw_features(kind, tmp_path):
    ranker = network_ranker(kind, hidden=())
    parity, path = check(ranker, "linear", tmp_path)
    weights = json.loads(path.read_text())
    plain = parity.features.astype(np.float64) @ [weights[name] for name in NAMES]
    assert np.allclose(plain, parity.scores, rtol=1e-5, atol=1e-5)
    data = RankingData(parity.features, parity.offsets, schema=ranker.features)
    shift = ranker.scores(data) - plain
    assert np.ptp(shift) < 1e-4 * np.abs(shift).max() + 1e-5
    (note,) = TARGETS["linear"].write(Source(ranker, "model"), path)
    told = float(note.split(", ")[1])
    assert np.isclose(told, shift.mean(), rtol=1e-3, atol=1e-5)


def test_what_an_engine_cannot_express_is_refused(tmp_path):
    def refused(ranker, target, sentence):
        with pytest.raises(InputError, match=sentence):
            TARGETS[target].write(Source(ranker, "model"), tmp_path / "model")

    for target in ("solr", "linear"):
        refused(network_ranker("log1p", hidden=()), target, "cannot scale features by `log1p`")
        refused(network_ranker("query_minmax", hidden=()), target, "one document at a time")
        rich = network_ranker("standard", hidden=(), rich=True)
        refused(rich, target, "no missing values and no categories.*`clicks`, `brand`")
        refused(network_ranker("none", hidden=(), adds=True), target, "adds to production's score")
    refused(network_ranker("none"), "linear", "takes a linear ranker, and this one is a network")
    for target in ("lightgbm", "lightgbm-json", "xgboost-json", "ranklib"):
        refused(network_ranker("none"), target, "takes trees, and this ranker is a network")
    own = replace(network_ranker("none"), scorer=NetworkScorer(torch.nn.Linear(4, 1), 4, None))
    refused(own, "onnx", "a module of your own is not exported")
