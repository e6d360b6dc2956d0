"""`saferank explore`, and `rank` of its plan: from a shop that sorts to a log that tells."""

from __future__ import annotations

import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from saferank.cli.app import main
from saferank.clicks import ClickModel
from saferank.clicks.bias import canonical

QUERIES, SIZE, K, SESSIONS = 20, 6, 3, 6000
USERS = ClickModel(np.array([0.8, 0.5, 0.3]), np.zeros(3))


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs the command line; gives exit code, standard output and standard error."""

    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["saferank", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return command


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """Items with production's score under the shop's own names, in the working folder."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    query = np.repeat(np.arange(QUERIES), SIZE)
    score = rng.normal(size=query.size)
    columns = {"term": query, "sku": np.arange(query.size), "price": rng.normal(size=query.size)}
    pq.write_table(pa.table({**columns, "production_score": score}), "items.parquet")
    pq.write_table(pa.table(columns), "bare.parquet")
    order = np.lexsort((-score, query)).reshape(QUERIES, SIZE)[:, : K + 1]
    lists = {
        "query_id": np.repeat(np.arange(QUERIES), K + 1),
        "doc_id": order.ravel(),
        "rank": np.tile(np.arange(1, K + 2), QUERIES),
    }
    pq.write_table(pa.table(lists), "lists.parquet")
    who = {"term": rng.integers(QUERIES, size=SESSIONS), "session_id": np.arange(SESSIONS)}
    pq.write_table(pa.table(who), "sessions.parquet")
    return tmp_path


NAMES = ["--column", "query_id=term", "--column", "doc_id=sku"]
ITEMS = ["--items", "items.parquet", *NAMES]


def test_from_a_plan_to_a_log_that_tells(shop, run):
    code, out, _ = run("explore", *ITEMS, "-k", K, "--sessions", SESSIONS, "--kind", "position",
                       "-o", "plan", "--chart", "plan.svg")  # fmt: skip
    assert code == 0
    assert "*moves" in out
    assert "serve it: saferank rank plan" in out
    assert (shop / "plan.svg").read_text().startswith("<svg")
    code, _, told = run("rank", "plan", *ITEMS, "--sessions", "sessions.parquet",
                        "-o", "shown.parquet")  # fmt: skip
    assert code == 0
    assert "What is served: moves." in told
    shown = pq.read_table("shown.parquet")
    assert shown.num_rows == SESSIONS * K
    relevance = np.random.default_rng(1).beta(1, 2, QUERIES * SIZE)
    document, rank = shown["doc_id"].to_numpy(), shown["rank"].to_numpy() - 1
    chance = USERS.probability(relevance[document])[np.arange(rank.size), rank]
    click = np.random.default_rng(2).random(rank.size) < chance
    pq.write_table(shown.append_column("click", pa.array(click)), "log.parquet")
    assert run("count", "log.parquet", "--column", "propensity=propensity", "-o", "counts.parquet",
               "--judge", 0)[0] == 0  # fmt: skip
    truth = canonical(USERS).slope
    for route in ([], ["--policy", "recorded"]):
        code, out, _ = run("bias", "counts.parquet", "--kind", "position", "--json", *route)
        assert code == 0
        fit = json.loads(out)["canonical"]
        error = np.array(fit["slope_error"][1:])
        assert np.all(np.abs(np.array(fit["slope"][1:]) - truth[1:]) < 4 * error)
    code, out, _ = run("explore", *ITEMS, "-k", K, "--sessions", 1000, "--counts", "counts.parquet",
                       "--production-policy", "sorted", "--json")  # fmt: skip
    assert {one["name"] for one in json.loads(out)["outlooks"]} >= {"optimistic", "uniform"}


def test_counts_of_more_than_the_lists_are_taken(shop, run):
    """Lists of today, and a log that has shown other documents, too."""
    rng = np.random.default_rng(1)
    lists = pq.read_table("lists.parquet").to_pandas()
    seen = lists[lists["rank"] <= K].sample(3000, replace=True, random_state=0)
    moved = seen["doc_id"].to_numpy() // SIZE * SIZE + rng.integers(SIZE, size=3000)
    doc = np.where(rng.random(3000) < 0.1, moved, seen["doc_id"])
    log = {"query_id": seen["query_id"], "doc_id": doc, "rank": seen["rank"],
           "click": rng.integers(2, size=3000)}  # fmt: skip
    pq.write_table(pa.table(log), "log.parquet")
    assert run("count", "log.parquet", "-o", "counts.parquet")[0] == 0
    code, out, _ = run(
        "explore", "--items", "bare.parquet", *NAMES, "--production", "lists.parquet", "--counts",
        "counts.parquet", "-k", K, "--sessions", 1000, "--production-policy", "sorted",
    )  # fmt: skip
    assert code == 0
    said = " ".join(out.split())
    assert "are on none of production's lists and are left out" in said
    assert "no item" not in said


def test_lists_are_enough(shop, run):
    bare = ["--items", "bare.parquet", *NAMES]
    code, out, _ = run("explore", *bare, "--production", "lists.parquet", "-k", K, "--sessions",
                       1000, "--depth", K + 1, "-o", "plan", "--json")  # fmt: skip
    assert code == 0
    plan = json.loads(out)
    assert plan["production_from"] == "lists"
    chosen = next(one for one in plan["outlooks"] if one["name"] == plan["chosen"])
    assert chosen["never_shown"] == 0
    code, _, told = run("rank", "plan", *bare, "-o", "shown.parquet")
    assert code == 2
    assert "`--production` must be production's lists" in told
    code, _, told = run("rank", "plan", *bare, "--production", "lists.parquet", "--session", "a",
                        "-o", "shown.parquet")  # fmt: skip
    assert code == 0
    shown, listed = pq.read_table("shown.parquet"), pq.read_table("lists.parquet")
    assert shown.num_rows == QUERIES * K
    assert set(shown["doc_id"].to_pylist()) <= set(listed["doc_id"].to_pylist())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--keep", "2"], "`keep` must be in [0, 1]"),
        (["--choose", "magic"], "`choose` must be one of"),
        (["--kind", "cascade"], "`kind` must be one of"),
        (["--production-policy", "observed"], "auto, sorted or sampled"),
        (["--click-rate", "1.5"], "click rate at rank 1"),
        (["--examination", "nowhere.json"], "examination"),
    ],
)
def test_bad_options_are_told_in_a_sentence(shop, run, words, said):
    code, _, told = run("explore", *ITEMS, "-k", K, "--sessions", 1000, *words)
    assert code == 2
    assert said in told


def test_without_score_or_lists_it_is_refused(shop, run):
    code, _, told = run("explore", "--items", "bare.parquet", *NAMES, "--sessions", 10)
    assert code == 2
    assert "its lists will do" in told


def test_a_plan_takes_no_options_of_a_guard(shop, run):
    run("explore", *ITEMS, "-k", K, "--sessions", 10, "-o", "plan")
    code, _, told = run("rank", "plan", *ITEMS, "--guard")
    assert code == 2
    assert "`--guard` must be left out" in told
