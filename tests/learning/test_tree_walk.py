"""Trees walked side by side: to the last bit as one document after another."""

import lightgbm
import numpy as np
import pytest

from saferank.scorers.networks import NetworkScorer, make_network
from saferank.scorers.tree_scorer import TreeScorer
from saferank.scorers.tree_text import Forest
from saferank.scorers.tree_walk import nodes_of, slots_of, walk

RNG = np.random.default_rng(0)
X = RNG.normal(size=(700, 6)).astype(np.float32)
X[RNG.random(X.shape) < 0.2] = 0
X[:20] = np.float32(1e-36)
X[:5] = -0.0
X[20:23] = np.inf
Y = X[:, 0] * (X[:, 1] > 0) + np.where(np.isfinite(X[:, 2]), X[:, 2], 1) ** 2


def forest_of(trees, leaves, **options):
    fixed = {"num_leaves": leaves, "verbosity": -1, "num_threads": 1, "min_data_in_leaf": 1}
    data = lightgbm.Dataset(X, label=np.where(np.isfinite(Y), Y, 0.0))
    return lightgbm.train(fixed | options, data, num_boost_round=trees)


@pytest.mark.parametrize(("trees", "leaves"), [(1, 2), (7, 3), (20, 31), (5, 200)])
@pytest.mark.parametrize("documents", [0, 1, 15, 16, 17, 700])
def test_side_by_side_is_one_after_another(trees, leaves, documents):
    grown = forest_of(trees, leaves)
    nodes = nodes_of(Forest.parse(grown.model_to_string()).trees)
    slots, rows = slots_of(nodes), X[:documents]
    np.testing.assert_array_equal(walk(rows, nodes, slots), walk(rows, nodes))
    if documents:
        np.testing.assert_array_equal(walk(rows, nodes, slots), grown.predict(rows))
    deepest = [tree["tree_structure"] for tree in grown.dump_model()["tree_info"]]
    np.testing.assert_array_equal(slots.depth, [depth_of(tree) for tree in deepest])


def depth_of(node):
    if "left_child" not in node:
        return 0
    return 1 + max(depth_of(node["left_child"]), depth_of(node["right_child"]))


def test_missing_values_are_walked_as_before():
    gaps = np.where(RNG.random(X.shape) < 0.1, np.float32(np.nan), X)
    for options in ({}, {"zero_as_missing": True}):
        grown = forest_of(10, 15, **options)
        scorer = TreeScorer(Forest.parse(grown.model_to_string()))
        for rows in (X, gaps):
            np.testing.assert_array_equal(scorer.scores(rows), grown.predict(rows))
    assert slots_of(nodes_of(Forest.parse(grown.model_to_string()).trees)) is None


def test_trees_without_a_split_and_no_trees():
    constant = lightgbm.train(
        {"verbosity": -1, "num_threads": 1}, lightgbm.Dataset(X, label=np.ones(len(X))), 2
    )
    scorer = TreeScorer(Forest.parse(constant.model_to_string()))
    np.testing.assert_array_equal(scorer.scores(X), constant.predict(X))
    assert not TreeScorer.empty(6).scores(X).any()


@pytest.mark.parametrize("hidden", [(), (8,), (16, 5)])
def test_a_prepared_network_has_the_same_bits(hidden):
    scorer = NetworkScorer(make_network(6, hidden, 0), 6, hidden)
    rows = np.nan_to_num(X, posinf=3.0)
    np.testing.assert_array_equal(scorer.prepare().scores(rows), scorer.scores(rows))
