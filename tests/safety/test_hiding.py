"""Ids may be what people typed: with --hide-ids none of them is in what is handed on."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from saferank.cli.app import app
from saferank.clicks import simulate, trust_bias
from saferank.counts.counts_file import save_counts
from saferank.data import RankingData, synthetic, write_items
from saferank.learning import Settings, learn
from saferank.safety import Assessment, assess
from saferank.safety.hiding import hidden_id, hide_ids

USERS = trust_bias()
SECRET = "my secret"


def named(data: RankingData) -> RankingData:
    return replace(
        data,
        query_ids=np.array([f"{SECRET} question {i}" for i in range(data.queries)]),
        doc_ids=np.array([f"{SECRET} document {i}" for i in range(data.documents)]),
        production=np.random.default_rng(0).normal(size=data.documents),
    )


DATA = named(synthetic("small", queries=30, seed=0).train)


def test_only_ids_are_changed_and_always_to_the_same():
    found = assess(DATA.production + DATA.labels, DATA)
    hidden = hide_ids(found)
    text = json.dumps(hidden.to_dict())
    assert SECRET in json.dumps(found.to_dict())
    assert SECRET not in text
    assert hide_ids(hidden) == hidden
    before, after = found.certificate, hidden.certificate
    assert replace(after, worst=before.worst, visited=before.visited) == before
    for one, other in zip(before.worst, after.worst, strict=True):
        assert other.query == hidden_id(one.query) != one.query
        assert replace(other, query=one.query, moved=one.moved) == one
        for here, there in zip(one.moved, other.moved, strict=True):
            assert there == replace(here, document=hidden_id(here.document))


def test_names_differ_and_do_not_depend_on_the_process():
    names = {hidden_id(f"query {i}") for i in range(20_000)}
    assert len(names) == 20_000
    assert hidden_id("cheap flights") == "id-fbd1fa5db3"
    assert hidden_id("\ud800") != hidden_id("")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("hidden")
    counts = simulate(DATA, DATA.production, USERS, sessions=2000, seed=0)
    save_counts(counts, DATA, folder / "counts.parquet")
    write_items(DATA, folder / "items.parquet")
    quick = Settings(steps=20, hidden=(4,))
    learn(DATA, counts, USERS, production=DATA.production, settings=quick).save(folder / "run")
    return folder


def call(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code in (0, 3), result.output
    return result.output


def texts(folder: Path) -> str:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return "".join(path.read_bytes().decode("latin1") for path in files)


def test_certify_and_report_without_ids(run):
    assert SECRET not in texts(run / "run"), "a saved ranker holds no ids"
    given = ["--items", run / "items.parquet", "--counts", run / "counts.parquet"]
    given.append("--same-sessions")
    said = call("certify", run / "run", *given, "--json")
    assert SECRET in said
    assert SECRET in texts(run / "run")
    call("report", run / "run", "--hide-ids")
    assert SECRET not in (run / "run" / "report.html").read_text()
    said = call("certify", run / "run", *given, "--json", "--hide-ids")
    call("report", run / "run")
    assert SECRET not in said + texts(run / "run")
    hidden = {change.query for change in Assessment.load(run / "run").certificate.worst}
    assert hidden <= {hidden_id(query) for query in DATA.query_ids}
