import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from saferank.cli.app import app
from saferank.cli.assessment_tables import print_assessment
from saferank.clicks import simulate, trust_bias
from saferank.counts.counts_file import save_counts
from saferank.data import read_items, synthetic, write_items
from saferank.data.groups import Groups
from saferank.errors import InputError
from saferank.learning import Ranker, Settings, learn
from saferank.plackett_luce import exposure
from saferank.safety import Assessment, Guard, Promise, Rule, assess


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("certify")
    train = synthetic("small", queries=30, seed=0).train
    shown = 0.5 * np.random.default_rng(0).normal(size=train.documents)
    write_items(replace(train, production=shown), place / "items.parquet")
    items = read_items(place / "items.parquet")
    users = trust_bias()
    counts, fresh = (
        simulate(items, items.production, users, sessions=5000, seed=seed, judge=0)
        for seed in (0, 1)
    )
    save_counts(fresh, items, place / "counts.parquet")
    save_counts(counts, items, place / "learned.parquet")
    quick = Settings(steps=40, min_validation_interval=10)
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
    assert "change of clicks per session, with" in result.stdout
    found = Assessment.load(folder / "dr")
    assert found.log.sessions == 5000
    assert found.log.judged == 5000
    assert found.certificate.traffic_known
    written = call("report", folder, "-o", folder / "page.html")
    assert written.exit_code == 0
    assert found.decision.sentence in written.stdout
    assert "Change of clicks" in (folder / "page.html").read_text(encoding="utf-8")


def test_a_doubt_is_told_and_decides_where_it_is_asked_for(folder):
    options = ("--items", folder / "items.parquet", "--counts", folder / "counts.parquet")
    plain = call("certify", folder, *options)
    assert "utility certain" in plain.stdout
    told = json.loads(call("certify", folder, *options, "--json").stdout)
    assert told["doubts"]["stated"] == 0.2
    certain = json.loads(call("certify", folder, *options, "--doubt", 0.95, "--json").stdout)
    assert certain["doubts"]["stated"] == 0.95
    assert certain["doubts"]["share"] < 1
    assert not certain["decision"]["ship"]
    with pytest.raises(InputError, match="doubt"):
        call("certify", folder, *options, "--doubt", -1)


def test_the_assessment_of_another_log_is_set_aside(folder, tmp_path):
    Ranker.load(folder / "dr").save(tmp_path / "dr")
    items = ("--items", folder / "items.parquet")
    fresh = (*items, "--counts", folder / "counts.parquet")
    call("certify", tmp_path, *items)
    first = call("certify", tmp_path, *fresh)
    again = call("certify", tmp_path, *fresh, "--guard")
    assert "assessment-" not in first.stderr + again.stderr
    former = Assessment.load(tmp_path / "dr")
    other = call(
        "certify", tmp_path, *items, "--counts", folder / "learned.parquet", "--same-sessions"
    )
    assert "of other items or of another log: it is now" in other.stderr
    (kept,) = (tmp_path / "dr").glob("assessment-*.json")
    assert str(kept) in other.stderr
    (tmp_path / "old").mkdir()
    Ranker.load(tmp_path / "dr").save(tmp_path / "old")
    kept.replace(tmp_path / "old" / "assessment.json")
    assert Assessment.load(tmp_path / "old").decision == former.decision
    assert Assessment.load(tmp_path / "dr").flatters


def test_groups_say_what_is_served_and_why_merit_is_not_told(folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    items = read_items(folder / "items.parquet")
    brands = Groups.of([f"brand {i % 12}" for i in range(items.documents)])
    items, ranker = replace(items, groups=brands), Ranker.load(folder / "dr")
    print_assessment(assess(ranker, replace(items, labels=None)))
    bare = capsys.readouterr().out
    assert "merit by clicks" not in bare
    assert "exposure: new, with the guard" not in bare
    counts = simulate(items, items.production, trust_bias(), sessions=3000, seed=3, judge=0)
    rule, promise = Rule(guard=True), Promise(0.9, 0.01, floor=0.5)
    found = assess(ranker, items, counts=counts, rule=rule, promise=promise)
    untold = [group.merit_untold for group in found.exposures.groups]
    assert untold[10:] == 2 * ["not of the 10 largest"]
    assert all(g.merit_by_clicks or g.merit_untold for g in found.exposures.groups)
    print_assessment(found)
    shown = capsys.readouterr().out
    assert "exposure: new, with the guard" in shown
    assert "not told: not of the 10 largest" in shown
    costs = found.exposures.frontier
    assert [one.floor for one in costs] == sorted(one.floor for one in costs)
    weights = found.certificate.weights
    plain = Guard(ranker, items.production, Promise(0.9, 0.01), weights=weights).exposure(items)
    shares = np.repeat(counts.sessions / counts.total, items.sizes)
    worth = items.labels * shares
    before = worth @ exposure(items.production, weights, items.offsets)
    assert costs[0].utility == pytest.approx(worth @ plain / before, rel=1e-6)
    assert "What floors would cost behind the guard, on" in shown


def test_sessions_it_learned_from_are_refused_or_flatter_on_every_output(folder, tmp_path):
    Ranker.load(folder / "dr").save(tmp_path / "dr")
    options = ("--items", folder / "items.parquet", "--counts", folder / "learned.parquet")
    with pytest.raises(InputError, match="--same-sessions"):
        call("certify", tmp_path, *options)
    printed = call("certify", tmp_path, *options, "--same-sessions")
    assert "flatters" in printed.stdout
    told = json.loads(call("certify", tmp_path, *options, "--same-sessions", "--json").stdout)
    assert "flatters" in told["flatters"]
    assert {"estimate", "lower", "upper"} <= told["difference"].keys()
    call("report", tmp_path)
    assert "flatters" in (tmp_path / "dr" / "report.html").read_text(encoding="utf-8")


def test_a_bare_lightgbm_file_is_certified_with_weights(folder, tmp_path):
    import lightgbm

    items = read_items(folder / "items.parquet")
    data = lightgbm.Dataset(items.features, items.labels, group=items.sizes)
    quiet = {"objective": "lambdarank", "verbosity": -1, "num_threads": 1}
    model = lightgbm.train(quiet, data, num_boost_round=3)
    model.save_model(tmp_path / "model.txt")
    arguments = ["certify", str(tmp_path / "model.txt"), "--items", str(folder / "items.parquet")]
    runner = CliRunner()
    with pytest.raises(InputError, match="--weights dcg:5"):
        runner.invoke(app, arguments, catch_exceptions=False)
    found = runner.invoke(app, [*arguments, "--weights", "dcg:3"], catch_exceptions=False)
    assert found.exit_code in (0, 3)
    assert "1 0.631 0.5 (as given)" in found.stdout


def test_candidates_are_compared_with_a_chart(folder, tmp_path):
    items, counts = folder / "items.parquet", folder / "counts.parquet"
    Ranker.load(folder / "dr").save(tmp_path / "twin")
    arguments = [
        "compare", folder / "dr", tmp_path / "twin", "--items", items, "--counts", counts,
        "--chart", tmp_path / "chart.png",
    ]  # fmt: skip
    shown = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert shown.exit_code == 0
    assert "hold for all at once" in shown.stdout
    assert (tmp_path / "chart.png").stat().st_size > 1000
    told = CliRunner().invoke(
        app, [*(str(a) for a in arguments[:-2]), "--json"], catch_exceptions=False
    )
    one, two = json.loads(told.stdout)["candidates"]
    assert one["estimate"] == two["estimate"]
    assert one["lower"] < one["at_least"] < one["estimate"] < one["upper"]


def test_rankings_with_and_without_the_guard(folder):
    items = read_items(folder / "items.parquet")
    ranker = Ranker.load(folder / "dr")
    options = ("--items", folder / "items.parquet", "-k", 3)
    call("certify", folder, *options[:2], "--sorted")
    plain = json.loads(call("rank", folder, *options).stdout)
    first = [row["doc_id"] for row in plain if row["rank"] == 1]
    best = ranker.rank(items, 1)[:, 0]
    assert first == items.ids()[1][best].tolist()
    call("certify", folder, *options[:2], "--guard", "--keep", 0.8, "--slack", 0.002)
    guarded = (*options, "--guard", "--session", "u7")
    for wrong in (("--keep", 0.9), ("--slack", 0.01), ("--sorted",)):
        with pytest.raises(InputError, match="differs from what was certified"):
            call("rank", folder, *guarded, *wrong)
    done = call("rank", folder, *guarded, "--keep", 0.8, "-o", folder / "r.parquet")
    assert done.exit_code == 0
    table = pq.read_table(folder / "r.parquet").to_pydict()
    weights = ranker.provenance.weights
    kept = Guard(ranker, items.production, promise=Promise(0.8, 0.002), weights=weights)
    wanted = kept.rank(items, 3, "u7")
    assert table["doc_id"] == items.ids()[1][wanted[wanted >= 0]].tolist()


def test_rankings_for_many_sessions_have_the_certified_exposures(folder, tmp_path):
    items, ranker = read_items(folder / "items.parquet"), Ranker.load(folder / "dr")
    call("certify", folder, "--items", folder / "items.parquet", "--guard")
    query = items.ids()[0][3]
    people = [f"u{i}" for i in range(4000)]
    wanted = pa.table({"query_id": pa.array([str(query)] * 4000), "session_id": people})
    pq.write_table(wanted, tmp_path / "people.parquet")
    done = call(
        "rank", folder, "--items", folder / "items.parquet", "--guard", "--sessions",
        tmp_path / "people.parquet", "-o", tmp_path / "many.parquet",
    )  # fmt: skip
    assert done.exit_code == 0
    table = pq.read_table(tmp_path / "many.parquet").to_pydict()
    weights = np.asarray(ranker.provenance.weights)
    shown = dict.fromkeys(items.ids()[1][items.offsets[3] : items.offsets[4]].tolist(), 0.0)
    for document, rank in zip(table["doc_id"], table["rank"], strict=True):
        shown[document] += weights[rank - 1] / 4000
    exposure = Guard(ranker, items.production, weights=weights).exposure(items)
    np.testing.assert_allclose(
        list(shown.values()), exposure[items.offsets[3] : items.offsets[4]], atol=0.05
    )


def test_a_single_draw_is_said_to_be_one(folder, tmp_path):
    Ranker.load(folder / "dr").save(tmp_path / "dr")
    result = call("rank", tmp_path, "--items", folder / "items.parquet", "-k", 1)
    assert "a single draw" in result.stderr
    with pytest.raises(InputError, match="saferank certify"):
        call("rank", tmp_path, "--items", folder / "items.parquet", "--guard")


def test_rankings_have_scores_the_rankers_k_and_the_files_format(folder, tmp_path):
    items, ranker = read_items(folder / "items.parquet"), Ranker.load(folder / "dr")
    scores, (query_ids, doc_ids) = ranker.scores(items), items.ids()
    query = np.repeat(query_ids, items.sizes)
    expected = []
    for name in query_ids:
        own = np.flatnonzero(query == name)
        best = own[np.argsort(-scores[own], kind="stable")][: len(ranker.provenance.weights)]
        expected += [
            {"query_id": name, "doc_id": doc_ids[d], "rank": place, "score": scores[d]}
            for place, d in enumerate(best.tolist(), start=1)
        ]
    call("certify", folder, "--items", folder / "items.parquet", "--sorted")
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
    with pytest.raises(InputError, match="differs from what was certified"):
        call("rank", tmp_path, *options, "--sampled")


def test_a_run_that_was_not_certified_has_no_page(folder, tmp_path):
    Ranker.load(folder / "dr").save(tmp_path / "dr")
    with pytest.raises(InputError, match="saferank certify"):
        call("report", tmp_path)
