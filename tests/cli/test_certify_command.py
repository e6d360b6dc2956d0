import json
from dataclasses import replace

import numpy as np
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from saferank.cli.app import app
from saferank.clicks import simulate, trust_bias
from saferank.data import read_items, synthetic, write_items
from saferank.errors import InputError
from saferank.logs import save_counts
from saferank.rankers import Ranker, Settings, learn
from saferank.safety import Assessment, Guard


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("certify")
    train = synthetic("small", queries=30, seed=0).train
    shown = 0.5 * np.random.default_rng(0).normal(size=train.documents)
    write_items(replace(train, production=shown), place / "items.parquet")
    items = read_items(place / "items.parquet")
    users = trust_bias()
    counts = simulate(items, items.production, users, sessions=5000, seed=0)
    save_counts(counts, items, place / "counts.parquet")
    quick = Settings(steps=40, least=10)
    learn(items, counts, users, method="dr", scorer="linear", settings=quick).save(place / "dr")
    return place


def call(command, folder, *options):
    arguments = [command, folder / "dr", *options]
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)


def test_exit_codes_tell_whether_to_ship(folder):
    items = ("--items", folder / "items.parquet")
    bare = call("certify", folder, *items)
    assert bare.exit_code == 3
    assert bare.stdout.startswith("Do not ship as it is: ")
    guarded = call("certify", folder, *items, "--guard", "--json")
    told = json.loads(guarded.stdout)
    assert guarded.exit_code == 0
    assert told["verdict"].startswith("Ship with guard 0.9: ")
    loose = call("certify", folder, *items, "--keep", 0, "--slack", 0)
    assert loose.exit_code == 0
    with pytest.raises(InputError, match="keep"):
        call("certify", folder, *items, "--keep", 2)


def test_counts_add_estimates_and_the_page_follows(folder):
    options = ("--items", folder / "items.parquet", "--counts", folder / "counts.parquet")
    result = call("certify", folder, *options, "--guard")
    assert "estimated utility: difference" in result.stdout
    found = Assessment.load(folder / "dr")
    assert found.log.sessions == 5000
    assert found.certificate.traffic_known
    written = call("report", folder, "-o", folder / "page.html")
    assert written.exit_code == 0
    assert found.decision.sentence in written.stdout
    assert "Change of utility" in (folder / "page.html").read_text(encoding="utf-8")


def test_rankings_with_and_without_the_guard(folder):
    items = read_items(folder / "items.parquet")
    ranker = Ranker.load(folder / "dr")
    options = ("--items", folder / "items.parquet", "-k", 3)
    plain = json.loads(call("rank", folder, *options, "--sorted").stdout)
    first = [row["doc_id"] for row in plain if row["rank"] == 1]
    best = ranker.rank(items, 1)[:, 0]
    assert first == items.ids()[1][best].tolist()
    done = call(
        "rank", folder, *options, "--guard", 0.9, "--session", "u7", "-o", folder / "r.parquet"
    )
    assert done.exit_code == 0
    table = pq.read_table(folder / "r.parquet").to_pydict()
    wanted = Guard(ranker, items.production).rank(items, 3, "u7")
    assert table["doc_id"] == items.ids()[1][wanted[wanted >= 0]].tolist()


def test_rankings_have_scores_the_rankers_k_and_the_files_format(folder, tmp_path):
    items, ranker = read_items(folder / "items.parquet"), Ranker.load(folder / "dr")
    scores, (query_ids, doc_ids) = ranker.scores(items), items.ids()
    query = np.repeat(query_ids, items.sizes)
    expected = []
    for name in query_ids:
        own = np.flatnonzero(query == name)
        best = own[np.argsort(-scores[own], kind="stable")][: len(ranker.card.weights)]
        expected += [
            {"query_id": name, "doc_id": doc_ids[d], "rank": place, "score": scores[d]}
            for place, d in enumerate(best.tolist(), start=1)
        ]
    options = ("--items", folder / "items.parquet", "--sorted", "-o")
    for end, read in READERS.items():
        done = call("rank", folder, *options, tmp_path / f"ranked{end}")
        assert done.exit_code == 0, end
        assert read(tmp_path / f"ranked{end}") == expected, end
    with pytest.raises(InputError, match="`output` must end with one of"):
        call("rank", folder, *options, tmp_path / "ranked.xlsx")


READERS = {
    ".parquet": lambda path: pq.read_table(path).to_pylist(),
    ".csv": lambda path: pa_csv.read_csv(path).to_pylist(),
    ".csv.gz": lambda path: pa_csv.read_csv(path).to_pylist(),
    ".json": lambda path: json.loads(path.read_text()),
    ".jsonl": lambda path: [json.loads(line) for line in path.read_text().splitlines()],
}


def test_rankings_are_made_as_they_were_certified(folder, tmp_path):
    Ranker.load(folder / "dr").save(tmp_path / "dr")
    options = ("--items", folder / "items.parquet")
    ranked = {way: call("rank", tmp_path, *options, f"--{way}") for way in ("sorted", "sampled")}
    assert ranked["sorted"].stdout != ranked["sampled"].stdout
    assert call("rank", tmp_path, *options).stdout == ranked["sampled"].stdout
    call("certify", tmp_path, *options, "--sorted")
    assert call("rank", tmp_path, *options).stdout == ranked["sorted"].stdout
    assert call("rank", tmp_path, *options, "--sampled").stdout == ranked["sampled"].stdout


def test_a_run_that_was_not_certified_has_no_page(folder, tmp_path):
    Ranker.load(folder / "dr").save(tmp_path / "dr")
    with pytest.raises(InputError, match="saferank certify"):
        call("report", tmp_path)
