"""Columns as they come: every kind of column in Parquet, CSV and memory against plain Python."""

from __future__ import annotations

import math
from collections import Counter
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saferank.data import RankingData, read_items, write_items
from saferank.data.features import Feature, FeatureSchema
from saferank.data.matching import match_features
from saferank.errors import InputError

ROWS = 6
IDS = {"query_id": ["a"] * ROWS, "doc_id": list(range(ROWS))}
COLUMNS: dict[str, Any] = {
    "price": [1.5, None, 2.5, 0.0, math.nan, 4.0],
    "stock": pa.array([3, 0, None, 7, 1, 2], pa.int16()),
    "margin": [Decimal("1.25"), None, Decimal("2.50"), Decimal(0), Decimal(1), Decimal(2)],
    "new?": [True, False, None, True, False, True],
    "listed": [date(1970, 1, 3), date(2026, 1, 31), None, date(1969, 12, 31)] * 1 + [None] * 2,
    "updated": [datetime(1970, 1, 2, 12), None, datetime(2026, 1, 1, 6), None, None, None],
    "brand": ["b", "a", "b", None, "", "c"],
    "shop": pa.array(["x", "y", "x", "y", "z", None]).dictionary_encode(),
}
KINDS = ["number", "number", "number", "boolean", "date", "date", "category", "category"]
FREQUENT = {"brand": ("b", "a", "c"), "shop": ("x", "y", "z")}


def plain(name: str, value: Any) -> float:
    """A value as a number, by plain Python."""
    if value is None or value == "":
        return math.nan
    if name in FREQUENT:
        return FREQUENT[name].index(value)
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1)) / timedelta(days=1)
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days
    return float(value)


def expected() -> np.ndarray:
    lists = {n: c.to_pylist() if isinstance(c, pa.Array) else c for n, c in COLUMNS.items()}
    return np.array(
        [[plain(name, lists[name][row]) for name in COLUMNS] for row in range(ROWS)],
        dtype=np.float32,
    )


def table() -> pa.Table:
    return pa.table({**IDS, **COLUMNS})


def test_every_kind_of_column(tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "items.parquet")
    for items in (read_items(tmp_path / "items.parquet"), read_items(table()),
                  read_items(table().to_pandas())):  # fmt: skip
        assert [feature.kind for feature in items.schema.features] == KINDS
        np.testing.assert_array_equal(items.features, expected())
        assert items.schema.get("brand").categories == FREQUENT["brand"]
        assert items.schema.get("shop").categories == FREQUENT["shop"]


def test_csv_is_read_as_the_same(tmp_path: Path) -> None:
    text = table().set_column(9, "shop", pa.array(["x", "y", "x", "y", "z", None]))
    pa_csv.write_csv(text, tmp_path / "items.csv")
    items = read_items(tmp_path / "items.csv")
    assert [feature.kind for feature in items.schema.features] == KINDS
    np.testing.assert_array_equal(items.features, expected())
    known = read_items(tmp_path / "items.csv", schema=items.schema)
    assert known.schema == items.schema
    np.testing.assert_array_equal(known.features, expected())


def test_a_kind_is_judged_by_all_rows_of_a_csv(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    rows = [f"1,{row},true,2026-01-31,2026-01-31T10:00:00Z" for row in range(50_000)]
    rows[0] = rows[0].replace("2026-01-31,", "soon,")
    rows[-1] = rows[-1].replace("true", "maybe")
    path.write_text("\n".join(["query_id,doc_id,late,when,zone", *rows]))
    items = read_items(path)
    assert items.schema == FeatureSchema(
        (
            Feature("late", "category", ("true", "maybe")),
            Feature("when", "category", ("2026-01-31", "soon")),
            Feature("zone", "date"),
        )
    )
    assert items.features[-1].tolist()[:2] == [1, 0]


def test_rows_without_a_value_tell_nothing_of_a_csv_column(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    rows = [f"1,{row},,x,{'' if row < 100_000 else 'true'}" for row in range(100_001)]
    path.write_text("\n".join(["query_id,doc_id,empty,brand,app", *rows]))
    kinds = {feature.name: feature.kind for feature in read_items(path).schema.features}
    assert kinds["brand"] == "category"
    assert kinds["app"] == "boolean"


def test_categories_are_ordered_by_frequency_then_by_text() -> None:
    rng = np.random.default_rng(0)
    words = rng.choice(list("zyxwvu"), 40_000, p=[0.1, 0.1, 0.2, 0.3, 0.15, 0.15]).tolist()
    items = read_items(pa.table({"query_id": [1] * 40_000, "doc_id": range(40_000), "w": words}))
    counted = Counter(words)
    order = tuple(sorted(counted, key=lambda word: (-counted[word], word)))
    assert items.schema.get("w").categories == order
    assert items.features[:, 0].tolist() == [order.index(word) for word in words]


def test_what_is_no_feature_is_left_out_with_a_reason() -> None:
    rows = 3000
    items = read_items(
        pa.table({
            "query_id": [1] * rows, "doc_id": range(rows), "x": range(rows),
            "title": [f"title {n}" for n in range(rows)], "place": [{"lat": 1.0}] * rows,
            "brand": [f"brand {n % 900}" for n in range(rows)],
        })
    )  # fmt: skip
    assert items.feature_names == ("x", "brand")
    assert dict(items.left_out) == {
        "title": "text of 3,000 or more different values",
        "place": "its type is struct<lat: double>",
    }
    few = read_items(table().select(["query_id", "doc_id"]))
    assert few.width == 0


def test_own_names_of_columns(tmp_path: Path) -> None:
    renamed = table().rename_columns(
        ["search term", "SKU", "Preis (EUR)", *table().column_names[3:]]
    )
    names = {"query_id": "search term", "doc_id": "SKU", "price": "Preis (EUR)"}
    for kind in ("parquet", "csv"):
        path = tmp_path / f"items.{kind}"
        if kind == "parquet":
            pq.write_table(renamed, path)
        else:
            shop = pa.array(["x", "y", "x", "y", "z", None])
            pa_csv.write_csv(renamed.set_column(9, "shop", shop), path)
        items = read_items(path, columns=names)
        assert items.feature_names == tuple(COLUMNS)
        np.testing.assert_array_equal(items.features, expected())
    with pytest.raises(InputError, match="must have the column `sku` for `doc_id`; it has search"):
        read_items(renamed, columns=names | {"doc_id": "sku"})
    with pytest.raises(InputError, match=r"a column `query_id` \(or --column query_id=YOURS\)"):
        read_items(renamed)
    both = renamed.append_column("price", pa.array(range(ROWS)))
    items = read_items(both, columns=names)
    assert items.left_out == (("price", "`Preis (EUR)` has its name"),)


def test_with_a_schema_its_features_come_first_and_others_follow() -> None:
    items = read_items(table())
    wanted = FeatureSchema(
        (Feature("shop", "category", ("z", "q", "y")), Feature("stock"), Feature("new?"))
    )
    known = read_items(table(), schema=wanted)
    assert known.feature_names[:3] == ("shop", "stock", "new?")
    assert set(known.feature_names) == set(items.feature_names)
    np.testing.assert_array_equal(known.features[:, 0], [3, 2, 3, 2, 0, np.nan])
    with pytest.raises(InputError, match="every feature of the ranker; missing: `colour`"):
        read_items(table(), schema=FeatureSchema.of_names(["stock", "colour"]))


@pytest.mark.parametrize(
    ("feature", "column", "message"),
    [
        (Feature("x"), ["1", "two"], "row 2: expected a number in column `x`; got two"),
        (Feature("x", "date"), [1.0, 2.0], "row 1: expected a date in column `x`; got 1.0"),
        (Feature("x", "date"), ["2026-01-31", "soon"], "row 2: expected a date .* got soon"),
        (Feature("x", "boolean"), ["true", "no"], "row 2: expected a boolean .* got no"),
        (Feature("x"), [1.0, np.inf], "row 2: expected a finite number in column `x`; got inf"),
    ],
)
def test_a_column_of_another_kind_is_refused(
    feature: Feature, column: list[Any], message: str
) -> None:
    items = pa.table({"query_id": [1, 1], "doc_id": [1, 2], "x": column})
    with pytest.raises(InputError, match=message) as raised:
        read_items(items, schema=FeatureSchema((feature,)))
    assert "\n" not in str(raised.value)


def test_texts_are_read_as_the_schema_says() -> None:
    items = pa.table({
        "query_id": [1, 1], "doc_id": [1, 2], "n": ["1.5", "NA"], "t": ["TRUE", ""],
        "d": ["1970-01-02", "nan"], "c": [7, None], "none": pa.nulls(2),
    })  # fmt: skip
    schema = FeatureSchema(
        (Feature("n"), Feature("t", "boolean"), Feature("d", "date"),
         Feature("c", "category", ("8", "7")), Feature("none", "date"))
    )  # fmt: skip
    features = read_items(items, schema=schema).features
    np.testing.assert_array_equal(features, [[1.5, 1, 1, 1, np.nan], [np.nan] * 5])


def test_a_schema_goes_through_json_and_is_checked() -> None:
    schema = read_items(table()).schema
    assert FeatureSchema.from_dict(schema.to_dict()) == schema
    for broken in ({}, {"features": [{"name": 3}]}, {"features": [{"name": "a", "kind": "x"}]},
                   {"features": [{"name": "a"}, {"name": "a"}]}):  # fmt: skip
        with pytest.raises(InputError):
            FeatureSchema.from_dict(broken)


@st.composite
def matching(draw: st.DrawFn) -> tuple[RankingData, FeatureSchema]:
    """Data of some features, and a schema of some of them in another order and other codes."""
    width, rows = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 9999)))
    features, values = [], np.empty((rows, width))
    for place in range(width):
        if draw(st.booleans()):
            words = tuple(rng.permutation(list("pqrst"))[: draw(st.integers(1, 5))].tolist())
            features.append(Feature(f"f{place}", "category", words))
            values[:, place] = rng.integers(0, len(words) + 1, rows)
        else:
            features.append(Feature(f"f{place}"))
            values[:, place] = rng.normal(size=rows)
    values[rng.random(values.shape) < 0.2] = np.nan
    chosen = draw(st.permutations(range(width)))[: draw(st.integers(1, width))]
    wanted = [
        Feature(f.name, f.kind, tuple(rng.permutation(list("pqrstu"))[:4].tolist()))
        if f.kind == "category" else f
        for f in (features[place] for place in chosen)
    ]  # fmt: skip
    data = RankingData(values, [0, rows], schema=FeatureSchema(tuple(features)))
    return data, FeatureSchema(tuple(wanted))


@given(case=matching())
def test_matching_is_by_name_and_by_the_text_of_categories(
    case: tuple[RankingData, FeatureSchema],
) -> None:
    data, schema = case
    before = data.features.copy()
    matched = match_features(data, schema)
    np.testing.assert_array_equal(data.features, before)
    assert matched.schema == schema
    for column, wanted in enumerate(schema.features):
        given_ = data.schema.get(wanted.name)
        place = data.schema.names.index(wanted.name)
        for row in range(data.documents):
            value = float(data.features[row, place])
            if wanted.kind == "category" and not math.isnan(value):
                texts = [*given_.categories, "another"]
                text, known = texts[int(value)], wanted.categories
                value = known.index(text) if text in known else len(known)
            np.testing.assert_equal(float(matched.features[row, column]), value)


@pytest.mark.parametrize("end", [".parquet", ".csv", ".csv.gz"])
def test_kinds_are_written_and_read_back(tmp_path: Path, end: str) -> None:
    items = read_items(table())
    write_items(items, tmp_path / f"items{end}")
    again = read_items(tmp_path / f"items{end}")
    assert again.schema == items.schema
    np.testing.assert_array_equal(again.features, items.features)


def test_letor_has_numbers_for_names(tmp_path: Path) -> None:
    data = RankingData([[1, 0], [3, 4]], [0, 2], labels=[0, 1])
    for end in (".txt", ".parquet", ".csv"):
        write_items(data, tmp_path / f"items{end}")
        items = read_items(tmp_path / f"items{end}", schema=data.schema)
        assert items.schema == data.schema == FeatureSchema.of_names(["1", "2"])
        assert items.feature_names is None
        np.testing.assert_array_equal(items.features, data.features)
    (tmp_path / "short.txt").write_text("1 qid:1 1:2\n")
    assert read_items(tmp_path / "short.txt", schema=data.schema).features.tolist() == [[2, 0]]
    gaps = RankingData([[1, np.nan]], [0, 1], labels=[1])
    with pytest.raises(InputError, match="without missing values for LETOR text"):
        write_items(gaps, tmp_path / "gaps.txt")
