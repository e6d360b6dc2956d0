"""Sessions that a ranker learned from are found again, however the log was counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import saferank as sr
from saferank.clicks import position_bias
from saferank.counts import Counts
from saferank.counts.sketch import MOST, Sketch, Sketches, bits_for
from saferank.data import RankingData
from saferank.errors import InputError
from saferank.learning import Settings
from saferank.safety import Rule, assess

QUERIES, SIZE, RANKS = 12, 6, 5


def log_of(first, last, text=False, seed=0):
    """Rows of sessions first to last; the same sessions have the same rows."""
    rows: dict[str, list[Any]] = {
        name: [] for name in ("session_id", "query_id", "doc_id", "rank", "click", "device")
    }
    for session in range(first, last):
        rng = np.random.default_rng([seed, session])
        query = int(rng.integers(QUERIES))
        for rank, document in enumerate(rng.permutation(SIZE)[:RANKS], start=1):
            own = f"session {session}" if text else session
            values = (own, query, int(document), rank, int(rng.random() < 0.3), session % 2)
            for name, value in zip(rows, values, strict=True):
                rows[name].append(value)
    return pa.table(rows)


def items(documents=SIZE):
    rng = np.random.default_rng(0)
    size = QUERIES * documents
    return RankingData(
        rng.normal(size=(size, 3)), np.arange(0, size + 1, documents),
        query_ids=np.arange(QUERIES), doc_ids=np.tile(np.arange(documents), QUERIES),
    )  # fmt: skip


def aligned(table, data=None):
    return sr.logs.align(table, items() if data is None else data, skip_bad=True)[0]


@pytest.fixture(scope="module", params=[False, True], ids=["numbers", "text"])
def world(request):
    text = request.param
    counts = aligned(sr.count(log_of(0, 400, text), judge=0))
    ranker = sr.learn(
        items(), counts, position_bias(RANKS), method="ips", scorer="linear",
        settings=Settings(steps=20),
    )  # fmt: skip
    return text, ranker


CASES = {
    "one session more": lambda text: aligned(sr.count(log_of(0, 401, text), judge=0)),
    "in parts": lambda text: aligned(sr.count(log_of(0, 400, text))),
    "another seed": lambda text: aligned(sr.count(log_of(0, 400, text), seed=1)),
    "two days": lambda text: aligned(sr.count(log_of(0, 800, text))),
    "some rows": lambda text: aligned(sr.count(log_of(0, 800, text), where=["device=0"])),
    "without repeats": lambda text: aligned(sr.count(log_of(0, 500, text), use_sessions=False)),
    "merged days": lambda text: aligned(
        sr.logs.merge([sr.count(log_of(a, a + 400, text)) for a in (0, 400)])
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_they_are_refused(world, case):
    text, ranker = world
    counts = CASES[case](text)
    with pytest.raises(InputError, match="learned from"):
        assess(ranker, items(), counts=counts)
    found = assess(ranker, items(), counts=counts, rule=Rule(same_sessions=True))
    assert "flatters" in found.flatters


def test_a_delisted_document_does_not_hide_them(world):
    text, ranker = world
    few = items(SIZE - 1)
    with pytest.raises(InputError, match="learned from"):
        assess(ranker, few, counts=aligned(sr.count(log_of(0, 400, text), judge=0), few))


def test_other_sessions_are_not(world):
    text, ranker = world
    found = assess(ranker, items(), counts=aligned(sr.count(log_of(400, 800, text), judge=0)))
    assert found.flatters is None


def test_a_saved_ranker_remembers(world, tmp_path):
    text, ranker = world
    ranker.save(tmp_path / "run")
    with pytest.raises(InputError, match="learned from"):
        assess(sr.load(tmp_path / "run"), items(), counts=CASES["two days"](text))


def test_the_learn_part_alone_is_remembered():
    counts = aligned(sr.count(log_of(0, 400)))
    assert counts.part("learn").sketch.ids.isdisjoint(counts.judge.sketch.ids)
    assert len(counts.sketch.ids) == 400
    ranker = sr.learn(
        items(), counts, position_bias(RANKS), method="ips", scorer="linear",
        settings=Settings(steps=20),
    )  # fmt: skip
    assert assess(ranker, items(), counts=counts).flatters is None


def test_counts_of_the_same_sessions_are_not_added(tmp_path):
    for name in ("a", "b"):
        sr.count(log_of(0, 300), output=tmp_path / f"{name}.parquet")
    with pytest.raises(InputError, match=r"100% of those of 'b.parquet' are in 'a.parquet', too"):
        sr.logs.merge([tmp_path / "a.parquet", tmp_path / "b.parquet"])


def test_a_sketch_is_a_sample_that_does_not_grow():
    assert bits_for(10) == 0
    assert bits_for(MOST) == 0
    assert bits_for(10**7) == 14
    rng = np.random.default_rng(0)
    ids = frozenset(map(str, rng.integers(0, 2**62, 50_000).tolist()))
    whole = Sketch(0, ids)
    thin = whole.thinned()
    assert MOST / 2 < len(thin.ids) <= 2 * MOST
    assert thin == whole.at(thin.bits)
    half = Sketch(0, frozenset(sorted(ids)[:25_000]))
    assert thin.shared(half.at(4)) == pytest.approx(0.5, abs=0.12)
    assert (thin | half).bits >= thin.bits


def test_a_sketch_from_elsewhere_is_checked():
    good = Sketches(Sketch(0, frozenset({"1"})), None)
    read = Sketches.of_metadata({b"saferank.sessions": good.to_text().encode()})
    assert read == good
    for bad in (b"{}", b"[", b'{"all": {"bits": -1, "ids": []}, "judge": null}',
                b'{"all": {"bits": 0, "ids": [1]}, "judge": null}', b"[" * 100_000):  # fmt: skip
        with pytest.raises(InputError):
            Sketches.of_metadata({b"saferank.sessions": bad})


@pytest.mark.parametrize("text", [False, True])
def test_a_large_log_is_sampled_and_found_again(text):
    ids = [f"s{i}" for i in range(60_000)] if text else list(range(60_000))
    log = pa.table(
        {"session_id": ids, "query_id": np.zeros(60_000, int),
         "doc_id": np.zeros(60_000, int), "rank": np.ones(60_000, int),
         "click": np.zeros(60_000, int)}
    )  # fmt: skip
    one = sr.count(log, judge=0).sketches.everything
    assert one.bits == 6
    assert 800 < len(one.ids) < 1100
    part = sr.count(log.slice(30_000, 6000), judge=0).sketches.everything
    assert part.shared(one) == pytest.approx(1.0)
    assert one.shared(part) == pytest.approx(0.1, abs=0.04)


def test_ids_as_text_and_as_numbers_are_the_same_sessions():
    """A CSV's whole numbers and a Parquet file's text: the same log is found again."""
    numbers = np.arange(6000)
    rows = {
        "query_id": numbers % 7, "doc_id": numbers % 5, "rank": 1 + numbers % 3,
        "click": numbers % 2,
    }  # fmt: skip
    one, other, padded = (
        sr.count(pa.table({**rows, "session_id": ids}), judge=0).sketches.everything
        for ids in (numbers, numbers.astype(str), [f"{number:09}" for number in numbers])
    )
    assert one == other
    assert one.shared(padded) == 0.0


def test_counts_of_a_part_and_of_the_whole_are_not_added(tmp_path):
    numbers = np.arange(6000)
    rows = pa.table({
        "session_id": numbers, "query_id": numbers % 7, "doc_id": numbers % 5,
        "rank": 1 + numbers % 3, "click": numbers % 2,
    })  # fmt: skip
    for first, second in (("a", "b"), ("b", "a")):
        sr.count(rows, output=tmp_path / f"{first}.parquet")
        sr.count(rows.slice(0, 1500), output=tmp_path / f"{second}.parquet")
        with pytest.raises(InputError, match="different sessions"):
            sr.count([tmp_path / "a.parquet", tmp_path / "b.parquet"])


def test_a_file_that_is_named_twice_is_read_once(tmp_path, monkeypatch):
    rows = pa.table({"query_id": [1], "doc_id": [1], "rank": [1], "click": [1]})
    pq.write_table(rows, tmp_path / "log.parquet")
    monkeypatch.chdir(tmp_path)
    assert sr.count(["log.parquet", "./log.parquet"], judge=0).report.rows == 1


def test_sessions_to_stop_by_and_those_of_an_earlier_ranker_had_a_part():
    learned, stopped = (aligned(sr.count(log_of(a, a + 400), judge=0)) for a in (0, 400))
    options: dict[str, Any] = {"method": "ips", "scorer": "linear", "settings": Settings(steps=5)}
    model = position_bias(RANKS)
    ranker = sr.learn(items(), learned, model, validation=(items(), stopped), **options)
    with pytest.raises(InputError, match=r"learned from|stopped by"):
        assess(ranker, items(), counts=aligned(sr.count(log_of(400, 800), judge=0.5)))
    with pytest.raises(InputError, match="stopped by"):
        assess(ranker, items(), counts=Counts.of_parts(learned.part("all"), stopped))
    fresh = aligned(sr.count(log_of(800, 1200), judge=0))
    again = sr.learn(
        items(), fresh, model, production=ranker, production_kind="observed", start="production",
        **options,
    )  # fmt: skip
    for first in (0, 400, 800):
        with pytest.raises(InputError, match=r"learned from|stopped by"):
            assess(again, items(), counts=aligned(sr.count(log_of(first, first + 400), judge=0.5)))
    assert assess(again, items(), counts=aligned(sr.count(log_of(1200, 1600)))).flatters is None


def test_what_cannot_be_compared_is_taken_for_granted_and_said(world):
    text, ranker = world
    fresh = aligned(sr.count(log_of(400, 800, text), judge=0))
    known = assess(ranker, items(), counts=fresh, rule=Rule(by="clicks"))
    unknown = Counts(fresh.offsets, fresh.impressions, fresh.clicks, fresh.sessions)
    told = assess(ranker, items(), counts=unknown, rule=Rule(by="clicks"))
    assert any("had no part in the ranker." in each for each in known.decision.assumes)
    assert any("could not be checked" in each for each in told.decision.assumes)
