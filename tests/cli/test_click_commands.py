"""`saferank simulate` and `saferank bias` from the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from saferank.cli.app import main
from saferank.clicks import ClickModel, trust_bias
from saferank.clicks.bias import canonical
from saferank.counts import CountTable
from saferank.data import read_items
from saferank.logs import align


@pytest.fixture
def saferank(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> object:
    """Runs the command line; gives exit code, standard output and standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["saferank", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run


def test_from_simulated_clicks_to_a_click_model(saferank, tmp_path: Path) -> None:
    counts, items = tmp_path / "counts.parquet", tmp_path / "items.parquet"
    code, out, _ = saferank("simulate", "-o", counts, "--sessions", "2e6", "--items", items)
    assert code == 0
    assert "2,000,000 sessions of 400 queries" in out
    assert align(CountTable.open(counts), read_items(items))[0].total == 2_000_000
    bias, chart = tmp_path / "bias.json", tmp_path / "bias.svg"
    code, out, _ = saferank("bias", counts, "-o", bias, "--chart", chart, "--folds", 5)
    assert code == 0
    assert "All ranks are connected" in out
    assert "No deviation from the click model was found" in out
    assert "====" in out
    assert chart.read_text().startswith("<svg")
    found = canonical(ClickModel.load(bias)).slope
    np.testing.assert_allclose(found, canonical(trust_bias()).slope, rtol=0.05)


def test_bias_as_json_by_position_and_features(saferank, tmp_path: Path) -> None:
    counts, items = tmp_path / "counts.parquet", tmp_path / "items.parquet"
    options = ("--users", "position", "-k", 3, "--sessions", "200_000", "--items", items)
    code, out, _ = saferank("simulate", "-o", counts, *options, "--json")
    assert code == 0
    assert len(json.loads(out)["clicks"]) == 3
    code, out, _ = saferank(
        "bias", counts, "--kind", "position", "--items", items, "--folds", 0, "--json",
        "--method", "em",
    )  # fmt: skip
    record = json.loads(out)
    assert record["route"]["name"] == "features"
    assert record["method"] == "em"
    assert record["alpha"][0] == 1.0
    assert record["alpha_error"] == [None] * 3
    assert record["identifiability"]["identified"] is True


def test_rows_by_users_of_a_file(saferank, tmp_path: Path) -> None:
    ClickModel(np.array([0.0]), np.array([1.0])).save(tmp_path / "users.json")
    log = tmp_path / "log.parquet"
    code, out, _ = saferank(
        "simulate", "-o", log, "--rows", "--sessions", 1000, "-k", 2, "--users",
        tmp_path / "users.json", "--part", "test",
    )  # fmt: skip
    assert code == 0
    assert "1,000 sessions" in out
    table = pq.read_table(log).to_pandas()
    assert (table.click == (table["rank"] == 1)).all()


def test_a_fixed_ranking_is_refused_with_what_can_be_done(saferank, tmp_path: Path) -> None:
    counts = tmp_path / "counts.parquet"
    saferank("simulate", "-o", counts, "--sessions", 1000, "--deterministic")
    code, _, err = saferank("bias", counts)
    assert code == 2
    assert "Every document was always shown at one rank" in err
    assert "What can still be done" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--sessions", "ten"), "sessions"),
        (("--sessions", "1e400"), "sessions"),
        (("--sessions", "0.5"), "sessions"),
        (("--users", "nobody"), "users"),
        (("--part", "all"), "part"),
        (("--data", "synthetic:huge"), "preset"),
        (("--data", "nowhere.parquet"), "path"),
        (("--temperature", 0), "temperature"),
    ],
)
def test_bad_options_of_simulate(saferank, tmp_path: Path, arguments, words: str) -> None:
    code, _, err = saferank("simulate", "-o", tmp_path / "c.parquet", *arguments)
    assert code == 2
    assert words in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("--kind", "other"), "kind"), (("--method", "x"), "method"), (("--chart", "a.gif"), "chart")],
)
def test_bad_options_of_bias(saferank, tmp_path: Path, arguments, words: str) -> None:
    counts = tmp_path / "counts.parquet"
    saferank("simulate", "-o", counts, "--sessions", 10_000)
    code, _, err = saferank("bias", counts, "--folds", 0, *arguments)
    assert code == 2
    assert words in err


def test_bias_prints_what_the_log_tells_and_keeps_alpha_and_beta(saferank, tmp_path: Path) -> None:
    counts, bias = tmp_path / "counts.parquet", tmp_path / "bias.json"
    saferank("simulate", "-o", counts, "--sessions", "2e6")
    code, out, _ = saferank("bias", counts, "-o", bias)
    assert code == 0
    # The scale sets beta of the last rank to 0; the truth is 0.08, so it has no interval.
    assert "[0.0000, 0.0000]" not in out
    assert "1 (reference)" in out
    assert "R = 0 is a document of click rate 0 at rank 5" in " ".join(out.split())
    record = json.loads(bias.read_text())
    assert record["beta"][4] == 0
    form, true = record["canonical"], canonical(trust_bias())
    for name in ("slope", "intercept"):
        for rank, (low, high) in enumerate(form[f"{name}_interval"]):
            assert low <= form[name][rank] <= high
    assert form["slope_interval"][4][0] < true.slope[4] < form["slope_interval"][4][1]
    low, high = form["level_interval"][4]
    assert low < true.level(form["level_at"])[4] < high
    assert ClickModel.load(bias).alpha.tolist() == record["alpha"]


def test_bias_leaves_out_the_sessions_to_judge_by(
    saferank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from saferank import logs
    from saferank.counts import Counts
    from saferank.logs import read_counts

    path = tmp_path / "counts.parquet"
    saferank("simulate", "-o", path, "--sessions", "200_000", "--users", "position")
    learn = read_counts(path).part("all")
    # Sessions to judge by of quite different users: a fit that used them would be off.
    judge = Counts(learn.offsets, learn.impressions, np.minimum(learn.impressions, 1))
    monkeypatch.setattr(logs, "read_counts", lambda _: Counts.of_parts(learn, judge))
    code, out, _ = saferank("bias", path, "--kind", "position", "--json")
    assert code == 0
    record = json.loads(out)
    assert record["sessions"] == {"used": learn.total, "left_out_to_judge_by": judge.total}
    expected = 1 / np.arange(1, 6)
    np.testing.assert_allclose(record["canonical"]["slope"], expected, rtol=0.1)
    _, out, _ = saferank("bias", path, "--kind", "position")
    assert f"{learn.total:,} sessions of 400 queries were used" in out
    assert f"{judge.total:,} to judge by were left out" in out


def test_a_fixed_ranking_with_items_does_not_say_that_nothing_can_be_told(
    saferank, tmp_path: Path
) -> None:
    counts, items = tmp_path / "counts.parquet", tmp_path / "items.parquet"
    saferank(
        "simulate", "-o", counts, "--sessions", 50_000, "--deterministic", "--items", items,
        "--users", "position",
    )  # fmt: skip
    code, out, _ = saferank("bias", counts, "--kind", "position", "--items", items, "--folds", 5)
    assert code == 0
    said = " ".join(out.split())
    assert "as far as the features say what production knew of relevance" in said
    assert "What can still be done" not in said


def test_bias_with_items_can_leave_out_documents_without_one(saferank, tmp_path: Path) -> None:
    counts, items = tmp_path / "counts.parquet", tmp_path / "items.parquet"
    options = ("--users", "position", "-k", 3, "--sessions", 20_000, "--items", items)
    saferank("simulate", "-o", counts, *options)
    fewer = pq.read_table(items)
    pq.write_table(fewer.slice(0, fewer.num_rows - 5), items)
    arguments = ("bias", counts, "--kind", "position", "--items", items, "--folds", 0)
    code, _, err = saferank(*arguments)
    assert code == 2
    assert "--skip-bad" in err
    code, out, _ = saferank(*arguments, "--skip-bad", "--json")
    assert code == 0
    assert any("left out" in line for line in json.loads(out)["matched"])


def once(folder: Path, queries: int = 3000) -> tuple[Path, Path]:
    """A log of uniformly random lists, each seen once, and its items."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(queries, 6))
    order = np.argsort(rng.random(x.shape), axis=1)
    truth = trust_bias(6)
    chance = truth.probability(1 / (1 + np.exp(1 - 1.5 * x)))[
        np.arange(queries)[:, None], order, np.arange(6)
    ]
    rank = np.argsort(order, axis=1)
    query = np.repeat(np.arange(queries), 6)
    document = np.tile(np.arange(6), queries)
    clicked = np.take_along_axis(rng.random(x.shape) < chance, rank, axis=1).ravel()
    log = {"query_id": query, "doc_id": document, "rank": rank.ravel() + 1, "click": clicked}
    log["session_id"] = query
    items = {"query_id": query, "doc_id": document, "x": x.ravel()}
    paths = folder / "log.parquet", folder / "items.parquet"
    for table, path in zip((log, items), paths, strict=True):
        pq.write_table(pa.table(table), path)
    return paths


def test_bias_of_lists_seen_once_by_a_known_policy(saferank, tmp_path: Path) -> None:
    log, items = once(tmp_path)
    counts, output = tmp_path / "counts.parquet", tmp_path / "bias.json"
    assert saferank("count", log, "-o", counts)[0] == 0
    code, _, err = saferank("bias", counts)
    assert code == 2
    assert "--policy uniform" in err
    code, _, err = saferank("bias", counts, "--policy", "uniform")
    assert code == 2
    assert "cannot be told from click rates alone" in err
    code, _, err = saferank("bias", counts, "--policy", "recorded")
    assert code == 2
    assert "propensities" in err
    arguments = ("--policy", "uniform", "--items", items, "--scorer", "linear")
    code, out, _ = saferank("bias", counts, *arguments, "-o", output, "--json")
    assert code == 0
    record = json.loads(out)
    assert record["route"]["name"] == "policy"
    assert record["identifiability"]["identified"] is True
    assert "as you say" in record["sentences"][0]
    assert not ClickModel.load(output).doubt
    truth, found = canonical(trust_bias(6)), record["canonical"]
    away = (np.array(found["slope"]) - truth.slope)[1:] / np.array(found["slope_error"])[1:]
    assert np.abs(away).max() < 3.5
