"""Rankers of trees with every kind of scaling, whose scores tell which leaf was reached."""

from __future__ import annotations

from dataclasses import replace

import lightgbm
import numpy as np

from saferank.data import FeatureSchema, RankingData, Scaling
from saferank.learning import Provenance, Ranker
from saferank.scorers.tree_scorer import TreeScorer
from saferank.scorers.tree_text import Forest

RNG = np.random.default_rng(0)
X = RNG.normal(2, 3, size=(600, 5)).astype(np.float32)
X[:, 1] = np.exp(X[:, 1])
X[:, 2] = np.round(X[:, 2])  # zeros, and thresholds beside them
X[RNG.random(X.shape) < 0.2] = 0
X[:, 4] *= np.float32(1e-5)  # where 1e-6 is much
GAPS = np.where(RNG.random(X.shape) < 0.2, np.float32(np.nan), X)
Y = np.nan_to_num(X[:, 0] * (X[:, 2] > 0) + np.log1p(np.abs(X[:, 1])) + 1e5 * X[:, 4])
NAMES = ("price", "clicks", "stock", "age", "tiny")


def data_of(features):
    return RankingData(features, [0, len(features)], feature_names=NAMES)


def ranker_of(forest, scaling, schema=None):
    origin = Provenance("test", {"scorer": "trees"}, 0, 0, [1.0, 0.5, 0.3], None, "none")
    names = FeatureSchema.of_names(NAMES) if schema is None else schema
    return Ranker(TreeScorer(forest), scaling, origin, features=names)


def forest_ranker(kind="none", *, gaps=False, trees=20, leaves=15, **options):
    """A ranker that LightGBM trained on scaled features."""
    raw = GAPS if gaps else X
    scaling = Scaling.fit(data_of(raw), kind)
    scaled = scaling.apply(raw, [0, len(raw)])
    parameters = {"objective": "regression", "num_leaves": leaves, "verbosity": -1, **options}
    parameters |= {"min_data_in_leaf": 3, "num_threads": 1, "deterministic": True}
    grown = lightgbm.train(parameters, lightgbm.Dataset(scaled, label=Y), num_boost_round=trees)
    return ranker_of(Forest.parse(grown.model_to_string()), scaling)


def leaf_numbers(ranker, tree):
    """The ranker of one tree alone, whose score is the number of the leaf, from 1."""
    forest = ranker.scorer.forest
    one = forest.trees[tree]
    numbers = np.arange(1.0, one.leaf_value.size + 1)
    words = one.words | {"leaf_value": " ".join(str(value) for value in numbers.tolist())}
    grown = replace(one, words=words, leaf_value=numbers)
    return replace(ranker, scorer=TreeScorer(replace(forest, trees=(grown,))))
