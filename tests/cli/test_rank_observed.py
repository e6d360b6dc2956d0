"""`rank --guard` where production is known from the log only: its arm is the list that it made."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from saferank.cli.app import app
from saferank.clicks import simulate, trust_bias
from saferank.counts.counts_file import save_counts
from saferank.data import read_items, synthetic, write_items
from saferank.errors import InputError
from saferank.learning import Settings, learn


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The log was drawn by other scores than the items have."""
    place = tmp_path_factory.mktemp("observed")
    train = synthetic("small", queries=30, seed=0).train
    rng = np.random.default_rng(0)
    said, really = 2.0 * rng.normal(size=(2, train.documents))
    write_items(replace(train, production=said), place / "items.parquet")
    items = read_items(place / "items.parquet")
    counts = simulate(items, really, trust_bias(), sessions=20_000, seed=1)
    save_counts(counts, items, place / "counts.parquet")
    ranker = learn(
        items, counts, trust_bias(), method="dr", scorer="linear",
        settings=Settings(steps=40, min_validation_interval=10),
    )  # fmt: skip
    ranker.save(place / "run")
    options = ("--items", place / "items.parquet", "--counts", place / "counts.parquet")
    found = json.loads(call("certify", place / "run", *options, "--guard", "--json").stdout)
    assert found["fit"]["kind"] == "observed"
    return place, items, really


def test_the_production_arm_is_the_list_that_production_made(run):
    place, items, really = run
    options = ("--items", place / "items.parquet", "--guard")
    with pytest.raises(InputError, match="--production LISTS"):
        call("rank", place / "run", *options)
    query_ids, doc_ids = items.ids()
    rows, lists = [], {}
    for query, name in enumerate(query_ids.tolist()):
        first, last = items.offsets[query : query + 2]
        best = first + np.argsort(-really[first:last], kind="stable")[:5]
        lists[name] = [doc_ids[d] for d in best]
        rows += [
            {"query_id": name, "doc_id": doc_ids[d], "rank": place_ + 1}
            for place_, d in enumerate(best)
        ]
    pq.write_table(pa.Table.from_pylist(rows), place / "lists.parquet")
    wanted = pa.table({
        "query_id": np.repeat(query_ids, 200), "session_id": np.tile(np.arange(200), 30),
    })  # fmt: skip
    pq.write_table(wanted, place / "sessions.parquet")
    done = call(
        "rank", place / "run", *options, "--production", place / "lists.parquet", "--sessions",
        place / "sessions.parquet", "-o", place / "served.parquet",
    )  # fmt: skip
    assert done.exit_code == 0
    table = pq.read_table(place / "served.parquet").to_pandas().sort_values("rank")
    served = table[table["rank"] <= 5].groupby(["query_id", "session_id"]).doc_id.agg(list)
    same = np.array([shown == lists[query] for (query, _), shown in served.items()])
    # 1 - keep + slack of the sessions get the new ranker
    assert 0.88 - 0.02 < same.mean() < 0.9 + 0.02


def test_lists_are_checked(run):
    place, items, _ = run
    options = ("--items", place / "items.parquet", "--guard", "--production", place / "bad.parquet")
    query, document = (values[0] for values in items.ids())
    one = {"query_id": query, "doc_id": document, "rank": 1}
    for rows, message in (
        ([one], "every query"), ([one, one], "once"), ([{"query_id": query}], "rank"),
    ):  # fmt: skip
        pq.write_table(pa.Table.from_pylist(rows), place / "bad.parquet")
        with pytest.raises(InputError, match=message):
            call("rank", place / "run", *options)


def test_sessions_and_lists_may_have_names_of_their_own(run, tmp_path):
    place, items, _ = run
    query_ids, doc_ids = items.ids()
    first = [doc_ids[items.offsets[query]] for query in range(items.queries)]
    table = pa.table({"query_id": query_ids, "doc_id": first, "rank": [1] * items.queries})
    pq.write_table(table, tmp_path / "lists.parquet")
    visits = pa.table({"query_id": query_ids[:3], "visit": ["a", "b", "c"]})
    pq.write_table(visits, tmp_path / "visits.parquet")
    options = (
        "--items", place / "items.parquet", "--guard", "--production", tmp_path / "lists.parquet",
        "--sessions", tmp_path / "visits.parquet",
    )  # fmt: skip
    with pytest.raises(InputError, match="--session-column NAME=YOURS"):
        call("rank", place / "run", *options)
    rows = json.loads(
        call("rank", place / "run", *options, "--session-column", "session_id=visit").stdout
    )
    assert {(row["query_id"], row["session_id"]) for row in rows} == set(
        zip(query_ids[:3].tolist(), "abc", strict=True)
    )
    assert all({"arm", "share"} <= set(row) and "propensity" not in row for row in rows)
    yours = table.rename_columns(["term", "SKU", "rank"])
    pq.write_table(yours, tmp_path / "lists.parquet")
    named = pq.read_table(place / "items.parquet")
    own = {"query_id": "term", "doc_id": "SKU"}
    named = named.rename_columns([own.get(name, name) for name in named.column_names])
    pq.write_table(named, tmp_path / "items.parquet")
    columns = ("--column", "query_id=term", "--column", "doc_id=SKU")
    again = call(
        "rank", place / "run", "--items", tmp_path / "items.parquet", *options[2:],
        "--session-column", "session_id=visit", *columns,
    )  # fmt: skip
    assert json.loads(again.stdout) == rows


def test_the_next_step_names_all_that_serving_needs(run, tmp_path):
    place, *_ = run
    shutil.copytree(place / "run", tmp_path / "run")
    options = ("--items", place / "items.parquet", "--counts", place / "counts.parquet")
    asked = ("certify", tmp_path / "run", *options, "--guard", "--by", "promise", "--json")
    told = json.loads(call(*asked).stdout)["decision"]["next_step"]
    for words in ("saferank serve RUN --log FOLDER", "production_rank", "--items ITEMS --guard"):
        assert words in told
    assert len(told) <= 300
