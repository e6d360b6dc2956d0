"""Files that saferank wrote are known by their marks, and still are what they were."""

import json
import os
import xml.etree.ElementTree as ElementTree
import zlib

import altair as alt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from saferank._core.charts import save_chart
from saferank._core.files import atomic_file, check_file, read_json, write_json
from saferank._core.marks import is_marked, kind_of, mark, parquet_mark
from saferank.errors import InputError


@pytest.fixture(scope="module")
def chart():
    return alt.Chart({"values": [{"x": 1, "y": 2}]}).mark_point().encode(x="x:Q", y="y:Q")


@pytest.mark.parametrize("form", ["html", "svg", "png", "pdf"])
def test_charts_are_marked_and_whole(form, chart, tmp_path):
    ours, theirs = tmp_path / f"ours.{form}", tmp_path / f"theirs.{form}"
    save_chart(chart, ours)
    chart.save(str(theirs), **({"scale_factor": 2} if form == "png" else {}))
    assert is_marked(ours)
    assert not is_marked(theirs)
    if form == "svg":
        ElementTree.fromstring(ours.read_text())
    if form == "png":
        chunks = dict(png_chunks(ours.read_bytes()))
        assert chunks.pop(b"tEXt") == b"Software\0saferank"
        assert chunks == dict(png_chunks(theirs.read_bytes()))


def png_chunks(data):
    """Each chunk's kind and content; the check sums must be right."""
    at = 8
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert int.from_bytes(data[at + 8 + size : at + 12 + size], "big") == zlib.crc32(
            kind + body
        )
        yield kind, body
        at += 12 + size


def test_the_name_does_not_matter(tmp_path):
    path = tmp_path / "model"
    write_json(path, {"a": 1})
    assert is_marked(path)
    assert json.loads(path.read_text()) == {"a": 1, "written_by": "saferank"}
    table = pa.table({"a": [1]})
    pq.write_table(table, path)
    assert not is_marked(path)
    pq.write_table(table.replace_schema_metadata(parquet_mark("counts")), path)
    assert is_marked(path)
    path.write_text("# Claims\n")
    assert not is_marked(path)
    mark(path, "md")
    assert is_marked(path)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[" * 10**5, b"{" + b'"a":{' * 10**5, b"PAR1", b"PAR1" * 9, b"\x89PNG", b"x"],
)
def test_damaged_files_are_not_ours(data, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(data)
    assert not is_marked(path)
    assert not is_marked(tmp_path)
    assert not is_marked(tmp_path / "none")


def test_formats_without_room_are_labelled_until_they_are_changed(tmp_path):
    path = tmp_path / "rankings.csv"
    with atomic_file(path) as temporary:
        temporary.write_text("query_id,doc_id\na,1\n")
    if not hasattr(os, "getxattr") or not os.listxattr(path):
        pytest.skip("this file system has no extended attributes")
    assert is_marked(path)
    with path.open("a") as file:
        file.write("mine,1\n")
    assert not is_marked(path)
    write_json(path, [1])
    assert is_marked(path)
    path.write_text("[1, 2]")
    assert not is_marked(path)


def test_a_mark_says_what_a_file_is(tmp_path):
    path = tmp_path / "file"
    write_json(path, {"a": 1}, "click model")
    assert is_marked(path)
    assert kind_of(path) == "click model"
    assert read_json(path) == {"a": 1}
    write_json(path, {"a": 1})
    assert is_marked(path)
    assert kind_of(path) is None
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata(parquet_mark("counts")), path)
    assert kind_of(path) == "counts"
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({"saferank": "saferank"}), path)
    assert is_marked(path), "a mark of before there were kinds"
    assert kind_of(path) is None
    path.write_bytes(b"PAR1 and no more")
    assert kind_of(path) is None


def test_one_kind_does_not_take_the_place_of_another(tmp_path):
    path = tmp_path / "counts.parquet"
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata(parquet_mark("counts")), path)
    check_file(path, kind="counts")
    with pytest.raises(InputError, match="holds saferank's counts, not rankings"):
        check_file(path, kind="rankings")
