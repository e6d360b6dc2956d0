"""Trees in other engines: the same leaf for every row, by the engines and by their rules."""

import functools
import json
import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
from forests import GAPS, NAMES, forest_ranker, leaf_numbers, ranker_of
from hypothesis import example, given
from hypothesis import strategies as st

from saferank.data import FeatureSchema, RankingData, Scaling
from saferank.data.features import Feature
from saferank.errors import EngineError, InputError
from saferank.scorers.tree_text import Forest
from saferank.serving.export import TARGETS, exporting
from saferank.serving.export.exporting import compare, make_parity
from saferank.serving.export.solr import ADDED, FACTOR, before_adding
from saferank.serving.export.source import Source
from saferank.serving.export.xgboost_json import XGBoostJson

TREE_TARGETS = ["onnx", "lightgbm", "lightgbm-json", "xgboost-json", "ranklib", "solr"]
KINDS = ["none", "standard", "log1p", "clip"]


@functools.cache
def trained(kind, gaps):
    return forest_ranker(kind, gaps=gaps)


def written(ranker, target, folder):
    source = Source(ranker, "model")
    path = folder / "model"
    TARGETS[target].write(source, path)
    return source, path


@pytest.mark.parametrize("target", TREE_TARGETS)
@pytest.mark.parametrize("kind", ["none", "log1p"])
def test_a_hundred_thousand_rows_end_in_the_same_leaves(target, kind, tmp_path):
    gaps = TARGETS[target].has_missing
    ranker = trained(kind, gaps)
    for number in (0, 7, 19):
        source, path = written(leaf_numbers(ranker, number), target, tmp_path)
        parity = make_parity(source, target, 34_000, seed=number)
        assert np.isnan(parity.features).any() == gaps
        assert len(np.unique(parity.scores)) == ranker.scorer.forest.trees[number].leaf_value.size
        for engine, scores in TARGETS[target].scores(path, parity).items():
            assert np.array_equal(scores, parity.scores), engine


@pytest.mark.parametrize("target", TREE_TARGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_within_a_millionth(target, kind, tmp_path):
    source, path = written(trained(kind, TARGETS[target].has_missing), target, tmp_path)
    parity = make_parity(source, target, 10_000)
    for check in compare(TARGETS[target], path, parity):
        assert check.rows_apart == 0
        assert check.largest_difference < 1e-6
        assert check.engine != "ONNX Runtime" or check.largest_difference < 1e-9
    exact = {"LightGBM", "LightGBM's rule", "Treelite", "Vespa's rule"}
    for engine, scores in TARGETS[target].scores(path, parity).items():
        assert engine not in exact or np.array_equal(scores, parity.scores)


def test_all_engines_are_asked(tmp_path):
    engines = {"lightgbm": {"LightGBM", "LightGBM's rule", "Treelite"}, "onnx": {"ONNX Runtime"}}
    for target, wanted in engines.items():
        source, path = written(trained("none", True), target, tmp_path)
        assert set(TARGETS[target].scores(path, make_parity(source, target, 100))) == wanted


def by_xgboost(path, row):
    """As the plugins' source has it: `threshold > value` is left; NaN goes to `missing`."""

    def walk(node):
        if "leaf" in node:
            return np.float32(node["leaf"])
        value = np.float32(row[NAMES.index(node["split"])])
        if np.isnan(value):
            wanted = node["missing"]
        else:
            wanted = node["yes"] if np.float32(node["split_condition"]) > value else node["no"]
        return walk(next(child for child in node["children"] if child["nodeid"] == wanted))

    return sum((walk(tree) for tree in json.loads(path.read_text())), np.float32(0))


def by_ranklib(path, row):
    """By an XML parser; `<=` is left."""
    text = "\n".join(line for line in path.read_text().splitlines() if not line.startswith("#"))

    def walk(split):
        if split.find("output") is not None:
            return np.float32(split.find("output").text)
        value = np.float32(row[int(split.find("feature").text) - 1])
        side = "left" if value <= np.float32(split.find("threshold").text) else "right"
        return walk(next(child for child in split.findall("split") if child.get("pos") == side))

    trees = ET.fromstring(text).findall("tree")
    return sum((walk(tree.find("split")) for tree in trees), np.float32(0))


def by_solr(path, row):
    """The normalizer, then `<=` a threshold to which 1e-6 was added."""
    model = json.loads(path.read_text())
    values = {}
    for feature, value in zip(model["features"], row, strict=True):
        value = np.float32(value)
        if "norm" in feature:
            low, high = (np.float32(feature["norm"]["params"][end]) for end in ("min", "max"))
            with np.errstate(over="ignore"):
                value = (value - low) / (high - low)
        values[feature["name"]] = value

    def walk(node):
        if "value" in node:
            return np.float32(node["value"])
        limit = np.float32(node["threshold"]) + np.float32(1e-6)
        return walk(node["left" if values[node["feature"]] <= limit else "right"])

    return sum((walk(tree["root"]) for tree in model["params"]["trees"]), np.float32(0))


def by_vespa(path, row):
    """The expression that Vespa's importer writes: `x < t`, or `!(x >= t)` if missing is left."""
    model = json.loads(path.read_text())
    assert model["objective"] == "regression"
    assert model["pandas_categorical"] == []

    def walk(node):
        if "leaf_value" in node:
            return node["leaf_value"]
        value, limit = float(row[node["split_feature"]]), node["threshold"]
        left = not value >= limit if node["default_left"] else value < limit
        return walk(node["left_child" if left else "right_child"])

    return sum(walk(tree["tree_structure"]) for tree in model["tree_info"])


RULES = {
    "xgboost-json": by_xgboost, "ranklib": by_ranklib, "solr": by_solr, "lightgbm-json": by_vespa,
}  # fmt: skip


@pytest.mark.parametrize("target", RULES)
@pytest.mark.parametrize("kind", ["none", "log1p"])
def test_the_rules_are_those_of_the_engines_sources(target, kind, tmp_path):
    source, path = written(trained(kind, TARGETS[target].has_missing), target, tmp_path)
    parity = make_parity(source, target, 120, seed=5)
    (scores,) = TARGETS[target].scores(path, parity).values()
    plain = [float(RULES[target](path, row)) for row in parity.features]
    assert plain == scores.tolist()


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
@example(0.0)
@example(-0.0)
@example(1.1754943508222875e-38)
@example(-9.999999e-36)
@example(-1.0)
@example(-3.4028230607370965e38)
def test_what_solr_adds_is_taken_away_before(threshold):
    wanted = np.array([threshold], dtype=np.float32)
    became = before_adding(wanted) + ADDED
    assert (became >= 0) == (wanted >= 0)
    assert math.isclose(became[0], wanted[0], rel_tol=2e-7, abs_tol=1.2e-13)
    if 16 / FACTOR <= abs(threshold) < 2.0**80:
        larger = wanted * np.float32(FACTOR)
        assert before_adding(larger) + ADDED == larger


def test_the_text_is_read_by_lightgbm_and_has_an_objective(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    _, path = written(trained("standard", True), "lightgbm", tmp_path)
    model = lightgbm.Booster(model_file=path)
    assert model.feature_name() == list(NAMES)
    ranker = trained("standard", True)
    expected = ranker.scorer.scores(ranker.scaling.apply(GAPS))
    assert np.array_equal(model.predict(GAPS), expected)
    # doubles are routed by the float32 number that they round to
    doubles = np.nextafter(GAPS.astype(np.float64), np.inf)
    assert np.array_equal(model.predict(doubles), expected)
    assert re.search("^objective=regression$", path.read_text(), re.MULTILINE)


def test_no_tree_and_a_tree_of_one_leaf(tmp_path):
    plain = Scaling("none", 5)
    empty = ranker_of(Forest(NAMES, ("none",) * 5), plain)
    stump = forest_ranker(trees=1, min_data_in_leaf=400, leaves=2)
    for ranker in (empty, stump):
        assert all(tree.leaf_value.size <= 2 for tree in ranker.scorer.forest.trees)
        for target in TREE_TARGETS:
            source, path = written(ranker, target, tmp_path)
            checks = compare(TARGETS[target], path, make_parity(source, target, 50))
            assert all(check.rows_apart == 0 for check in checks)


def refused(ranker, target, tmp_path, sentence):
    with pytest.raises(InputError, match=sentence) as refusal:
        written(ranker, target, tmp_path)
    assert len(str(refusal.value)) <= 300


def test_what_an_engine_cannot_express_is_refused_with_one_sentence(tmp_path):
    gaps = trained("none", True)
    for target in ("ranklib", "solr"):
        refused(gaps, target, tmp_path, "takes a missing value for 0, .* knows missing values of")
    features = [Feature(name) for name in NAMES]
    features[0] = Feature("price", "category", ("low", "high"))
    schema = FeatureSchema(tuple(features))
    categories = replace(trained("none", False), features=schema)
    for target in ("ranklib", "solr", "xgboost-json"):
        refused(categories, target, tmp_path, "has no categories, which these are: `price`")
    adds = replace(trained("none", False), adds_production=True)
    for target in TREE_TARGETS[1:]:
        refused(adds, target, tmp_path, "adds to production's score, .* --correction")
    within = replace(trained("none", False), scaling=Scaling("query_minmax", 5))
    for target in TREE_TARGETS[1:]:
        refused(within, target, tmp_path, "one document at a time")
    refused(trained("none", False), "linear", tmp_path, "takes a linear ranker")
    notes = TARGETS["lightgbm"].write(Source(categories, "model"), tmp_path / "model")
    assert notes == ["A category goes in as its place among those in ranker.json, from 0: `price`."]


def test_nearly_zero_and_huge_thresholds_of_one_feature_are_too_much_for_solr(tmp_path):
    forest = trained("none", False).scorer.forest
    tree = forest.trees[0]
    threshold = np.resize([1e-8, 1e30], tree.threshold.size)
    wide = replace(tree, threshold=threshold, feature=np.zeros_like(tree.feature))
    ranker = ranker_of(replace(forest, trees=(wide,)), Scaling("none", 5))
    refused(ranker, "solr", tmp_path, "near 0 and beyond 1e24")


def test_a_chain_of_splits_is_too_deep_for_nested_text_only(tmp_path):
    nodes = 300
    lists = {
        "split_feature": "0 " * nodes, "decision_type": "0 " * nodes,
        "threshold": " ".join(str(-node) for node in range(nodes)),
        "left_child": " ".join(map(str, [*range(1, nodes), -1])),
        "right_child": " ".join(str(-node - 2) for node in range(nodes)),
        "leaf_value": " ".join(map(str, range(nodes + 1))),
    }  # fmt: skip
    head = trained("none", False).scorer.forest.first(0).text().split("tree_sizes")[0]
    lines = "".join(f"{key}={value.strip()}\n" for key, value in lists.items())
    text = f"{head}\nTree=0\nnum_leaves={nodes + 1}\nnum_cat=0\n{lines}\nend of trees\n"
    ranker = ranker_of(Forest.parse(text), Scaling("none", 5))
    for target in ("lightgbm-json", "xgboost-json", "ranklib", "solr"):
        refused(ranker, target, tmp_path, "at most 200 splits deep; got 300")
    for target in ("lightgbm", "onnx"):
        source, path = written(ranker, target, tmp_path)
        checks = compare(TARGETS[target], path, make_parity(source, target, 500))
        assert all(check.rows_apart == 0 for check in checks)


def test_an_export_that_scores_otherwise_is_not_left_behind(tmp_path, monkeypatch):
    class Wrong(XGBoostJson):
        def write(self, source, path):
            notes = super().write(source, path)
            path.write_text(json.dumps(json.loads(path.read_text())[1:]))
            return notes

    ranker = trained("none", False)
    ranker.save(tmp_path / "run")
    monkeypatch.setitem(exporting.TARGETS, "xgboost-json", Wrong())
    with pytest.raises(EngineError, match="of 1,000 rows are scored otherwise"):
        exporting.export(tmp_path / "run", "xgboost-json", tmp_path / "m.json", rows=1000)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["run"]


def test_rows_of_parity_files_lie_on_thresholds_and_beside_them():
    source = Source(trained("none", True), "model")
    parity = make_parity(source, "onnx", 10_000)
    for tree in source.trees[:5]:
        for feature, threshold in zip(tree.feature, tree.threshold, strict=True):
            column = parity.features[:, feature]
            assert (column == threshold).any()
            assert (column == np.nextafter(threshold, np.float32(np.inf))).any()
    flat = parity.features.ravel()
    assert np.isnan(flat).any()
    assert (np.signbit(flat) & (flat == 0)).any()
    assert (~np.signbit(flat) & (flat == 0)).any()
    assert np.nanmax(flat) > 1e38
    data = RankingData(parity.features, parity.offsets, schema=source.ranker.features)
    assert np.array_equal(source.ranker.scores(data), parity.scores)
