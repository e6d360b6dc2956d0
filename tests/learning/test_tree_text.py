"""Model text that is not to be trusted: read to the same scores as LightGBM's, or refused."""

import re
import sys

import lightgbm
import numpy as np
import pytest

from saferank.errors import InputError
from saferank.learning import Ranker
from saferank.scorers.tree_scorer import TreeScorer
from saferank.scorers.tree_text import MOST_LEAVES, Forest

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4)).astype(np.float32)
X[RNG.random(X.shape) < 0.2] = 0
X[RNG.random(X.shape) < 0.1] = 1e-36
GAPS = np.where(RNG.random(X.shape) < 0.2, np.float32(np.nan), X)
Y = (X[:, 0] > 0) * 1.0 + X[:, 1]


def train(features=X, rounds=5, **options):
    options = {"objective": "regression", "num_leaves": 7, "verbosity": -1, **options}
    return lightgbm.train(options, lightgbm.Dataset(features, label=Y), num_boost_round=rounds)


TEXT = train().model_to_string()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"zero_as_missing": True},
        {"use_missing": False},
        {"objective": "lambdarank"},
        {"boosting": "dart", "drop_rate": 0.5},
        {"min_data_in_leaf": 200},
        {"learning_rate": 1e-9},
    ],
)
def test_scores_are_those_of_lightgbm_to_the_last_bit(options):
    group = [30] * 10 if options.get("objective") == "lambdarank" else None
    data = lightgbm.Dataset(GAPS, label=np.digitize(Y, [0, 1]), group=group)
    theirs = lightgbm.train({"num_leaves": 7, "verbosity": -1, **options}, data, 20)
    scorer = TreeScorer(Forest.parse(theirs.model_to_string()))
    extreme = np.array([[0, 1e-36, -1e-36, 1e-34], [3e38, -3e38, 1e-45, -0.0]], dtype=np.float32)
    for features in (X, GAPS, extreme):
        expected = theirs.predict(features, raw_score=True)
        assert np.array_equal(scorer.scores(features), expected)
        assert np.array_equal(scorer.booster.predict(features, raw_score=True), expected)
    assert scorer.trees == theirs.num_trees()


def test_what_was_read_is_written_in_one_form_and_trees_word_for_word():
    forest = Forest.parse(TEXT)
    assert Forest.parse(forest.text()).text() == forest.text()
    trees = TEXT[TEXT.index("Tree=0") : TEXT.index("end of trees")]
    assert trees in forest.text()
    sizes = re.search("tree_sizes=.*\n", TEXT).group()
    assert sizes in forest.text()
    assert Forest.parse(TEXT.replace("\n", "\r\n")).text() == forest.text()
    assert Forest.parse(TEXT.replace(sizes, "")).text() == forest.text()


def test_parameters_and_importances_are_left_out():
    hostile = TEXT[: TEXT.index("feature_importances")] + "parameters:\n[data: /etc/passwd]\n"
    assert Forest.parse(hostile + "pandas_categorical:" + "[" * 10**5).text() == (
        Forest.parse(TEXT).text()
    )


def changed(pattern, new):
    text, count = re.subn(pattern, new, TEXT, count=1, flags=re.MULTILINE)
    assert count == 1
    return text


HOSTILE = {
    "sizes too large": (r"^tree_sizes=\d+", "tree_sizes=" + "9" * 18, "tree_sizes` must be sizes"),
    "sizes negative": (r"^tree_sizes=", "tree_sizes=-", "tree_sizes"),
    "a size too few": (r"^tree_sizes=\d+ ", "tree_sizes=", "4 trees, as stated; got 5"),
    "blank line inside": (
        r"^left_child=.*$",
        r"left_child=-99\n\n\g<0>",
        "tree 0: split_gain|complete",
    ),
    "blank line first": (r"^Tree=0$", "Tree=0\n", "num_leaves"),
    "form feed": (r"^left_child=", "left_child=0\x0cright_child=0 ", "left_child` must be whole"),
    "unicode line end": (r"^left_child=", "left_child=0\u2028left_child=", "must be whole"),
    "next line character": (r"^threshold=", "threshold=\x85", "must be numbers"),
    "lone carriage return": (r"^threshold=", "threshold=\r", "must be numbers"),
    "null": (r"^threshold=", "threshold=\x00", "must be numbers"),
    "arabic digits": (r"^leaf_value=.*$", "leaf_value=" + " ".join("\u0661" * 7), "numbers"),
    "underscores": (r"^split_feature=\d", "split_feature=0_0", "must be whole numbers"),
    "two spaces": (r"^split_feature=(\d) ", r"split_feature=\1  ", "must be whole numbers"),
    "many classes": (r"^num_class=1", "num_class=1000000", "of one score; got '1000000'"),
    "the same field twice": (r"^left_child=", "left_child=0\nleft_child=", "left_child twice"),
    "the same header twice": (r"^num_class=1", "num_class=1\nnum_class=1", "num_class twice"),
    "an unknown field": (r"^left_child=", "cat_boundaries=0\nleft_child=", "known fields"),
    "an unknown header": (r"^num_class=", "linear_tree=1\nnum_class=", "known fields"),
    "no field": (r"^left_child=", "endless\nleft_child=", "lines of `name=value`"),
    "an average": (r"^feature_names", "average_output\nfeature_names", "lines of `name=value`"),
    "a tree left out": (r"^Tree=1$", "Tree=2", "`Tree=1` next"),
    "no end": (r"^end of trees\n[\s\S]*", "", "`end of trees`; it is cut"),
    "nan": (r"^threshold=[^ ]*", "threshold=nan", "must be numbers"),
    "infinite": (r"^threshold=[^ ]*", "threshold=1e999", "in range"),
    "infinite leaf": (r"^leaf_value=[^ ]*", "leaf_value=1e400", "in range"),
    "categorical": (r"^decision_type=\d+", "decision_type=1", "a numeric split; got 1"),
    "unknown kind of missing": (r"^decision_type=\d+", "decision_type=12", "a numeric split"),
    "too many leaves": (r"^num_leaves=\d+", "num_leaves=131073", "num_leaves` must be in"),
    "no leaves": (r"^num_leaves=\d+", "num_leaves=0", "num_leaves` must be in"),
    "digits without end": (r"^num_leaves=\d+", "num_leaves=" + "9" * 5000, "whole number"),
    "a name unprintable": (r"^feature_names=\w+", "feature_names=a\x85b", "printable"),
    "names of another number": (r"^feature_names=\w+ ", "feature_names=", "4 words; got 3"),
    "infos of another number": (r"^feature_infos=.*$", "feature_infos=none", "4 words; got 1"),
    "half a surrogate": (r"^leaf_value=", "leaf_value=\ufffd", "must be numbers"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_text_is_refused_with_one_sentence(case):
    pattern, new, sentence = HOSTILE[case]
    with pytest.raises(InputError, match=sentence) as refusal:
        Forest.parse(changed(pattern, new))
    assert len(str(refusal.value)) <= 300


def test_a_node_with_two_parents_is_no_tree():
    def one(left, right):
        lists = {
            "split_feature": "0 0 0", "threshold": "0 0 0", "decision_type": "2 2 2",
            "left_child": left, "right_child": right, "leaf_value": "1 2 3 4",
        }  # fmt: skip
        lines = "".join(f"{key}={value}\n" for key, value in lists.items())
        head = TEXT[: TEXT.index("tree_sizes")]
        return f"{head}\nTree=0\nnum_leaves=4\nnum_cat=0\n{lines}\nend of trees\n"

    good = TreeScorer(Forest.parse(one("1 -1 -3", "2 -2 -4")))
    assert good.scores(X[:1]).tolist() == [1 if X[0, 0] <= 0 else 4]
    for left, right in (("1 2 -1", "1 -2 -3"), ("1 2 -1", "-1 -2 -3"), ("1 2 -1", "-4 -4 -3")):
        with pytest.raises(InputError, match="each node the child of one other"):
            Forest.parse(one(left, right))


def test_the_deepest_tree_there_can_be_is_walked(tmp_path):
    nodes = MOST_LEAVES - 1
    lists = {
        "split_feature": "0 " * nodes,
        "threshold": " ".join(str(-node) for node in range(nodes)),
        "decision_type": "2 " * nodes,
        "left_child": " ".join(map(str, [*range(1, nodes), -1])),
        "right_child": " ".join(str(-node - 2) for node in range(nodes)),
        "leaf_value": " ".join(map(str, range(MOST_LEAVES))),
    }
    lines = "".join(f"{key}={value.strip()}\n" for key, value in lists.items())
    head = TEXT[: TEXT.index("tree_sizes")]
    path = tmp_path / "deep.txt"
    tree = f"Tree=0\nnum_leaves={MOST_LEAVES}\nnum_cat=0\n{lines}"
    path.write_text(f"{head}\n{tree}\nend of trees\n")
    ranker = Ranker.load(path)
    features = np.zeros((3, 4), dtype=np.float32)
    features[:, 0] = [1, -7.5, -1e9]
    assert ranker.scorer.scores(features).tolist() == [1, 9, 0]
    assert isinstance(ranker.scorer, TreeScorer)
    assert ranker.scorer.booster.predict(features, raw_score=True).tolist() == [1, 9, 0]


def test_trees_are_loaded_and_walked_without_lightgbm(tmp_path, monkeypatch):
    (tmp_path / "model.txt").write_text(TEXT)
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    assert np.isfinite(Ranker.load(tmp_path / "model.txt").scorer.scores(X)).all()
