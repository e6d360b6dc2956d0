"""Counts put in their places without an engine: as DuckDB does it, and only where that is plain."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saferank.counts import CountTable
from saferank.counts.count_table import RANKS_SAID
from saferank.counts.split import OFF
from saferank.data import RankingData
from saferank.errors import InputError
from saferank.logs import align
from saferank.logs.counting import EngineChoice
from saferank.logs.plain_alignment import align_plainly

DUCKDB = EngineChoice()
ITEMS = [("a", "x"), ("a", "y"), ("b", "x"), ("b", "z"), ("c", "y")]


def items_of(pairs: list[tuple[str, str]], numbers: bool = False) -> RankingData:
    """Items of pairs that are in the order of their queries."""
    queries = list(dict.fromkeys(query for query, _ in pairs))
    offsets = np.cumsum([0, *(sum(own == name for own, _ in pairs) for name in queries)])
    ids: Any = [queries, [doc for _, doc in pairs]]
    if numbers:
        ids = [[ord(name) for name in column] for column in ids]
    return RankingData(
        np.zeros((len(pairs), 1)), offsets, query_ids=np.array(ids[0]), doc_ids=np.array(ids[1])
    )


def table_of(rows: list[dict[str, Any]], **metadata: str) -> CountTable:
    said = {"saferank.split" if name == "split" else name: v for name, v in metadata.items()}
    return CountTable.of_arrow(pa.Table.from_pylist(rows).replace_schema_metadata(said))


def row(query: str, doc: str, rank: int, shown: int, clicked: int, **more: Any) -> dict[str, Any]:
    keys = {"query_id": query, "doc_id": doc, "rank": rank}
    return {**keys, "impressions": shown, "clicks": clicked, **more}


ROWS = st.lists(
    st.tuples(
        st.sampled_from(ITEMS),
        st.integers(1, 4),
        st.integers(0, 9),
        st.integers(0, 9),
        st.sampled_from(["learn", "judge"]),
    ),
    min_size=1,
    max_size=20,
)


@settings(deadline=None, max_examples=60)
@given(ROWS, st.booleans(), st.booleans(), st.booleans(), st.sampled_from([None, 2, 6]))
def test_as_duckdb_does_it(
    drawn: list[Any], parts: bool, said: bool, numbers: bool, ranks: int | None
) -> None:
    rows = []
    for (query, doc), rank, shown, clicked, part in drawn:
        more: dict[str, Any] = {"part": part} if parts else {}
        if said:
            more["sessions"] = 100 + ord(query) + (len(part) if parts else 0)
        rows.append(row(query, doc, rank, max(shown, clicked), min(shown, clicked), **more))
    if numbers:
        rows = [{**it, "query_id": ord(it["query_id"]), "doc_id": ord(it["doc_id"])} for it in rows]
    metadata = {} if parts else {"split": OFF.to_text()}
    table, items = (
        table_of(rows, **metadata, **{RANKS_SAID.decode(): "3"}),
        items_of(ITEMS, numbers),
    )
    assert align_plainly(table, items, ranks) is not None
    (plain, report), (joined, expected) = (
        align(table, items, ranks=ranks, engine=engine) for engine in (None, DUCKDB)
    )
    assert asdict(report) == asdict(expected)
    for name in ("all", "learn", "judge"):
        ours, theirs = plain.part(name), joined.part(name)
        for array in ("impressions", "clicks", "sessions"):
            assert np.array_equal(getattr(ours, array), getattr(theirs, array))
        assert ours.fingerprint() == theirs.fingerprint()


UNUSUAL: dict[str, list[dict[str, Any]]] = {
    "a document without an item": [row("a", "z", 1, 1, 0, part="learn")],
    "a query without items": [row("d", "x", 1, 1, 0, part="learn")],
    "a missing id": [
        row("a", "x", 1, 1, 0, part="learn"),
        {**row("a", "y", 2, 1, 0), "doc_id": None},
    ],
    "more clicks than impressions": [row("a", "x", 1, 1, 2, part="learn")],
    "a rank of 0": [row("a", "x", 0, 1, 0, part="learn")],
    "a negative count": [row("a", "x", 1, -1, -1, part="learn")],
    "another part": [row("a", "x", 1, 1, 0, part="test")],
    "a huge count": [row("a", "x", 1, 1 << 50, 0, part="learn")],
    "sessions that differ": [
        row("a", d, 1, 1, 0, part="learn", sessions=n) for d, n in ("x1", "y2")
    ],
    "no sessions": [
        row("a", "x", 1, 1, 0, part="learn", sessions=None),
        row("a", "y", 1, 1, 0, part="learn", sessions=2),
    ],
    "parts to be drawn": [row("a", "x", 1, 9, 0)],
    "propensities": [row("a", "x", 1, 1, 0, part="learn", propensity=0.5)],
    "users": [row("a", "x", 1, 1, 0, part="learn", sessions=1, cluster="u")],
    "numbers for texts": [{**row("a", "x", 1, 1, 0, part="learn"), "doc_id": 7}],
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_what_is_unusual_is_left_to_the_engine(name: str) -> None:
    rows = [
        {key: int(it[key]) if key == "sessions" and it[key] is not None else it[key] for key in it}
        for it in UNUSUAL[name]
    ]
    table, items = table_of(rows), items_of(ITEMS)
    assert align_plainly(table, items, None) is None
    results = []
    for engine in (None, DUCKDB):
        try:
            counts, report = align(table, items, engine=engine)
            results.append((counts.fingerprint(), str(report)))
        except InputError as error:
            results.append(("refused", str(error)))
    assert results[0] == results[1]


def test_documents_that_items_have_twice_are_left_to_the_engine() -> None:
    table = table_of([row("a", "x", 1, 1, 0, part="learn")])
    twice = items_of([("a", "x"), ("a", "x")])
    assert align_plainly(table, twice, None) is None
    with pytest.raises(InputError, match="twice"):
        align(table, twice)


def test_ranks_are_checked_by_the_engine() -> None:
    table, items = table_of([row("a", "x", 1, 1, 0, part="learn")]), items_of(ITEMS)
    assert align_plainly(table, items, 0) is None
    with pytest.raises(InputError, match="ranks"):
        align(table, items, ranks=0)
