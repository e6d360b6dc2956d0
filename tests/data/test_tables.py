"""Items as tables: what is written is read back, and every bad table gets its sentence."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from saferank.data import RankingData, read_items, write_items
from saferank.data.features import repeated
from saferank.errors import InputError

ENDS = (".parquet", ".csv", ".csv.gz", ".txt", ".txt.gz")


@st.composite
def items(draw: st.DrawFn) -> RankingData:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    documents, width = sum(sizes), draw(st.integers(1, 4))
    values = st.floats(width=32, allow_nan=False, allow_infinity=False)
    text = draw(st.booleans())
    words = st.text("abcé0-", min_size=1, max_size=5)
    queries = st.lists(words if text else st.integers(-5, 99), min_size=len(sizes), unique=True)
    query_ids = draw(queries.filter(lambda ids: len(ids) >= len(sizes)))[: len(sizes)]
    return RankingData(
        draw(arrays.arrays(np.float32, (documents, width), elements=values)),
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        labels=draw(arrays.arrays(np.float32, documents, elements=st.integers(0, 4))),
        query_ids=np.array([f"q{word}" for word in query_ids] if text else query_ids),
        doc_ids=np.array([f"d{n}" for n in range(documents)] if text else range(documents)),
        feature_names=draw(st.sampled_from([None, tuple("wxyz"[:width])])),
        production=draw(st.none() | arrays.arrays(np.float64, documents, elements=values)),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


@pytest.mark.parametrize("end", ENDS)
@settings(max_examples=40, deadline=None)
@given(data=items())
def test_what_is_written_is_read_back(folder: Path, end: str, data: RankingData) -> None:
    path = folder / f"items{end}"
    write_items(data, path)
    got = read_items(path)
    assert np.array_equal(got.features, data.features)
    assert np.array_equal(got.offsets, data.offsets)
    assert np.array_equal(got.labels, data.labels)
    assert np.array_equal(got.query_ids, data.query_ids)
    assert np.array_equal(got.doc_ids, data.doc_ids)
    if ".txt" in end:
        return
    assert (got.production is None) == (data.production is None)
    if data.production is not None:
        assert np.array_equal(got.production, data.production)
    if data.feature_names is not None or end == ".parquet":
        assert got.feature_names == data.feature_names


GOOD: dict[str, list[Any]] = {
    "query_id": ["b", "a", "b", "a"],
    "doc_id": [1, 1, 2, 3],
    "bm25": [0.5, 1.5, 2.5, 3.5],
    "clicks": [1, 2, 3, 4],
    "new": [True, False, True, True],
}


def write_parquet(path: Path, **changes: Any) -> Path:
    columns = {name: column for name, column in (GOOD | changes).items() if column is not None}
    pq.write_table(pa.table(columns), path)
    return path


def test_rows_are_grouped_by_first_appearance(tmp_path: Path) -> None:
    data = read_items(write_parquet(tmp_path / "items.parquet"))
    assert data.query_ids.tolist() == ["b", "a"]
    assert data.offsets.tolist() == [0, 2, 4]
    assert data.doc_ids.tolist() == [1, 2, 1, 3]
    assert data.feature_names == ("bm25", "clicks", "new")
    assert data.features.tolist() == [[0.5, 1, 1], [2.5, 3, 1], [1.5, 2, 0], [3.5, 4, 1]]
    assert data.labels is None


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1, 2]] * 4, pa.list_(pa.float32())),
        pa.array([[1, 2]] * 4, pa.large_list(pa.float64())),
        pa.array([[1, 2]] * 4, pa.list_(pa.int16(), 2)),
    ],
)
def test_one_list_column_holds_the_features(tmp_path: Path, column: pa.Array) -> None:
    changes = {"bm25": None, "clicks": None, "new": None, "features": column}
    data = read_items(write_parquet(tmp_path / "items.parquet", **changes))
    assert data.features.tolist() == [[1, 2]] * 4
    assert data.feature_names is None


LISTS = {"bm25": None, "clicks": None, "new": None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"doc_id": None}, "a table with a column `doc_id`"),
        ({"query_id": ["a", "b", None, "c"]}, "row 3: expected an id in column `query_id`"),
        ({"doc_id": [1, 2, None, 4]}, "row 3: expected an id in column `doc_id`; got None"),
        ({"query_id": ["a", "", "b", "c"]}, "row 2: expected an id in column `query_id`"),
        ({"query_id": [0.5, 1.5, 2.5, 3.5]}, "query_id` must be a column of strings or whole"),
        ({"bm25": [1, 2, 3, np.inf]}, "row 4: expected a finite number in column `bm25`; got inf"),
        (
            {"bm25": [1, 1e39, 3, 4]},
            r"row 2: expected a finite number in column `bm25`; got 1e\+39",
        ),
        (
            {"label": [1, 0, -1, 0]},
            "row 3: expected a finite number, at least 0, in column `label`",
        ),
        (
            {"production_score": [1, 0, np.nan, 0]},
            "row 3: expected a finite number in column `prod",
        ),
        ({"doc_id": [1, 1, 1, 3]}, "row 3: expected each document .* query b and document 1 again"),
        (
            {"features": [[1.0]] * 4},
            "features in the list column `features` or in others, not both",
        ),
        (
            LISTS | {"features": [[1.0], [1.0, 2.0], [3.0], []]},
            "row 2: .* list of 1 features; got 2",
        ),
        (LISTS | {"features": [[1.0], [2.0], None, [3.0]]}, "row 3: expected a list of 1 features"),
        (
            LISTS | {"features": [[1.0], [2.0], [np.inf], [3.0]]},
            "row 3: expected a finite number in column `features`; got inf",
        ),
        ({"label": ["x", "y", "z", "w"]}, "label` must be a column of numbers; got 'string'"),
        (LISTS | {"features": [["x"]] * 4}, "features` must be lists of numbers"),
        (
            {name: [] for name in GOOD}
            | {
                "query_id": pa.array([], pa.string()),
                "doc_id": pa.array([], pa.int64()),
                "bm25": pa.array([], pa.float32()),
                "clicks": None,
                "new": None,
            },
            "at least one row",
        ),
    ],
)
def test_a_bad_table_gets_one_sentence(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as raised:
        read_items(write_parquet(tmp_path / "items.parquet", **changes))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be"),
        ("query_id,x\n1,2\n", "a table with a column `doc_id`"),
        ("query_id,doc_id,x,x\n1,2,3,4\n", r"different column names; got \['x'\]"),
        (
            "query_id,doc_id,x\n" + "".join(f"1,{n},{n}\n" for n in range(20)) + "1,20,abc\n",
            "row 21: expected a number in column `x`, as in most of its rows; got 'abc'",
        ),
        ("query_id,doc_id,label\n1,2,abc\n", "invalid value 'abc'"),
        ("query_id,doc_id,x\n1,2\n", "Expected 3 columns, got 2"),
        ("query_id,doc_id,x\n1,,3\n", "row 1: expected an id in column `doc_id`"),
        ("query_id,doc_id,label\n1,2,\n", "row 1: expected a finite number, at least 0, in column"),
        ("query_id,doc_id,x\n1,2,1e99\n", "row 1: expected a finite number in column `x`"),
        ("query_id,doc_id,x\n", "at least one row"),
        ("query_id,doc_id,x\n1,a,3\n1,a\x00,3\n", "without the character NUL; got 'a.x00'"),
    ],
)
def test_a_bad_csv_gets_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "items.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as raised:
        read_items(path)
    assert "\n" not in str(raised.value)


def test_whole_numbers_first_and_fractions_much_later_are_all_read(tmp_path: Path) -> None:
    path = tmp_path / "items.csv.gz"
    rows = [f"{row // 10},{row % 10},{row if row < 199_999 else 0.5}" for row in range(200_000)]
    path.write_bytes(gzip.compress("\n".join(["query_id,doc_id,x", *rows]).encode(), 1))
    data = read_items(path)
    assert data.features[-2:, 0].tolist() == [199_998, 0.5]


def test_spelled_ids_of_csv_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text("query_id,doc_id,x\n007,1,2\n7,1,3\n")
    assert read_items(path).query_ids.tolist() == ["007", "7"]


@settings(max_examples=60, deadline=None)
@given(noise=st.binary(max_size=80), end=st.sampled_from([".parquet", ".csv", ".csv.gz"]))
def test_random_bytes_never_crash(folder: Path, noise: bytes, end: str) -> None:
    path = folder / f"noise{end}"
    path.write_bytes(noise)
    with pytest.raises(InputError):
        read_items(path)


def test_unknown_ends_and_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must end with one of \.parquet"):
        read_items(tmp_path / "items.xlsx")
    with pytest.raises(InputError, match="a file that exists"):
        read_items(tmp_path / "items.csv")


def test_names_of_columns_are_compared_in_one_pass() -> None:
    class Name(str):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Name.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    names = [Name(f"f{number}") for number in range(2000)]
    assert repeated(names) == []
    assert repeated([*names, Name("f7")]) == ["f7"]
    assert Name.compared < 10 * len(names)


def test_the_index_of_a_data_frame_is_no_feature(tmp_path):
    frame = pd.DataFrame({"query_id": [1, 1, 2], "doc_id": [1, 2, 1], "price": [1.0, 2.0, 3.0]})
    frame.set_index(pd.Index([5, 0, 9])).to_parquet(tmp_path / "items.parquet")
    assert "__index_level_0__" in pq.read_schema(tmp_path / "items.parquet").names
    items = read_items(tmp_path / "items.parquet")
    assert list(items.schema.names) == ["price"]
