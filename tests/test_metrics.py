import itertools
import math
from typing import Any

import lightgbm
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import dcg_score, ndcg_score

from saferank.errors import InputError
from saferank.metrics import Empty, dcg, mean, ndcg


def world(seed, queries=40):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(2, 15, queries))])
    documents = int(offsets[-1])
    return rng.normal(size=documents), rng.integers(0, 5, documents), offsets


@pytest.mark.parametrize("k", [1, 3, 5, 20])
@pytest.mark.parametrize("gain", ["linear", "exponential"])
def test_dcg_and_ndcg_agree_with_scikit_learn(k, gain):
    scores, labels, offsets = world(k)
    ours, ours_normal = (f(scores, labels, offsets, k, gain=gain) for f in (dcg, ndcg))
    values = labels if gain == "linear" else 2**labels - 1
    for query, (first, last) in enumerate(itertools.pairwise(offsets)):
        truth, guess = values[None, first:last], scores[None, first:last]
        assert ours[query] == pytest.approx(dcg_score(truth, guess, k=k))
        if truth.any():
            assert ours_normal[query] == pytest.approx(ndcg_score(truth, guess, k=k))


@pytest.mark.filterwarnings("ignore")
def test_ndcg_agrees_with_lightgbm():
    scores, labels, offsets = world(7)
    labels[: offsets[1]] = 0  # a query without a relevant document, which LightGBM counts as 1
    dataset = lightgbm.Dataset(scores[:, None], labels, group=np.diff(offsets))
    parameters = {
        "objective": "lambdarank", "metric": "ndcg", "eval_at": [5], "verbosity": -1,
        "num_leaves": 64, "min_data_in_leaf": 1, "min_data_in_bin": 1,
    }  # fmt: skip
    history: dict[str, Any] = {}
    booster = lightgbm.train(
        parameters, dataset, 3, valid_sets=[dataset],
        callbacks=[lightgbm.record_evaluation(history)],
    )  # fmt: skip
    theirs = history["training"]["ndcg@5"][-1]
    learned = booster.predict(scores[:, None])
    ours = mean(ndcg(learned, labels, offsets, 5, gain="exponential", empty="one"))
    assert ours == pytest.approx(theirs, abs=1e-9)


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 4)), min_size=1, max_size=8))
def test_ndcg_by_plain_loops(pairs):
    scores, labels = ([float(x) for x in column] for column in zip(*pairs, strict=True))
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    best = sorted(labels, reverse=True)
    got = sum(labels[i] / math.log2(r + 2) for r, i in enumerate(order[:5]))
    ideal = sum(g / math.log2(r + 2) for r, g in enumerate(best[:5]))
    value = ndcg(scores, labels, [0, len(scores)], 5)[0]
    assert math.isnan(value) if ideal == 0 else value == pytest.approx(got / ideal)


def test_queries_without_relevant_documents_by_name():
    values: dict[Empty, float] = {"zero": 0.0, "one": 1.0}
    for empty, expected in values.items():
        assert ndcg([1.0], [0], [0, 1], 5, empty=empty)[0] == expected
    assert math.isnan(ndcg([1.0], [0], [0, 1], 5)[0])
    assert mean(np.array([np.nan, 0.5])) == 0.5
    assert math.isnan(mean(np.array([np.nan])))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([1.0, np.nan], [0, 1], [0, 1, 2], 5), "`scores` must be finite; got nan in query 1."),
        (([1.0], [1, 2], [0, 1], 5), "`labels` must be of shape"),
        (([1.0], [1], [0, 2], 5), r"`offsets\[-1\]` must be the 1 documents; got 2."),
        (([1.0], [1], [0, 1], 0), "`k` must be at least 1; got 0."),
    ],
)
def test_bad_input_is_one_sentence(arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        ndcg(*arguments)
