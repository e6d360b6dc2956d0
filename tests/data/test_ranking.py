import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saferank.data import Collection, RankingData
from saferank.errors import InputError


def make(sizes, width=2, **more):
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    documents = int(offsets[-1])
    features = np.arange(documents * width, dtype=np.float32).reshape(documents, width)
    return RankingData(features, offsets, labels=np.arange(documents) % 3, **more)


sizes = st.lists(st.integers(0, 5), min_size=1, max_size=8)


@given(sizes, st.integers(1, 4), st.randoms(use_true_random=False))
def test_batches_cover_every_query_once_in_any_order(lengths, size, random):
    data = make(lengths)
    order = list(range(data.queries))
    random.shuffle(order)
    for given_order in (None, np.array(order)):
        batches = list(data.batches(size, order=given_order))
        seen = np.concatenate([batch.queries for batch in batches])
        assert sorted(seen) == list(range(data.queries))
        for batch in batches:
            for index, query in enumerate(batch.queries):
                rows = batch.features[batch.offsets[index] : batch.offsets[index + 1]]
                expected = data.features[data.offsets[query] : data.offsets[query + 1]]
                assert np.array_equal(rows, expected)
                labels = data.labels[batch.positions][
                    batch.offsets[index] : batch.offsets[index + 1]
                ]
                assert np.array_equal(
                    labels, data.labels[data.offsets[query] : data.offsets[query + 1]]
                )


def test_batches_in_the_datas_order_are_views():
    data = make([3, 4, 5])
    assert all(np.shares_memory(batch.features, data.features) for batch in data.batches(2))


@given(sizes, st.integers(0, 10))
def test_split_parts_the_queries(lengths, seed):
    data = make(lengths)
    parts = data.split(0.5, 0.3, 0.2, seed=seed)
    ids = np.concatenate([part.ids()[0] for part in parts])
    assert sorted(ids) == list(range(data.queries))
    assert sum(part.documents for part in parts) == data.documents


def test_subset_keeps_what_is_known_of_each_document():
    data = make([2, 3, 1], query_ids=["a", "b", "c"], production=np.arange(6.0))
    part = data.subset([2, 0])
    assert part.query_ids.tolist() == ["c", "a"]
    assert part.production.tolist() == [5, 0, 1]
    assert part.ids()[1].tolist() == [0, 0, 1]
    assert data.subset(np.array([False, True, False])).documents == 3


def test_the_fingerprint_is_computed_again_where_data_may_have_changed():
    features = np.arange(6.0, dtype=np.float32).reshape(3, 2)
    data = RankingData(features, [0, 3])
    before = data.fingerprint()
    data.features[0, 0] = 7.0
    assert data.fingerprint() != before
    for part in (data.features, data.offsets):
        part.flags.writeable = False
    assert data.fingerprint() == data.fingerprint() == RankingData(features, [0, 3]).fingerprint()


def test_frozen_and_fingerprinted():
    data = make([2, 3])
    with pytest.raises(AttributeError):
        data.labels = None
    assert data.fingerprint() == make([2, 3]).fingerprint()
    assert data.fingerprint() != make([3, 2]).fingerprint()


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: RankingData(np.zeros(3), [0, 3]), "`features` must be of shape"),
        (lambda: RankingData(np.zeros((3, 1)), [0, 2]), r"`offsets\[-1\]` must be the 3 documents"),
        (lambda: RankingData(np.zeros((3, 1)), [0, 2, 1, 3]), "`offsets` must be non-decreasing"),
        (lambda: RankingData(np.zeros((1, 1)), [0, 1], labels=[-1]), "`labels` must be finite"),
        (lambda: RankingData(np.zeros((1, 1)), [0, 1], labels=[1, 2]), "`labels` must be 1 values"),
        (lambda: make([1, 1], query_ids=["a", "a"]), "`query_ids` must be 2 different ids"),
        (lambda: make([1], query_ids=[1.5]), "`query_ids` must be whole numbers or strings"),
        (lambda: make([1], feature_names=("x",)), "`feature_names` must be 2 names"),
        (lambda: make([1], production=[np.nan]), "`production` must be finite; got nan in query 0"),
        (lambda: make([1, 1]).subset([2]), r"`queries` must be in 0\.\.1"),
        (lambda: make([1]).split(0.5, seed=0), "`shares` must be at least 0 with sum 1"),
        (
            lambda: Collection(make([1]), make([1]), make([1], width=3), 4),
            "`features` must be as many",
        ),
        (lambda: make([1]).subset([0]).with_features(np.zeros((2, 2), np.float32)), "offsets"),
    ],
)
def test_bad_data_is_one_sentence(build, sentence):
    with pytest.raises(InputError, match=sentence):
        build()


def test_labels_are_asked_for():
    with pytest.raises(InputError, match="`labels` must be there"):
        _ = RankingData(np.zeros((1, 1)), [0, 1]).known_labels
