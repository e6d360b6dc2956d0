"""Rankings in an ONNX graph: exposures, shares and draws against the package and enumeration."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from forests import NAMES, X, forest_ranker
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from worlds import exposure as enumerated_exposure
from worlds import rankings

from saferank.data import RankingData
from saferank.errors import InputError
from saferank.plackett_luce import deterministic_exposure, exposure
from saferank.safety import Guard, Promise
from saferank.safety.losses import largest_within
from saferank.serving.export import TARGETS, onnx_exposure, onnx_policy
from saferank.serving.export.exporting import compare, make_parity
from saferank.serving.export.onnx_graph import Graph
from saferank.serving.export.onnx_target import model_of
from saferank.serving.export.source import Source

onnxruntime = pytest.importorskip("onnxruntime")
WEIGHTS = np.array([1.0, 0.63, 0.5, 0.43, 0.39])
RANKER = forest_ranker(trees=10)


def session_of(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def function_of(build, *inputs):
    """A graph of vectors as a function."""
    graph = Graph()
    graph.rename(build(graph), "out")
    vectors = {name: ("DOUBLE", [f"{name}_length"]) for name in inputs}
    session = session_of(graph.model(vectors, {"out": ("DOUBLE", ["length"])}))
    return lambda *values: session.run(None, dict(zip(inputs, values, strict=True)))[0]


SAMPLED = function_of(lambda g: onnx_exposure.sampled_exposure(g, "s", WEIGHTS), "s")
SORTED = function_of(lambda g: onnx_exposure.sorted_exposure(g, "s", WEIGHTS), "s")
LARGEST = function_of(lambda g: onnx_policy.largest_within(g, "a", "b", "c"), "a", "b", "c")
SCORES = st.lists(st.floats(-60, 60), min_size=1, max_size=30).map(np.array)


@settings(max_examples=60)
@given(SCORES)
def test_exposures_are_those_of_the_package(scores):
    cuts = [0, scores.size]
    assert np.allclose(SAMPLED(scores), exposure(scores, WEIGHTS, cuts), rtol=0, atol=1e-9)
    assert np.array_equal(SORTED(scores), deterministic_exposure(scores, WEIGHTS, cuts))


def test_exposures_of_long_equal_and_far_apart_scores():
    rng = np.random.default_rng(0)
    few = rng.normal(size=4)
    assert np.allclose(SAMPLED(few), enumerated_exposure(few, WEIGHTS), atol=1e-9)
    for scores in (
        np.zeros(200), rng.normal(0, 10, 300), np.array([0.0, -1e4, 1e4]), np.arange(50.0) * 30,
        np.array([1e8, 1e8 + 1, 0.0]),
    ):  # fmt: skip
        expected = exposure(scores, WEIGHTS, [0, scores.size])
        assert np.allclose(SAMPLED(scores), expected, rtol=0, atol=1e-9)


@settings(max_examples=100)
@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 1)), min_size=1, max_size=20),
       st.floats(0, 1))  # fmt: skip
def test_shares_are_those_of_the_package(pairs, allowed):
    a, b = np.array(pairs).T.copy()
    found = LARGEST(a, b, np.array([allowed]))[0]
    assert math.isclose(found, largest_within(a, b, allowed), abs_tol=1e-12)


def features_of(documents, seed=0):
    return X[np.random.default_rng(seed).integers(0, len(X), documents)]


def test_drawn_rankings_have_plackett_luce_frequencies():
    session = session_of(model_of(Source(RANKER, "model", k=2)))
    features = features_of(4)
    scores = session.run(["scores"], {"features": features, "uniforms": np.full(4, 0.5)})[0]
    rng, draws = np.random.default_rng(1), 20_000
    counts = dict.fromkeys(itertools.permutations(range(4), 2), 0)
    for _ in range(draws):
        given_ = {"features": features, "uniforms": rng.random(4)}
        counts[tuple(session.run(["ranking"], given_)[0].tolist())] += 1
    expected = dict(rankings(scores.tolist(), 2))
    observed, wanted = zip(*((counts[r], draws * p) for r, p in expected.items()), strict=True)
    assert stats.chisquare(observed, wanted).pvalue > 1e-3


def test_a_list_shorter_than_k_is_ranked_whole():
    session = session_of(model_of(Source(RANKER, "model", k=10)))
    for documents in (1, 3, 9, 10, 11, 400):
        given_ = {
            "features": features_of(documents),
            "uniforms": np.random.default_rng(documents).random(documents),
        }
        ranking = session.run(["ranking"], given_)[0]
        assert sorted(set(ranking.tolist())) == sorted(ranking.tolist())
        assert ranking.size == min(10, documents)


KINDS = ["sampled", "sorted", "uniform", "observed"]


@pytest.mark.parametrize("deployed", ["sampled", "sorted"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("adds", [False, True])
def test_the_guard_in_the_graph_is_the_guard(deployed, kind, adds, tmp_path):
    ranker = replace(RANKER, adds_production=adds, production_temperature=2.0)
    guard = Guard(
        ranker, promise=Promise(0.9, 0.01), weights=WEIGHTS, deployed=deployed,
        production_kind=kind, production_temperature=1.5, mode="mix",
    )  # fmt: skip
    source = Source(ranker, "model", k=5, guard=guard)
    path = tmp_path / "model.onnx"
    notes = TARGETS["onnx"].write(source, path)
    assert bool(notes) == (kind == "observed")
    parity = make_parity(source, "onnx", 1500)
    assert parity.share is not None
    assert kind == "observed" or (parity.share < 1).any()
    assert {bool(new) for new in parity.chance < parity.share} == {True, False}
    assert all(check.rows_apart == 0 for check in compare(TARGETS["onnx"], path, parity))


def test_guarded_frequencies_are_the_certified_exposures():
    features = features_of(4, seed=3)
    production = np.array([3.0, 0.0, 1.0, 2.0])
    guard = Guard(
        RANKER,
        promise=Promise(0.9, 0.05),
        weights=WEIGHTS[:2],
        production_kind="sampled",
        mode="mix",
    )
    session = session_of(model_of(Source(RANKER, "model", k=2, guard=guard)))
    rng, draws = np.random.default_rng(2), 20_000
    shown = np.zeros((2, 4))
    for _ in range(draws):
        given_ = {
            "features": features, "production": production, "uniforms": rng.random(4),
            "chance": rng.random(1),
        }  # fmt: skip
        for rank, document in enumerate(session.run(["ranking"], given_)[0]):
            shown[rank, document] += 1
    data = RankingData(features, [0, 4], feature_names=NAMES, production=production)
    assert 0 < guard.mixing(data)[0] < 1
    seen = WEIGHTS[:2] @ shown / draws
    assert np.allclose(seen, guard.exposure(data), atol=5 * 0.5 / math.sqrt(draws))


def test_the_best_policy_is_no_graph():
    guard = Guard(RANKER, promise=Promise(0.9, 0.05), weights=WEIGHTS, production_kind="sampled")
    with pytest.raises(InputError, match="--guard-mode mix"):
        model_of(Source(RANKER, "model", k=2, guard=guard))
