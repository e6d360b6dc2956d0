"""Whether what is served is still what was certified."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from saferank.cli.app import app
from saferank.clicks import position_bias
from saferank.data import RankingData, write_items
from saferank.serving.watching import find_drift

ITEMS = RankingData(
    np.eye(6), [0, 3, 6], query_ids=np.array([10, 20]), doc_ids=np.array([1, 2, 3, 1, 2, 4]),
    production=np.array([0.5, 0.1, -1.0, 2.0, 0.0, 3.0]),
)  # fmt: skip
ROWS = [  # query, document, arm, score
    (10, 1, "production", 0.5), (10, 2, "production", 0.1 + 1e-9), (10, 3, "new", 7.0),
    (10, 4, "production", 3.0), (20, 1, "production", 2.5), (20, 4, "production", 3.0),
    (30, 1, "new", 1.0), (30, 2, "production", 1.0),
]  # fmt: skip


def log_of(rows, **more):
    names = ("query_id", "doc_id", "arm", "score")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    return pa.table({**columns, **more})


def test_shares_are_those_counted_by_hand():
    known = {(q, d) for q, ids in ((10, (1, 2, 3)), (20, (1, 2, 4))) for d in ids}
    drift = find_drift(log_of(ROWS), ITEMS)
    assert drift.rows == 8
    assert drift.new_queries == 2 / 8
    assert drift.new_documents == sum(q != 30 and (q, d) not in known for q, d, *_ in ROWS) / 8
    assert drift.other_scores == 1 / 4  # of 10/1, 10/2, 20/1 and 20/4 by production
    assert drift.misfit is None
    said = drift.sentences()
    assert len(said) == 3
    assert all("certify again" in sentence for sentence in said)


def test_nothing_new_says_so_and_texts_are_ids_as_numbers_are():
    rows = [(str(q), str(d), arm, s) for q, d, arm, s in ROWS[:3]]
    drift = find_drift(log_of(rows), ITEMS)
    assert (drift.new_queries, drift.new_documents, drift.other_scores) == (0, 0, 0)
    assert not any("stale" in sentence for sentence in drift.sentences())
    without = find_drift(log_of(rows).drop(["score"]), replace(ITEMS, production=None))
    assert without.other_scores is None


@pytest.mark.parametrize(("power", "fits"), [(1.0, True), (3.0, False)])
def test_a_click_model_that_no_longer_fits_is_told(power, fits):
    """Users of position bias; then others, who look at the second rank far less."""
    model, rng = position_bias(2), np.random.default_rng(0)
    relevance = np.array([0.9, 0.5, 0.2, 0.7, 0.4, 0.1])
    sessions = 4000
    query = rng.integers(2, size=sessions)
    shown = np.array([rng.permutation(3)[:2] for _ in range(sessions)]) + 3 * query[:, None]
    looked = np.asarray(model.alpha) ** np.array([1, power])
    click = rng.random(shown.shape) < looked * relevance[shown]
    rows = [
        (ITEMS.query_ids[q], ITEMS.doc_ids[d], "new", 0.0)
        for q, pair in zip(query, shown, strict=True)
        for d in pair
    ]
    more = {"rank": np.tile([1, 2], sessions), "click": click.ravel().astype(int)}
    log = log_of(rows, **more, session_id=np.repeat(np.arange(sessions), 2))
    drift = find_drift(log, ITEMS, click_model=model)
    assert (drift.misfit is None) == fits
    assert len(drift.sentences()) == (2 if fits else 3)


def test_the_command_tells_it(tmp_path):
    write_items(ITEMS, tmp_path / "items.parquet")
    count = 40
    rows = list(itertools.islice(itertools.cycle(ROWS), 8 * count))
    log = log_of(
        rows, click=np.tile([0, 1], 4 * count), rank=np.ones(8 * count, int),
        session_id=np.arange(8 * count), share=np.full(8 * count, 0.5),
    )  # fmt: skip
    pq.write_table(log, tmp_path / "log.parquet")
    words = ["watch", tmp_path / "log.parquet", "--items", tmp_path / "items.parquet"]
    told = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert json.loads(told.stdout)["drift"]["new_queries"] == 0.25
    plain = CliRunner().invoke(app, [*map(str, words)])
    assert "25.0% of the rows are of queries that are not among the items" in plain.stdout
