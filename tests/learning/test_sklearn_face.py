"""The scikit-learn face: parameters, clones, data frames in and scores out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import saferank as sr
from saferank.learning import RankingEstimator, Settings

ITEMS = sr.data.synthetic("small", queries=60, seed=0).train
MODEL = sr.clicks.trust_bias()
SHOWN = np.zeros(ITEMS.documents)
COUNTS = sr.clicks.simulate(ITEMS, SHOWN, MODEL, sessions=2000, seed=0)
QUICK = Settings(steps=20, min_validation_interval=10)


def frame() -> pd.DataFrame:
    queries = np.repeat(np.arange(ITEMS.queries), np.diff(ITEMS.offsets))
    ids = {"query_id": queries, "doc_id": np.arange(ITEMS.documents)}
    features = {f"f{i}": ITEMS.features[:, i] for i in range(ITEMS.width)}
    return pd.DataFrame({**ids, **features})


def test_options_are_checked_at_construction_and_when_set() -> None:
    with pytest.raises(sr.InputError, match="`objective` must be one of"):
        RankingEstimator(objective="magic")
    estimator = RankingEstimator(method="dr", seed=3, scorer="linear")
    with pytest.raises(sr.InputError, match="`options` must be among"):
        estimator.set_params(nonsense=1)
    assert estimator.get_params() == {"method": "dr", "seed": 3, "scorer": "linear"}
    assert estimator.set_params(method="ips").get_params()["method"] == "ips"


def test_a_clone_learns_the_same_bits() -> None:
    estimator = RankingEstimator(method="ips", scorer="linear", settings=QUICK, seed=1)
    copy = clone(estimator)
    own, copied = (
        one.fit(ITEMS, COUNTS, MODEL, production=SHOWN).predict(ITEMS) for one in (estimator, copy)
    )
    assert copy is not estimator
    assert np.array_equal(own, copied)


def test_data_frames_in_and_scores_out() -> None:
    estimator = RankingEstimator(method="ips", scorer="linear", settings=QUICK, seed=1)
    rows = frame()
    scores = estimator.fit(rows, COUNTS, MODEL, production=SHOWN).predict(rows)
    assert scores.shape == (len(rows),)
    turned = rows.iloc[::-1]
    assert np.allclose(estimator.predict(turned)[::-1], scores)
