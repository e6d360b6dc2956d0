"""`saferank count` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import saferank


@pytest.fixture
def log(tmp_path: Path) -> Path:
    table = pa.table({
        "query_id": ["a", "a", "b", "b"], "doc_id": [1, 1, 2, 3], "position": [1, 1, 2, 5],
        "click": [True, False, False, True], "device": ["mobile", "mobile", "desk", "mobile"],
    })  # fmt: skip
    pq.write_table(table, tmp_path / "log.parquet")
    return tmp_path / "log.parquet"


def test_count(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = log.parent / "counts.parquet"
    code, said, _ = saferank(
        monkeypatch, capsys, "count", log, "-o", out, "--column", "rank=position", "--top", 3,
        "--where", "device=mobile", "--memory", "1GB", "--spill", log.parent / "spill", "--json",
    )  # fmt: skip
    assert code == 0
    told = json.loads(said)
    assert (told["rows"], told["impressions"], told["clicks"], told["beyond"]) == (3, 2, 1, 1)
    assert pq.read_table(out).to_pylist() == [
        {
            "query_id": "a", "doc_id": 1, "rank": 1, "part": "judge", "impressions": 2,
            "clicks": 1,
        }
    ]  # fmt: skip
    assert sorted(path.name for path in log.parent.iterdir()) == [
        "counts.parquet", "log.parquet", "spill"]  # fmt: skip
    assert not list((log.parent / "spill").iterdir())


def test_sentences(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = log.parent / "counts.parquet"
    code, said, _ = saferank(
        monkeypatch, capsys, "count", log, "-o", out, "--column", "rank=position"
    )
    assert code == 0
    first, way, last = said.splitlines()
    assert first == "4 rows became 3 counts of 2 queries at ranks 1 to 5: 4 impressions, 2 clicks."
    assert way.startswith("There are no session ids, so that parts are whole queries")
    assert last == f"Written to {out}."


@pytest.mark.parametrize(
    ("options", "sentence"),
    [((), "lacks `rank`"),
     (("--column", "rank"), "`--column` must be NAME=YOURS"),
     (("--column", "place=position"), "`column` must be one of"),
     (("--column", "rank=position", "--where", "device"), "`where` must be like")],
)  # fmt: skip
def test_bad_options_end_with_one_sentence(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...], sentence: str,
) -> None:  # fmt: skip
    out = log.parent / "counts.parquet"
    code, _, said = saferank(monkeypatch, capsys, "count", log, "-o", out, *options)
    assert code == 2
    assert sentence in said
    assert len(said.splitlines()) == 1
    assert not out.exists()
