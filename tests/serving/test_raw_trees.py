"""Scaling folded into thresholds: every float32 number goes where the scaled one went."""

import numpy as np
import pytest
from forests import GAPS, X, forest_ranker
from hypothesis import example, given
from hypothesis import strategies as st

from saferank.data import Scaling
from saferank.errors import InputError
from saferank.scorers.tree_text import Tree
from saferank.scorers.tree_walk import nodes_of, walk
from saferank.serving.export.raw_trees import (
    LARGEST,
    key_of,
    largest_double,
    next_above,
    of_keys,
    raw_trees,
)

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
SPREADS = st.floats(1e-6, 1e6)


def stump(threshold, decision):
    lists = {
        "split_feature": "0", "threshold": repr(threshold), "decision_type": str(decision),
        "left_child": "-1", "right_child": "-2", "leaf_value": "1 2",
    }  # fmt: skip
    return Tree.parse({"num_leaves": "2", **lists}, 1, "tree")


def scaling_of(kind, centre, spread, low, high):
    clipped = (np.array([low]), np.array([high])) if kind == "clip" else (None, None)
    if kind == "none":
        return Scaling("none", 1)
    return Scaling(kind, 1, np.array([centre]), np.array([spread]), *clipped)


def plain_route(raw, value):
    """One tree, one value, by the words of `RawTree`."""
    (left,) = raw.missing_left if np.isnan(value) else value <= raw.threshold
    return raw.leaf_value[~(raw.left if left else raw.right)[0]]


@given(
    st.sampled_from(["none", "standard", "log1p", "clip"]), FLOATS, SPREADS, FLOATS,
    st.one_of(FLOATS, st.sampled_from([1e-35, -1e-35, 1.0000000180025095e-35, 0.0, -0.0])),
    st.sampled_from([0, 2, 8, 10]), st.lists(FLOATS, max_size=5),
)  # fmt: skip
@example("none", 0, 1.0, 0, -1.0000000180025095e-35, 0, [])
@example("standard", 3e38, 1e-6, 0, 0.0, 10, [])
@example("clip", 0.0, 1.0, 1.0, 5.0, 8, [0.0, 2.0])
def test_every_value_goes_where_the_scaled_one_went(
    kind, centre, spread, low, threshold, decision, others
):
    scaling = scaling_of(kind, centre, spread, low, max(low, low + spread))
    tree = stump(float(threshold), decision)
    (raw,) = raw_trees([tree], scaling)
    key = int(key_of(raw.threshold)[0])
    near = [key + step for step in (-2, -1, 0, 1, 2) if abs(key + step) <= key_of(LARGEST)]
    values = [*of_keys(near), *others, 0.0, -0.0, np.nan, LARGEST, -LARGEST]
    column = np.array(values, dtype=np.float32)[:, None]
    # LightGBM knows no number between 0 and 1e-35, and neither do we
    column = column[~((np.abs(column) <= 1e-35) & (column != 0) & (kind != "none"))][:, None]
    with np.errstate(over="ignore"):
        expected = walk(scaling.apply(column), nodes_of([tree]))
    assert [plain_route(raw, value) for value in column[:, 0]] == expected.tolist()


@pytest.mark.parametrize("kind", ["none", "standard", "log1p", "clip"])
@pytest.mark.parametrize("gaps", [False, True])
def test_a_forest_on_raw_features_is_that_on_scaled_ones(kind, gaps):
    ranker = forest_ranker(kind, gaps=gaps)
    trees = ranker.scorer.forest.trees
    folded = raw_trees(trees, ranker.scaling)
    features = GAPS if gaps else X
    expected = walk(ranker.scaling.apply(features), nodes_of(trees))
    total = np.zeros(len(features))
    for tree in folded:
        for row, values in enumerate(features):
            node = tree.root
            while node >= 0:
                value = values[tree.feature[node]]
                left = tree.missing_left[node] if np.isnan(value) else value <= tree.threshold[node]
                node = tree.left[node] if left else tree.right[node]
            total[row] += tree.leaf_value[~node]
    assert np.array_equal(total, expected)
    assert any(tree.knows_missing.any() for tree in folded) == gaps


@given(FLOATS, st.integers(-3, 3))
def test_doubles_are_routed_by_the_float_that_they_round_to(threshold, steps):
    here = np.array([threshold], dtype=np.float32)
    if abs(here[0]) == LARGEST:
        return
    double = largest_double(here)
    near = double
    for _ in range(abs(steps)):
        near = np.nextafter(near, np.copysign(np.inf, steps))
    assert (near <= double)[0] == (near.astype(np.float32) <= here)[0]
    assert double.astype(np.float32) == here
    above = np.nextafter(double, np.inf)
    assert above.astype(np.float32) == next_above(here)


def test_keys_are_in_the_order_of_numbers():
    values = np.sort(np.random.default_rng(0).normal(size=1000).astype(np.float32)) * 1e-38
    assert np.all(np.diff(key_of(values)) > 0)
    assert np.array_equal(of_keys(key_of(values)), values)


def test_what_no_threshold_can_do_is_refused():
    with pytest.raises(InputError, match="scales within a query"):
        raw_trees([stump(0.5, 2)], Scaling("query_minmax", 1))
    with pytest.raises(InputError, match="zeros for missing values"):
        raw_trees([stump(0.5, 4)], Scaling("none", 1))
    assert raw_trees([], Scaling("none", 1)) == []
