"""Inspection against plain loops."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from typer.testing import CliRunner

from saferank.cli.app import app
from saferank.data import RankingData, inspect, write_items

VALUES = st.sampled_from([0.0, -0.0, 1.0, 2.0, np.nan, np.inf])


@st.composite
def ranking_data(draw: st.DrawFn) -> RankingData:
    sizes = draw(st.lists(st.integers(0, 6), max_size=5))
    shape = (sum(sizes), draw(st.integers(0, 3)))
    return RankingData(
        draw(arrays.arrays(np.float32, shape, elements=VALUES)),
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        labels=draw(st.none() | arrays.arrays(np.float32, shape[0], elements=st.integers(0, 3))),
    )


@settings(max_examples=200, deadline=None)
@given(data=ranking_data())
def test_the_facts_are_those_of_plain_loops(data: RankingData) -> None:
    found = inspect(data)
    queries = [
        range(first, last)
        for first, last in zip(data.offsets[:-1].tolist(), data.offsets[1:].tolist(), strict=True)
    ]
    rows = data.features.tolist()
    duplicates = sum(
        any(rows[row] == rows[other] and rows[row] == rows[row] for other in range(query[0], row))
        for query in queries
        for row in query
        if not np.isnan(rows[row]).any()
    )
    assert found.duplicate_rows == duplicates
    assert found.non_finite_values == sum(not np.isfinite(x) for row in rows for x in row)
    columns = [[row[column] for row in rows] for column in range(data.width)]
    constant = [
        place
        for place, column in enumerate(columns)
        if column and np.isfinite(column).all() and len(set(column)) == 1
    ]
    assert list(found.constant_features) == constant
    lengths = [len(query) for query in queries] or [0]
    assert found.documents_per_query == (min(lengths), float(np.median(lengths)), max(lengths))
    if data.labels is None:
        assert found.grades is None
        assert found.queries_without_relevant is None
    else:
        assert found.grades == Counter(data.labels.tolist())
        empty = sum(not any(data.labels[row] > 0 for row in query) for query in queries)
        assert found.queries_without_relevant == (empty / len(queries) if queries else 0)


def test_problems_are_sentences() -> None:
    data = RankingData([[1.0, 0.0], [1.0, 0.0], [np.nan, 0.0]], [0, 2, 3])
    assert inspect(data).problems == (
        "1 value is missing or not finite.",
        "1 of 2 features is constant.",
        "1 of 3 documents has the features of an earlier document of its query.",
        "1 of 2 queries has a single document, so nothing to rank.",
        "There are no labels.",
    )
    many = RankingData(np.arange(50)[:, None], [0, 50], labels=np.arange(50))
    assert inspect(many).problems == ("Labels have 50 different values: are they grades?",)


def collection(folder: Path) -> RankingData:
    rng = np.random.default_rng(0)
    data = RankingData(rng.normal(size=(12, 46)), [0, 4, 12], labels=np.arange(12) % 3)
    for part in ("train", "vali", "test"):
        write_items(data, folder / f"{part}.txt")
    return data


def test_the_command_prints_a_table_a_part(tmp_path: Path) -> None:
    collection(tmp_path / "MQ2008")
    result = CliRunner().invoke(app, ["data", "inspect", str(tmp_path / "MQ2008")])
    assert result.exit_code == 0, result.output
    for words in ("mq2008, grades 0..2: train", "validation", "test", "documents of grade 2"):
        assert words in result.output


@pytest.mark.parametrize("end", [".parquet", ".csv", ".txt.gz"])
def test_the_command_gives_json_of_a_file(tmp_path: Path, end: str) -> None:
    data = collection(tmp_path / "MQ2008")
    write_items(data, tmp_path / f"items{end}")
    result = CliRunner().invoke(app, ["data", "inspect", str(tmp_path / f"items{end}"), "--json"])
    assert result.exit_code == 0, result.output
    facts = json.loads(result.output)["parts"]["items"]
    assert facts["queries"] == 2
    assert facts["documents_per_query"] == [4, 6.0, 8]
    assert facts["grades"] == {"0": 4, "1": 4, "2": 4}
