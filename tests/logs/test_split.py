"""Sessions to learn from and sessions to judge by: the split of a log, whatever counts it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from splits import is_judged, numpy_hash

import saferank as sr
from saferank.counts import CountTable, Split
from saferank.counts.hashing import Hash
from saferank.counts.split import OFF
from saferank.errors import InputError

Cells = dict[tuple[object, ...], tuple[int, int]]


def cells(table: CountTable, part: str | None = None) -> Cells:
    """Impressions and clicks of one part, or of both together."""
    found: dict[tuple[object, ...], tuple[int, int]] = {}
    for row in table.to_arrow().to_pylist():
        if part in (None, row.get("part", "learn")) and row["impressions"]:
            key = row["query_id"], row["doc_id"], row["rank"]
            shown, clicked = found.get(key, (0, 0))
            found[key] = shown + row["impressions"], clicked + row["clicks"]
    return found


def sessions_said(table: CountTable) -> Counter[tuple[object, str]]:
    rows = table.to_arrow().to_pylist()
    return Counter({(r["query_id"], r["part"]): r["sessions"] for r in rows if r["sessions"]})


def write(path: Path, columns: Mapping[str, object]) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


@st.composite
def logs(draw: st.DrawFn, text: bool = False) -> dict[str, list[object]]:
    """Lists of up to three different documents, each with a session of its own."""
    number = draw(st.integers(1, 40))
    ids = draw(
        st.lists(
            st.text(max_size=6) if text else st.integers(-(2**63), 2**63 - 1),
            min_size=number, max_size=number, unique=True,
        )
    )  # fmt: skip
    columns: dict[str, list[object]] = {
        name: [] for name in ("session_id", "query_id", "doc_id", "rank", "click")
    }
    for session in ids:
        query = draw(st.integers(0, 3))
        shown = draw(st.permutations(range(4)))[: draw(st.integers(1, 3))]
        for rank, document in enumerate(shown, start=1):
            row = (session, query, document, rank, draw(st.booleans()))
            for name, value in zip(columns, row, strict=True):
                columns[name].append(value)
    return columns


def by_hand(log: dict[str, list[object]], share: float, seed: int) -> dict[str, Cells]:
    """Impressions and clicks of each part by a loop."""
    found: dict[str, Cells] = {"learn": {}, "judge": {}}
    rows = zip(
        *(log[n] for n in ("session_id", "query_id", "doc_id", "rank", "click")), strict=True
    )
    for session, query, document, rank, click in rows:
        part = found["judge" if is_judged(session, share, seed) else "learn"]
        shown, clicked = part.get((query, document, rank), (0, 0))
        part[query, document, rank] = shown + 1, clicked + int(bool(click))
    return found


@pytest.mark.parametrize("use_sessions", [True, False])
@pytest.mark.parametrize("text", [False, True])
@settings(max_examples=6, deadline=None)
@given(data=st.data(), share=st.floats(0.01, 0.99), seed=st.integers(0, 10**6))
def test_parts_are_those_of_a_loop_and_add_up(
    tmp_path_factory: pytest.TempPathFactory, text: bool, use_sessions: bool, data: st.DataObject,
    share: float, seed: int,
) -> None:  # fmt: skip
    log = data.draw(logs(text))
    path = write(tmp_path_factory.mktemp("log") / "log.parquet", log)
    table = sr.logs.count(path, judge=share, seed=seed, use_sessions=use_sessions)
    expected = by_hand(log, share, seed)
    assert {part: cells(table, part) for part in expected} == expected
    together = sr.logs.count(path, judge=0, use_sessions=use_sessions)
    assert cells(table) == cells(together)
    assert table.split == Split("session", share, seed)
    if use_sessions:
        pairs = set(zip(log["query_id"], log["session_id"], strict=True))
        parts = ((q, "judge" if is_judged(s, share, seed) else "learn") for q, s in pairs)
        assert sessions_said(table) == Counter(parts)
        assert table.report is not None
        assert table.report.judge_sessions == sum(is_judged(s, share, seed) for _, s in pairs)


@settings(max_examples=5, deadline=None)
@given(
    log=logs(),
    order=st.randoms(use_true_random=False),
    shares=st.tuples(*[st.floats(0.05, 0.9)] * 2),
)
def test_a_smaller_share_lies_within_a_larger_and_rows_may_come_in_any_order(
    log: dict[str, list[object]], order: object, shares: tuple[float, float]
) -> None:
    places = list(range(len(log["rank"])))
    order.shuffle(places)  # type: ignore[attr-defined]
    moved = pa.table({name: [values[p] for p in places] for name, values in log.items()})
    few, many = (sr.logs.count(moved, judge=share, seed=3) for share in sorted(shares))
    in_order = sr.logs.count(pa.table(log), judge=min(shares), seed=3)
    assert few.to_arrow().equals(in_order.to_arrow())
    judged_by_many = cells(many, "judge")
    for key, (shown, clicked) in cells(few, "judge").items():
        assert shown <= judged_by_many[key][0]
        assert clicked <= judged_by_many[key][1]


@settings(max_examples=5, deadline=None)
@given(log=logs(), cuts=st.integers(1, 4), seed=st.integers(0, 99))
def test_day_by_day_equals_at_once(
    tmp_path_factory: pytest.TempPathFactory, log: dict[str, list[object]], cuts: int, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("days")
    day = [hash(session) % cuts for session in log["session_id"]]
    days = []
    for number in sorted(set(day)):
        rows = {n: [v for v, d in zip(c, day, strict=True) if d == number] for n, c in log.items()}
        path = write(folder / f"log{number}.parquet", rows)
        days.append(sr.logs.count(path, output=folder / f"day{number}.parquet", seed=seed))
    merged = sr.logs.merge(days)
    at_once = sr.logs.count(pa.table(log), seed=seed)
    assert merged.to_arrow().equals(at_once.to_arrow())
    assert merged.split == at_once.split


FAMILIES = {
    "in order": np.arange(200_000),
    "by tens": np.arange(200_000) * 10,
    "by powers of two": np.arange(200_000) << 20,
    "halves of 64 bits": np.arange(200_000) << 32,
    "times": 1_700_000_000_000 + np.arange(200_000) * 37,
    "negative": -1 - np.arange(200_000),
    "snowflakes": ((1_700_000_000_000 + np.arange(200_000) // 3) << 22) | np.arange(200_000) % 3,
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(5))
def test_the_hash_looks_like_chance(family: str, seed: int) -> None:
    """The share, and how judged sessions follow each other, as for coin tosses."""
    ids = FAMILIES[family]
    judged = (numpy_hash(ids, seed) < 0.2 * 2**31).astype(float)
    assert abs(judged.mean() - 0.2) < 4.5 * np.sqrt(0.16 / ids.size)
    blocks = judged.reshape(-1, 100).sum(axis=1)
    assert abs(blocks.var() / 16 - 1) < 4.5 * np.sqrt(2 / blocks.size)
    away = judged - 0.2
    for lag in (1, 2, 3, 7, 10, 16, 64, 100, 1000, 1024):
        together = (away[lag:] * away[:-lag]).mean() / 0.16
        assert abs(together) < 4.5 / np.sqrt(ids.size - lag)


def test_the_hash_of_ids_of_every_width() -> None:
    wide = [5, 2**63 + 9, 2**64 - 1]
    table = ibis.memtable(
        pa.table({
            "wide": pa.array(wide, pa.uint64()),
            "narrow": pa.array([5, -1, 2], pa.int8()),
            "usual": pa.array([5, -(2**63), 2**63 - 1], pa.int64()),
        })
    )  # fmt: skip
    for name, kind in (("wide", np.uint64), ("narrow", np.int8), ("usual", np.int64)):
        ids = np.array(table[name].to_pyarrow().to_pylist(), dtype=kind)
        expected = numpy_hash(ids, 7) < int(0.5 * 2**31)
        assert Hash(0.5, 7).chooses(table[name]).to_list() == expected.tolist()


def test_an_engine_without_md5_says_so() -> None:
    ids = ibis.table({"session_id": "string"}, name="log").session_id
    with pytest.raises(InputError, match="the engine is sqlite, which has no MD5"):
        Hash(0.2, 0, "sqlite").chooses(ids)


ROWS: dict[str, list[Any]] = {
    "query_id": [1, 1, 2, 2, 3],
    "doc_id": [1, 2, 1, 2, 1],
    "rank": [1, 2, 1, 2, 1],
    "click": [True, False, True, False, True],
}


def test_a_log_without_sessions_is_split_by_whole_queries() -> None:
    log = pa.table({name: values * 50 for name, values in ROWS.items()})
    table = sr.logs.count(log, judge=0.4, seed=1)
    parts = {(r["query_id"], r["part"]) for r in table.to_arrow().to_pylist()}
    judged = {query for query in (1, 2, 3) if is_judged(query, 0.4, 1)}
    assert parts == {(query, "judge" if query in judged else "learn") for query in (1, 2, 3)}
    assert table.report is not None
    assert (
        f"parts are whole queries, by a hash of the query id (judge 0.4, seed 1): "
        f"{3 - len(judged)} queries to learn from, {len(judged)} to judge by."
    ) in table.report.sentences()[-1]


def test_the_file_says_how_it_was_split(tmp_path: Path) -> None:
    log = pa.table({**ROWS, "session_id": [1, 1, 2, 2, 3]})
    for options, split in (
        ({}, Split("session", 0.2, 0)),
        ({"judge": 0.35, "seed": 9}, Split("session", 0.35, 9)),
        ({"judge": 0}, OFF),
    ):
        sr.logs.count(log, output=tmp_path / "counts.parquet", **options)
        opened = CountTable.open(tmp_path / "counts.parquet")
        assert opened.split == split
        assert opened.has_parts == (split != OFF)
        counts = sr.logs.read_counts(tmp_path / "counts.parquet")
        assert (counts.judge is None) == (split == OFF)


def test_sentences_say_how_many_sessions_are_in_each_part() -> None:
    log = pa.table({**ROWS, "session_id": [1, 1, 2, 2, 3]})
    judged = sum(is_judged(session, 0.5, 0) for session in (1, 2, 3))
    report = sr.logs.count(log, judge=0.5).report
    assert report is not None
    assert report.sentences()[2] == (
        f"Parts by a hash of the session id (judge 0.5, seed 0): {3 - judged} sessions to learn "
        f"from, {judged} to judge by."
    )
    off = sr.logs.count(log, judge=0).report
    assert off is not None
    assert off.sentences()[2].startswith("There are no parts: all sessions are to learn from")


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ({"seed": 0}, {"seed": 1}, "judge 0.2, seed 0 in .* judge 0.2, seed 1"),
        ({"judge": 0.2}, {"judge": 0.3}, "judge 0.2, .* judge 0.3"),
        ({"judge": 0.2}, {"judge": 0}, "by session, judge 0.2, seed 0 in .* and no parts in"),
    ],
)
def test_counts_that_were_split_in_other_ways_do_not_add(
    tmp_path: Path, one: dict[str, object], other: dict[str, object], words: str
) -> None:
    log = pa.table({**ROWS, "session_id": [1, 1, 2, 2, 3]})
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    later = pa.table({**ROWS, "session_id": [11, 11, 12, 12, 13]})
    for path, rows, options in zip(paths, (log, later), (one, other), strict=True):
        sr.logs.count(rows, output=path, **options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=f"split in one way to be added; got .*{words}"):
        sr.logs.merge(paths)
    together = sr.logs.merge(paths, judge=0)
    assert together.split == OFF
    assert cells(together) == {key: (2 * n, 2 * c) for key, (n, c) in
                               cells(sr.logs.count(log, judge=0)).items()}  # fmt: skip
    assert (
        sum({r["query_id"]: r["sessions"] for r in together.to_arrow().to_pylist()}.values()) == 6
    )


def test_counts_without_parts_stay_without_them(tmp_path: Path) -> None:
    log = pa.table({**ROWS, "session_id": [1, 1, 2, 2, 3]})
    sr.logs.count(log, output=tmp_path / "a.parquet", judge=0)
    again = sr.logs.count(tmp_path / "a.parquet")
    assert again.split == OFF
    assert not again.has_parts


def test_parts_of_other_names_are_refused_and_given_ones_taken() -> None:
    columns = {"query_id": [1, 1], "doc_id": [1, 1], "rank": [1, 1], "impressions": [4, 2],
               "clicks": [2, 1]}  # fmt: skip
    bad = pa.table({**columns, "part": ["learn", "test"]})
    with pytest.raises(InputError, match=r"`part` must be learn or judge \(1 rows"):
        sr.logs.count(bad)
    with pytest.raises(InputError, match="`part` must be learn or judge in counts"):
        sr.logs.align(CountTable.of_arrow(bad), sr.data.RankingData(np.zeros((1, 1)), [0, 1]))
    given_ = sr.logs.count(pa.table({**columns, "part": ["learn", "judge"]}))
    assert given_.split == Split("given", None, None)
    assert cells(given_, "judge") == {(1, 1, 1): (2, 1)}
    with pytest.raises(InputError, match="`part of counts` must be learn or judge; got 'int64'"):
        CountTable.of_arrow(pa.table({**columns, "part": [0, 1]}))


@pytest.mark.parametrize(
    ("options", "words"),
    [({"judge": 1.0}, "`judge` must be in"), ({"judge": -0.1}, "`judge` must be in"),
     ({"judge": float("nan")}, "`judge` must be in"), ({"seed": 0.5}, "`seed` must be a whole")],
)  # fmt: skip
def test_shares_and_seeds_that_make_no_sense(options: dict[str, float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        sr.logs.count(pa.table(ROWS), **options)  # type: ignore[arg-type]


def test_a_split_that_is_no_split(tmp_path: Path) -> None:
    table = pa.table({**ROWS, "impressions": [1] * 5, "clicks": [0] * 5}).drop(["click"])
    for text in (b"{}", b"no", b'{"by": "coin", "judge": 0.2, "seed": 0}'):
        broken = CountTable.of_arrow(table.replace_schema_metadata({b"saferank.split": text}))
        with pytest.raises(InputError, match="`split` of the counts is malformed"):
            _ = broken.split


def test_sessions_whose_rows_were_left_out_stay_sessions_of_their_part(tmp_path: Path) -> None:
    """A session that shows two documents at its only rank has no impression in its part."""
    judge = next(session for session in range(99) if is_judged(session, 0.2, 0))
    learn = next(session for session in range(99) if not is_judged(session, 0.2, 0))
    log = pa.table({
        "session_id": [learn, judge, judge], "query_id": [7, 7, 7], "doc_id": [1, 1, 2],
        "rank": [1, 1, 1], "click": [True, False, False],
    })  # fmt: skip
    table = sr.logs.count(log, skip_bad=True, output=tmp_path / "counts.parquet")
    assert sessions_said(table) == {(7, "learn"): 1, (7, "judge"): 1}
    counts = sr.logs.read_counts(tmp_path / "counts.parquet")
    assert counts.part("judge").total == 1
    assert counts.part("judge").impressions.sum() == 0
