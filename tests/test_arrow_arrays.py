"""Arrow's columns by their buffers: as Arrow itself converts them, without pandas."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saferank._core.arrow_arrays import from_arrow, texts, whole_numbers

KINDS: list[tuple[pa.DataType, Any]] = [
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.uint8(), st.integers(0, 255)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.bool_(), st.booleans()),
    (pa.string(), st.text(max_size=3)),
]


@pytest.mark.parametrize(("kind", "values"), KINDS, ids=[str(kind) for kind, _ in KINDS])
@given(data=st.data())
def test_the_values_are_those_of_arrow(kind: pa.DataType, values: Any, data: st.DataObject) -> None:
    missing = data.draw(st.booleans())
    listed = data.draw(st.lists(st.none() | values if missing else values, max_size=20))
    first = data.draw(st.integers(0, len(listed)))
    column = pa.array(listed, kind)[first:]
    for ours in (from_arrow(column), from_arrow(pa.chunked_array([column[:3], column[3:]]))):
        theirs = column.to_numpy(zero_copy_only=False)
        assert ours.dtype == theirs.dtype or not len(listed[first:]) or missing
        assert [None if v is None or v != v else v for v in ours.tolist()] == [
            None if v is None or v != v else v for v in theirs.tolist()
        ]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_texts_come_back(words: list[str]) -> None:
    column = texts(words)
    column.validate(full=True)
    assert column.to_pylist() == words


def test_whole_numbers_come_back() -> None:
    assert whole_numbers(np.arange(9)[::3]).to_pylist() == [0, 3, 6]


def test_pandas_is_not_imported() -> None:
    code = (
        "import sys, numpy as np, pyarrow.compute as pc\n"
        "from saferank._core.arrow_arrays import from_arrow, texts, whole_numbers\n"
        "from_arrow(whole_numbers(np.arange(3))); from_arrow(pc.binary_length(texts(['a'])))\n"
        "print('pandas' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
