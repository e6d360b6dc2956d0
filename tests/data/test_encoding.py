"""What networks are given for gaps and categories, against plain loops."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from saferank.data import RankingData, Scaling, scaling
from saferank.data.encoding import LEAST_DOCUMENTS, MOST_LEVELS
from saferank.data.features import Feature, FeatureSchema
from saferank.errors import InputError

SCHEMA = FeatureSchema(
    (Feature("price"), Feature("brand", "category", ("a", "b", "c")), Feature("stock"),
     Feature("empty"))
)  # fmt: skip


def world(seed: int = 0, documents: int = 300) -> RankingData:
    rng = np.random.default_rng(seed)
    values = np.column_stack([
        rng.lognormal(size=documents), rng.choice(4, documents, p=[0.6, 0.3, 0.02, 0.08]),
        rng.integers(0, 9, documents), np.full(documents, np.nan),
    ]).astype(np.float32)  # fmt: skip
    values[rng.random(documents) < 0.3, 0] = np.nan
    values[rng.random(documents) < 0.1, 1] = np.nan
    offsets = np.arange(0, documents + 1, 10)
    return RankingData(values, offsets, schema=SCHEMA)


def scaled_column(kind: str, train: list[float], values: list[float]) -> list[float]:
    """A column without gaps, scaled by plain Python as `train` (without gaps) says."""

    def shape(value: float) -> float:
        return math.copysign(math.log1p(abs(value)), value) if kind == "log1p" else value

    if kind == "none" or not train:
        return values
    if kind == "clip":
        low, high = np.quantile(np.array(train, dtype=np.float32), [0.01, 0.99])
        train, values = ([min(max(v, low), high) for v in some] for some in (train, values))
    shaped = [shape(v) for v in train]
    mean = sum(shaped) / len(shaped)
    spread = math.sqrt(sum((v - mean) ** 2 for v in shaped) / len(shaped))
    return [(shape(v) - mean) / spread for v in values]


@pytest.mark.parametrize("kind", ["none", "standard", "log1p", "clip"])
def test_gaps_become_the_mean_and_a_mark_and_categories_columns(kind: str) -> None:
    train, test = world(0), world(1)
    fitted = Scaling.fit(train, kind, encode=True)
    got = fitted.apply(test).features
    assert fitted.outputs == got.shape[1]
    columns: list[list[float]] = []
    for place in (0, 2, 3):
        known = [float(v) for v in train.features[:, place] if not math.isnan(v)]
        raw = [float(v) for v in test.features[:, place]]
        filled = scaled_column(kind, known, [v for v in raw if not math.isnan(v)])
        mean = sum(scaled_column(kind, known, known)) / max(len(known), 1)
        rest = iter(filled)
        columns.append([mean if math.isnan(v) else next(rest) for v in raw])
    brands = test.features[:, 1]
    counts = [(train.features[:, 1] == code).sum() for code in range(3)]
    assert counts[1] >= LEAST_DOCUMENTS > counts[2]
    columns += [[float(v == 0) for v in brands], [float(v == 1) for v in brands]]
    columns.append([float(v >= 2) for v in brands])
    columns += [[float(math.isnan(v)) for v in test.features[:, place]] for place in (0, 1, 3)]
    np.testing.assert_allclose(got, np.array(columns).T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", scaling.KINDS)
def test_saved_and_loaded_it_is_the_same_to_the_bit(kind: str) -> None:
    train, test = world(0), world(1)
    for encode in (False, True):
        fitted = Scaling.fit(train, kind, encode=encode)
        loaded = Scaling.from_dict(json.loads(json.dumps(fitted.to_dict())))
        one, two = (s.apply(test).features for s in (fitted, loaded))
        assert one.tobytes() == two.tobytes()
        assert np.isnan(one).any() != encode


def test_within_queries_gaps_have_no_part() -> None:
    data = RankingData([[1.0, 5.0], [np.nan, 6.0], [3.0, np.nan], [2.0, np.nan]], [0, 3, 4])
    plain = Scaling.fit(data, "query_minmax").apply(data).features
    np.testing.assert_array_equal(plain, [[0, 0], [np.nan, 1], [1, np.nan], [0, np.nan]])
    filled = Scaling.fit(data, "query_minmax", encode=True).apply(data).features
    third = np.float32(1 / 3)
    np.testing.assert_array_equal(
        filled, [[0, 0, 0, 0], [third, 1, 1, 0], [1, 0.5, 0, 1], [0, 0.5, 0, 1]]
    )


def test_numbers_without_gaps_stay_as_they_are() -> None:
    data = RankingData(np.random.default_rng(0).normal(size=(50, 3)), [0, 50])
    for kind in scaling.KINDS:
        fitted = Scaling.fit(data, kind, encode=True)
        assert fitted.encoding is not None
        assert fitted.encoding.outputs == data.width
        plain = Scaling.fit(data, kind).apply(data).features
        assert fitted.apply(data).features.tobytes() == plain.tobytes()


def test_unknown_and_rare_categories_are_one() -> None:
    words = tuple(f"w{n}" for n in range(60))
    schema = FeatureSchema((Feature("w", "category", words),))
    codes = np.repeat(np.arange(60), 20)[:, None]
    train = RankingData(codes, [0, codes.size], schema=schema)
    fitted = Scaling.fit(train, "log1p", encode=True)
    assert fitted.outputs == MOST_LEVELS + 1
    seen = fitted.apply(np.array([[0], [29], [30], [59], [60], [np.nan]], dtype=np.float32))
    assert [row.nonzero()[0].tolist() for row in seen] == [[0], [29], [30], [30], [30], []]


@pytest.mark.parametrize(
    "change",
    [{"marked": [9]}, {"categories": [-1], "levels": [1]}, {"levels": [1, 2]}, {"fill": ["x"]},
     {"levels": [10**6]}, {"more": 1}, {"fill": [0.0]}],
)  # fmt: skip
def test_a_broken_encoding_is_refused(change: dict[str, object]) -> None:
    record = Scaling.fit(world(), "standard", encode=True).to_dict()
    record["encoding"] |= change
    with pytest.raises(InputError):
        Scaling.from_dict(record)
