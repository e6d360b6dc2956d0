"""Scaling against the plain NumPy formulas."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest

from saferank.data import RankingData, Scaling, scaling
from saferank.errors import InputError

rng = np.random.default_rng(0)
SIZES = rng.integers(0, 30, size=900)
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)])
TRAIN = RankingData(
    np.column_stack(
        [
            rng.normal(1e4, 3, OFFSETS[-1]),
            rng.lognormal(0, 4, OFFSETS[-1]) * rng.choice([-1, 1], OFFSETS[-1]),
            np.full(OFFSETS[-1], 0.1),
            rng.integers(0, 2, OFFSETS[-1]),
        ]
    ),
    OFFSETS,
)
TEST = RankingData(TRAIN.features[:40] * 3 + 1, [0, 40])


def standardised(train: np.ndarray, other: np.ndarray) -> np.ndarray:
    spread = train.std(axis=0)
    spread[train.min(axis=0) == train.max(axis=0)] = 1
    return (other - train.mean(axis=0)) / spread


def expected(kind: str, data: RankingData) -> np.ndarray:
    train, other = TRAIN.features.astype(np.float64), data.features.astype(np.float64)
    if kind == "none":
        return other
    if kind == "standard":
        return standardised(train, other)
    if kind == "log1p":
        return standardised(*(np.sign(x) * np.log1p(np.abs(x)) for x in (train, other)))
    if kind == "clip":
        ends = np.quantile(train, [0.01, 0.99], axis=0)
        return standardised(*(np.clip(x, *ends) for x in (train, other)))
    scaled = np.zeros_like(other)
    for first, last in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        if last > first:
            query = other[first:last]
            width = np.ptp(query, axis=0)
            scaled[first:last] = (query - query.min(axis=0)) / np.where(width > 0, width, 1)
    return scaled


@pytest.mark.parametrize("kind", scaling.KINDS)
@pytest.mark.parametrize("data", [TRAIN, TEST], ids=["train", "test"])
def test_every_kind_is_its_formula(kind: str, data: RankingData) -> None:
    fitted = Scaling.fit(TRAIN, kind)
    got = fitted.apply(data)
    assert got.features.dtype == np.float32
    np.testing.assert_allclose(got.features, expected(kind, data), rtol=2e-5, atol=2e-5)
    assert np.array_equal(fitted.apply(data.features, data.offsets), got.features)


@pytest.mark.parametrize("kind", scaling.KINDS)
def test_every_kind_survives_json_to_the_bit(kind: str) -> None:
    fitted = Scaling.fit(TRAIN, kind, tail=0.05)
    again = Scaling.from_dict(json.loads(json.dumps(fitted.to_dict())))
    assert np.array_equal(again.apply(TEST).features, fitted.apply(TEST).features)
    assert again.to_dict() == fitted.to_dict()


@pytest.mark.parametrize("kind", scaling.KINDS)
def test_no_kind_takes_more_than_one_copy_of_the_data(kind: str) -> None:
    data = RankingData(
        rng.normal(size=(200_000, 20)).astype(np.float32), np.arange(0, 200_001, 100)
    )
    Scaling.fit(TRAIN, kind).apply(TRAIN)
    tracemalloc.start()
    try:
        Scaling.fit(data, kind).apply(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * data.features.nbytes


def test_a_feature_that_is_not_finite_is_named() -> None:
    features = np.zeros((4, 3))
    features[2, 1] = np.inf
    with pytest.raises(InputError, match=r"feature 1 \(from 0\) is not"):
        Scaling.fit(RankingData(features, [0, 4]), "standard")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "other"}, "kind"),
        ({"kind": ["standard"]}, "kind"),
        ({"width": 3}, "finite numbers"),
        ({"width": "4"}, "width"),
        ({"spread": [1.0, 1.0, 0.0, 1.0]}, "positive"),
        ({"spread": None}, "what standard needs"),
        ({"low": [0.0] * 4}, "what standard needs"),
        ({"centre": ["a", 1.0, 1.0, 1.0]}, "record of a scaling"),
        ({"centre": [float("nan")] * 4}, "finite numbers"),
        ({"more": 1}, "a record of"),
        ({"encoding": 0}, "encoding"),
        ({"encoding": ""}, "encoding"),
    ],
)
def test_a_bad_record_is_refused(change: dict[str, object], message: str) -> None:
    record = Scaling.fit(TRAIN, "standard").to_dict()
    with pytest.raises(InputError, match=message):
        Scaling.from_dict(record | change)


def test_what_does_not_fit_is_refused() -> None:
    fitted = Scaling.fit(TRAIN, "standard")
    with pytest.raises(InputError, match=r"of shape \(documents, 4\); got \(2, 3\)"):
        fitted.apply(np.zeros((2, 3)))
    with pytest.raises(InputError, match="`offsets` must be given"):
        Scaling.fit(TRAIN, "query_minmax").apply(np.zeros((2, 4)))
    with pytest.raises(InputError, match="`tail` must be"):
        Scaling.fit(TRAIN, "clip", tail=0.5)
    with pytest.raises(InputError, match="at least one document"):
        Scaling.fit(RankingData(np.zeros((0, 2)), [0]), "standard")
