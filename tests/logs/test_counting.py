"""Counts of logs against plain counts by loops and pandas."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import saferank as sr
from saferank.counts import CountTable
from saferank.errors import InputError

Row = dict[str, Any]


def write(path: Path, rows: list[Row], schema: pa.Schema | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    return path


def row(query: object, doc: object, rank: object, click: object, **more: object) -> Row:
    return {"query_id": query, "doc_id": doc, "rank": rank, "click": click, **more}


def plain(rows: list[Row]) -> dict[tuple[object, ...], tuple[int, int]]:
    """Impressions and clicks by a loop."""
    shown: Counter[tuple[object, ...]] = Counter()
    clicked: Counter[tuple[object, ...]] = Counter()
    for one in rows:
        key = (one["query_id"], one["doc_id"], one["rank"])
        shown[key] += 1
        clicked[key] += int(one["click"])
    return {key: (shown[key], clicked[key]) for key in shown}


def found(table: CountTable) -> dict[tuple[object, ...], tuple[int, int]]:
    """Impressions and clicks of both parts together."""
    rows = table.to_arrow().to_pylist()
    keys = [(r["query_id"], r["doc_id"], r["rank"], r["part"]) for r in rows]
    assert keys == sorted(keys), "counts are sorted by query, document, rank and part"
    assert len(set(keys)) == len(keys)
    counts: dict[tuple[object, ...], tuple[int, int]] = {}
    for key, one in zip(keys, rows, strict=True):
        shown, clicked = counts.get(key[:3], (0, 0))
        counts[key[:3]] = shown + one["impressions"], clicked + one["clicks"]
    return counts


LOG = [
    row("a", 1, 1, 1),
    row("a", 2, 2, 0),
    row("a", 1, 1, 0),
    row("a", 1, 2, 0),
    row("b", 1, 1, 1),
]


def test_a_small_log(tmp_path: Path) -> None:
    table = sr.logs.count(write(tmp_path / "log.parquet", LOG))
    assert found(table) == {
        ("a", 1, 1): (2, 1),
        ("a", 1, 2): (1, 0),
        ("a", 2, 2): (1, 0),
        ("b", 1, 1): (1, 1),
    }
    assert table.report is not None
    assert table.report.to_dict() == {
        "rows": 5, "impressions": 5, "clicks": 2, "groups": 4, "queries": 2, "ranks": 2,
        "sessions": None, "duplicates": 0, "beyond": 0, "bad": (),
        "excluded": 0, "repeats": None, "from_zero": False, "recorded": False,
            "split": {"by": "query", "judge": 0.2, "seed": 0},
            "feedback": {"text": "click"}, "value": None, "capped": 0, "kept_information": 1.0,
        "learn_sessions": None, "judge_sessions": None, "judge_impressions": 4, "judge_queries": 1,
    }  # fmt: skip


rows_of = st.lists(
    st.builds(
        row, st.integers(-3, 3), st.sampled_from(["x", "y", "Ü", ""]), st.integers(1, 4),
        st.booleans(),
    ),
    min_size=1,
)  # fmt: skip


@settings(max_examples=25)
@given(rows_of)
def test_equals_a_loop(tmp_path_factory: pytest.TempPathFactory, rows: list[Row]) -> None:
    log = write(tmp_path_factory.mktemp("log") / "log.parquet", rows)
    assert found(sr.logs.count(log)) == plain(rows)


@settings(max_examples=40)
@given(st.lists(st.builds(row, st.integers(0, 2), st.integers(0, 4), st.integers(1, 3),
                          st.booleans(), session_id=st.integers(0, 5)), min_size=1))  # fmt: skip
def test_sessions_equal_a_loop(tmp_path_factory: pytest.TempPathFactory, rows: list[Row]) -> None:
    """Repeated rows count once; two documents at a rank of a session are left out and told."""
    log = write(tmp_path_factory.mktemp("log") / "log.parquet", rows)
    lists: dict[tuple[object, ...], dict[object, list[Row]]] = {}
    for one in rows:
        at = lists.setdefault((one["session_id"], one["query_id"], one["rank"]), {})
        at.setdefault(one["doc_id"], []).append(one)
    good = [max(docs[doc], key=lambda r: r["click"]) for docs in lists.values() for doc in docs
            if len(docs) == 1]  # fmt: skip
    clash = sum(len(r) for docs in lists.values() if len(docs) > 1 for r in docs.values())
    if not good:
        with pytest.raises(InputError, match="must have rows to count"):
            sr.logs.count(log, skip_bad=True)
        return
    if clash:
        with pytest.raises(InputError, match="one document at a rank"):
            sr.logs.count(log)
    table = sr.logs.count(log, skip_bad=True)
    assert found(table) == plain(good)
    assert table.report is not None
    assert table.report.bad_rows == clash
    assert table.report.duplicates == len(rows) - clash - len(good)
    seen = {(one["query_id"], one["session_id"]) for one in rows}
    assert table.report.sessions == len(seen)
    assert table.report.learn_sessions + table.report.judge_sessions == len(seen)
    per_query = Counter(query for query, _ in seen)
    said = {(r["query_id"], r["part"]): r["sessions"] for r in table.to_arrow().to_pylist()}
    for query in {query for query, _ in said}:
        both = said.get((query, "learn"), 0) + said.get((query, "judge"), 0)
        assert both == per_query[query]


def test_sessions_can_be_left_alone(tmp_path: Path) -> None:
    rows = [row(1, 1, 1, 1, session_id=7), row(1, 2, 1, 0, session_id=7)]
    table = sr.logs.count(write(tmp_path / "log.parquet", rows), use_sessions=False)
    assert found(table) == {(1, 1, 1): (1, 1), (1, 2, 1): (1, 0)}
    assert not table.has_sessions


@pytest.mark.parametrize("click", [[True, False], [1, 0], [1.0, 0.0]])
def test_clicks_may_be_booleans_or_numbers(tmp_path: Path, click: list[object]) -> None:
    log = write(tmp_path / "log.parquet", [row(1, 1, 1, value) for value in click])
    assert found(sr.logs.count(log)) == {(1, 1, 1): (2, 1)}


def test_whole_ranks_may_be_floats(tmp_path: Path) -> None:
    """pandas makes them so as soon as one was missing."""
    log = write(tmp_path / "log.parquet", [row(1, 1, 2.0, 1), row(1, 1, 2.5, 1), row(1, 1, None, 0),
                row(1, 1, float("inf"), 0), row(1, 1, float("nan"), 0)])  # fmt: skip
    table = sr.logs.count(log, skip_bad=True)
    assert found(table) == {(1, 1, 2): (1, 1)}
    assert table.report is not None
    assert table.report.bad_rows == 4


def test_a_summed_log_adds_up(tmp_path: Path) -> None:
    rows = [{"query_id": 1, "doc_id": 1, "rank": 1, "impressions": n, "clicks": c}
            for n, c in [(5, 2), (3, 3), (0, 0), (2**40, 2**39)]]  # fmt: skip
    table = sr.logs.count(write(tmp_path / "log.parquet", rows))
    assert found(table) == {(1, 1, 1): (8 + 2**40, 5 + 2**39)}


def test_counting_counts_changes_nothing(tmp_path: Path) -> None:
    first = sr.logs.count(write(tmp_path / "log.parquet", LOG), output=tmp_path / "a.parquet")
    again = sr.logs.count(tmp_path / "a.parquet", output=tmp_path / "b.parquet")
    assert found(first) == found(again)
    tables = [pq.read_table(tmp_path / name) for name in ("a.parquet", "b.parquet")]
    assert tables[0].to_pylist() == tables[1].to_pylist()
    assert tables[0].schema.metadata == tables[1].schema.metadata
    sr.logs.count(tmp_path / "b.parquet", output=tmp_path / "c.parquet")
    assert (tmp_path / "b.parquet").read_bytes() == (tmp_path / "c.parquet").read_bytes()


def test_other_names(tmp_path: Path) -> None:
    rows = [{"q": 1, "item": "x", "position": 3, "was_clicked": True}]
    names = {"query_id": "q", "doc_id": "item", "rank": "position", "click": "was_clicked"}
    log = write(tmp_path / "log.parquet", rows)
    assert found(sr.logs.count(log, columns=names)) == {(1, "x", 3): (1, 1)}
    with pytest.raises(InputError, match=r"it has q, item, .* --column query_id=NAME"):
        sr.logs.count(log)


def test_conditions(tmp_path: Path) -> None:
    rows = [row(1, 1, 1, 1, device="mobile", day="2026-01-01"),
            row(1, 2, 1, 0, device="mobile", day="2026-01-02"),
            row(1, 3, 1, 0, device="desk=top", day="2026-01-03")]  # fmt: skip
    log = write(tmp_path / "log.parquet", rows)

    def kept(*where: str) -> list[object]:
        return [doc for _, doc, _ in found(sr.logs.count(log, where=where))]

    assert kept("device=mobile") == [1, 2]
    assert kept("device='desk=top'") == [3]
    assert kept("day >= 2026-01-02") == [2, 3]
    assert kept("day>=2026-01-02", "device != mobile") == [3]
    with pytest.raises(InputError, match="none meets device=tv"):
        kept("device=tv")


def test_the_cut_tells_the_rest(tmp_path: Path) -> None:
    rows = [row(1, doc, rank, 1) for doc, rank in [(1, 1), (2, 2), (3, 3), (4, 7), (4, 7)]]
    log = write(tmp_path / "log.parquet", rows)
    table = sr.logs.count(log, top=2)
    assert found(table) == {(1, 1, 1): (1, 1), (1, 2, 2): (1, 1)}
    assert table.report is not None
    assert (table.report.beyond, table.report.rows, table.report.bad_rows) == (3, 5, 0)


RANK = "`rank` must be a whole number of at least 1, at most 2147483647"
BAD = [
    ("query_id", row(None, 1, 1, 0), "`query_id` must not be missing"),
    ("doc_id", row(1, None, 1, 0), "`doc_id` must not be missing"),
    ("rank", row(1, 1, None, 0), RANK),
    ("rank", row(1, 1, -3, 0), RANK),
    (
        "rank",
        row(1, 1, 2**40, 0),
        "`rank` must be a whole number of at least 1, at most 2147483647",
    ),
    (
        "rank",
        row(1, 1, 2**63 - 1, 0),
        "`rank` must be a whole number of at least 1, at most 2147483647",
    ),
    ("click", row(1, 1, 1, None), "`click` must not be missing"),
    ("click", row(1, 1, 1, 2), "`click` must be 0 or 1"),
]


@pytest.mark.parametrize(("name", "bad", "rule"), BAD)
def test_a_bad_row_is_refused_or_left_out(tmp_path: Path, name: str, bad: Row, rule: str) -> None:
    log = write(tmp_path / "log.parquet", [row(1, 1, 1, 1), bad, row(1, 1, 1, 0), bad])
    with pytest.raises(InputError) as refused:
        sr.logs.count(log, output=tmp_path / "counts.parquet")
    assert "2 of 4 rows" in str(refused.value)
    assert f"{rule} (2 rows, for example" in str(refused.value)
    assert f"{name} {bad[name]!r}" in str(refused.value)
    assert not (tmp_path / "counts.parquet").exists()
    table = sr.logs.count(log, skip_bad=True)
    assert found(table) == {(1, 1, 1): (2, 1)}
    assert table.report is not None
    assert [(broken.rule, broken.rows) for broken in table.report.bad] == [(rule, 2)]


@pytest.mark.parametrize(
    ("impressions", "clicks", "rule"),
    [(0, 1, "`clicks` must be at most `impressions`"),
     (3, 4, "`clicks` must be at most `impressions`"),
     (-1, -2, "`impressions` must be a whole number of at least 0"),
     (3, -1, "`clicks` must be a whole number of at least 0"),
     (None, 1, "`impressions` must be a whole number of at least 0")],
)  # fmt: skip
def test_a_bad_sum_is_refused(tmp_path: Path, impressions: int, clicks: int, rule: str) -> None:
    base = {"query_id": 1, "doc_id": 1, "rank": 1}
    rows = [{**base, "impressions": 2, "clicks": 1},
            {**base, "impressions": impressions, "clicks": clicks}]  # fmt: skip
    with pytest.raises(InputError, match=rule):
        sr.logs.count(write(tmp_path / "log.parquet", rows))


def test_a_row_that_breaks_several_rules_is_counted_once(tmp_path: Path) -> None:
    log = write(tmp_path / "log.parquet", [row(1, 1, 1, 1), row(None, None, -1, 5)])
    table = sr.logs.count(log, skip_bad=True)
    assert table.report is not None
    assert table.report.bad_rows == 1


def test_a_document_at_two_ranks_of_a_session_is_told(tmp_path: Path) -> None:
    """It is counted at both; repeated rows, other queries and other sessions are no such thing."""
    fine = [row("q", "d", 1, 0, session_id="s2"), row("q", "d", 1, 1, session_id="s2"),
            row("r", "d", 3, 0, session_id="s2"), row("q", "d", 2, 0, session_id="s3")]  # fmt: skip
    table = sr.logs.count(write(tmp_path / "fine.parquet", fine))
    assert table.report is not None
    assert table.report.repeats is None
    twice = [row("q", "d", 3, 0, session_id="s1"), row("q", "d", 1, 1, session_id="s1")]
    table = sr.logs.count(write(tmp_path / "log.parquet", [*fine, *twice]))
    assert found(table)["q", "d", 3] == (1, 0)
    assert table.report is not None
    (said,) = [one for one in table.report.sentences() if "several ranks" in one]
    assert said == (
        "1 of 3 sessions looked at show a document at several ranks (for example session_id 's1' "
        "shows 'd' at ranks 1 and 3 of query_id 'q'): counted at each of them."
    )
    health = sr.logs.check_log(tmp_path / "log.parquet")
    (finding,) = [one for one in health.findings if one.name == "repeated documents"]
    assert (finding.value, finding.severity) == (1, "warning")


@pytest.mark.parametrize("text", [False, True])
def test_of_many_sessions_some_are_looked_at_for_repeats(
    monkeypatch: pytest.MonkeyPatch, text: bool
) -> None:
    monkeypatch.setattr("saferank.logs.repeats.MOST", 64)
    rows = [
        row(number % 7, 0, rank, 0, session_id=f"s{number}" if text else number)
        for number in range(1000)
        for rank in (1, 2)
    ]
    report = sr.logs.count(pa.Table.from_pylist(rows)).report
    assert report is not None
    assert report.repeats is not None
    assert report.repeats.sessions == report.repeats.looked_at
    assert 20 <= report.repeats.looked_at <= 64 + 40


def test_two_documents_at_a_rank_are_named(tmp_path: Path) -> None:
    rows = [row("q", "d", 1, 0, session_id="s1"), row("q", "e", 1, 0, session_id="s1"),
            row("q", "d", 1, 0, session_id="s2")]  # fmt: skip
    with pytest.raises(InputError, match="session_id 's1' shows 'd' and 'e' at rank 1"):
        sr.logs.count(write(tmp_path / "log.parquet", rows))


def test_unfit_types(tmp_path: Path) -> None:
    log = write(tmp_path / "log.parquet", [row(1.5, 1, 1, 1)])
    with pytest.raises(InputError, match="`query_id` must be strings or whole numbers; got 'float"):
        sr.logs.count(log)
    log = write(tmp_path / "log.parquet", [row(1, 1, "1", 1)])
    with pytest.raises(InputError, match="`rank` must be whole numbers; got 'string'"):
        sr.logs.count(log)
    log = write(tmp_path / "log.parquet", [row(1, 1, 1, "yes")])
    with pytest.raises(InputError, match="`click` must be 0/1 or boolean"):
        sr.logs.count(log)


def test_an_empty_log(tmp_path: Path) -> None:
    schema = pa.schema([("query_id", pa.int64()), ("doc_id", pa.int64()), ("rank", pa.int8()),
                        ("click", pa.bool_())])  # fmt: skip
    with pytest.raises(InputError, match="must have rows to count; it has none"):
        sr.logs.count(write(tmp_path / "log.parquet", [], schema))


def test_formats_give_the_same_counts(tmp_path: Path) -> None:
    frame = pd.DataFrame(LOG)
    frame.to_csv(tmp_path / "log.csv", index=False)
    frame.to_csv(tmp_path / "log.csv.gz", index=False)
    frame.to_csv(tmp_path / "log.tsv", index=False, sep="\t")
    lines = "".join(json.dumps(one) + "\n" for one in LOG)
    (tmp_path / "log.jsonl").write_text(lines)
    with gzip.open(tmp_path / "log.ndjson.gz", "wt") as file:
        file.write(lines)
    expected = found(sr.logs.count(write(tmp_path / "log.parquet", LOG)))
    for name in ("log.csv", "log.csv.gz", "log.tsv", "log.jsonl", "log.ndjson.gz"):
        assert found(sr.logs.count(tmp_path / name)) == expected, name


def test_folders_globs_lists_and_hive_partitions(tmp_path: Path) -> None:
    write(tmp_path / "log/day=2026-01-01/a.parquet", LOG[:2])
    write(tmp_path / "log/day=2026-01-02/b.parquet", LOG[2:])
    (tmp_path / "log/_SUCCESS").touch()
    write(tmp_path / "log/.hidden/c.parquet", LOG)
    everything = plain(LOG)
    assert found(sr.logs.count(tmp_path / "log")) == everything
    assert found(sr.logs.count(str(tmp_path / "log/*/*.parquet"))) == everything
    files = sorted((tmp_path / "log").glob("day*/*"))
    assert found(sr.logs.count(files)) == everything
    one_day = sr.logs.count(tmp_path / "log", where=["day=2026-01-02"])
    assert found(one_day) == plain(LOG[2:])


def test_narrow_integers_and_dictionaries(tmp_path: Path) -> None:
    """Ids come back as 64-bit integers or strings, whatever the log stores."""
    table = pa.table({
        "query_id": pa.array(["a", "b", "a"]).dictionary_encode(),
        "doc_id": pa.array([200, 7, 200], pa.uint8()),
        "rank": pa.array([1, 2, 1], pa.int8()),
        "click": pa.array([True, False, True]),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "log.parquet")
    counts = sr.logs.count(tmp_path / "log.parquet").to_arrow()
    assert [str(kind) for kind in counts.schema.types] == [
        "string", "int64", "int32", "string", "int64", "int64"]  # fmt: skip
    assert counts["doc_id"].to_pylist() == [200, 7]


def real(shared_data: Path, name: str) -> tuple[str, dict[str, str]]:
    mapping = {"query_id": "campaign", "doc_id": "item_id", "rank": "position"}
    return str(shared_data / name), mapping if name.startswith("obd") else {}


@pytest.mark.parametrize(
    "name",
    ["yandex-wscd/log.parquet", "tiangong-st/log.parquet", "obd-small/*.parquet"],
)
def test_real_logs_equal_a_pandas_count(shared_data: Path, tmp_path: Path, name: str) -> None:
    log, mapping = real(shared_data, name)
    table = sr.logs.count(log, columns=mapping, output=tmp_path / "counts.parquet")
    frame = pd.concat([pd.read_parquet(path) for path in sorted(shared_data.glob(name))])
    frame = frame.rename(columns={yours: ours for ours, yours in mapping.items()})
    keys = ["query_id", "doc_id", "rank"]
    expected = frame.groupby(keys).click.agg(["size", "sum"]).reset_index()
    parts = table.to_arrow().to_pandas()
    counts = parts.groupby(keys)[["impressions", "clicks"]].sum().reset_index()
    counts = counts.sort_values(keys, ignore_index=True)
    expected = expected.sort_values(keys, ignore_index=True)
    for ours, theirs in zip(["impressions", "clicks", *keys], ["size", "sum", *keys], strict=True):
        assert counts[ours].tolist() == expected[theirs].tolist()
    if "session_id" in frame:
        sessions = frame.groupby("query_id").session_id.nunique()
        of_parts = parts.groupby(["query_id", "part"]).sessions.first()
        assert of_parts.groupby("query_id").sum().to_dict() == sessions.to_dict()
