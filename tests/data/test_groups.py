"""Groups of documents from a column of the items, whatever the table's order."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from saferank.data import read_items
from saferank.data.items import read_groups
from saferank.errors import InputError

ROWS: dict[str, list[Any]] = {
    "term": ["b", "a", "b", "a", "c"],
    "doc_id": ["1", "1", "2", "3", "1"],
    "f": [0.0, 1.0, 2.0, 3.0, 4.0],
    "brand": ["x", "y", "", "x", "z"],
    "shelf": [3, 3, 4, 4, 3],
}
COLUMNS = {"query_id": "term"}


@pytest.mark.parametrize("kind", ["parquet", "csv", "memory"])
def test_each_document_has_the_group_of_its_row(tmp_path, kind):
    table = pa.table(ROWS)
    source = table if kind == "memory" else tmp_path / f"items.{kind}"
    if kind == "parquet":
        pq.write_table(table, source)
    elif kind == "csv":
        pyarrow.csv.write_csv(table, source)
    data = read_items(source, columns=COLUMNS)
    for column in ("brand", "shelf"):
        groups = read_groups(source, column, data, columns=COLUMNS)
        told = {}
        for place in range(data.documents):
            query = np.searchsorted(data.offsets, place, side="right") - 1
            pair = (str(data.query_ids[query]), str(data.doc_ids[place]))
            told[pair] = groups.names[groups.codes[place]]
        rows = zip(ROWS["term"], ROWS["doc_id"], ROWS[column], strict=True)
        assert told == {(q, d): str(g) or "(none)" for q, d, g in rows}
        assert groups.column == column


def test_what_names_no_group_is_refused(tmp_path):
    table = pa.table(ROWS)
    data = read_items(table, columns=COLUMNS)
    with pytest.raises(InputError, match="`group` must be one of the columns term, doc_id"):
        read_groups(table, "colour", data, columns=COLUMNS)
    with pytest.raises(InputError, match="`group` must be a column of the table that the items"):
        read_groups(table.slice(1), "brand", data, columns=COLUMNS)
    (tmp_path / "items.txt").write_text("1 qid:1 1:0.5\n")
    with pytest.raises(InputError, match="`--group` must be a column of a Parquet or CSV table"):
        read_groups(tmp_path / "items.txt", "brand", data)


@pytest.mark.parametrize("kind", ["parquet", "csv", "memory"])
def test_columns_are_left_out_as_asked(tmp_path, kind):
    table = pa.table(ROWS | {"odd": ["1", "x", "", "2020-01-01", "{}"]})
    source = table if kind == "memory" else tmp_path / f"items.{kind}"
    if kind == "parquet":
        pq.write_table(table, source)
    elif kind == "csv":
        pyarrow.csv.write_csv(table, source)
    data = read_items(source, columns=COLUMNS, leave_out=("brand", "odd"))
    assert data.schema.names == ("f", "shelf")
    assert data.left_out == (("brand", "as you asked"), ("odd", "as you asked"))
    assert np.array_equal(data.features[:, 0], [0.0, 2.0, 1.0, 3.0, 4.0])
    with pytest.raises(InputError, match="`leave_out` must be one of the columns term, doc_id"):
        read_items(source, columns=COLUMNS, leave_out=["colour"])
    with pytest.raises(InputError, match="`leave_out` must be a column that is no id; got 'term'"):
        read_items(source, columns=COLUMNS, leave_out=["term"])


def test_letor_has_no_columns_to_leave_out(tmp_path):
    (tmp_path / "items.txt").write_text("1 qid:1 1:0.5\n")
    with pytest.raises(InputError, match="`leave_out` must be a column of a Parquet or CSV table"):
        read_items(tmp_path / "items.txt", leave_out=["1"])


def test_groups_may_stand_beside_a_list_of_features():
    table = pa.table({name: ROWS[name] for name in ("term", "doc_id", "brand")}).append_column(
        "features", pa.array([[float(n), 1.0] for n in range(5)])
    )
    with pytest.raises(InputError, match="list column `features` or in others, not both"):
        read_items(table, columns=COLUMNS)
    data = read_items(table, columns=COLUMNS, group="brand")
    assert data.schema.names == ("1", "2")
    groups = read_groups(table, "brand", data, columns=COLUMNS)
    assert [groups.names[code] for code in groups.codes] == ["x", "(none)", "y", "x", "z"]
