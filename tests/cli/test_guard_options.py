"""`certify --examination`, `--guard-mode`, and what `rank --guard` then serves and logs."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from saferank.cli.app import app
from saferank.clicks import simulate, trust_bias
from saferank.data import read_items, synthetic, write_items
from saferank.errors import InputError
from saferank.learning import Ranker, Settings, learn
from saferank.logs import align, count
from saferank.plackett_luce import rank_probabilities
from saferank.policies import ProductionPolicy
from saferank.safety import Assessment, Guard, Rule, assess


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("guards")
    train = synthetic("small", queries=12, seed=0).train
    shown = 0.8 * np.random.default_rng(0).normal(size=train.documents)
    write_items(replace(train, production=shown), place / "items.parquet")
    items = read_items(place / "items.parquet")
    counts = simulate(items, items.production, trust_bias(), sessions=4000, seed=0, judge=0)
    quick = Settings(steps=40, min_validation_interval=10)
    learn(items, counts, trust_bias(), method="dr", scorer="linear", settings=quick).save(
        place / "dr"
    )
    return place


def call(command, folder, *options):
    arguments = [command, folder / "dr", "--items", folder / "items.parquet", *options]
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)


def certificate(folder):
    return Assessment.load(folder / "dr").certificate


def test_each_certificate_says_which_way_of_looking_was_certified(folder, tmp_path):
    shown = call("certify", folder, "--guard", "--examination", "any")
    assert shown.exit_code == 0
    assert "every way of looking down the list" in " ".join(shown.stdout.split())
    assert certificate(folder).examination == "any"
    assert certificate(folder).guard_loss <= 0.01 + 1e-8
    assert "no click model is used" in certificate(folder).assumptions[1]
    call("certify", folder, "--guard")
    fitted = certificate(folder)
    assert fitted.examination == "weights"
    assert "users who look at the ranks in another way are not covered" in fitted.assumptions[1]
    call("certify", folder, "--guard", "--examination", "dcg")
    assert certificate(folder).weights == pytest.approx(1 / np.log2(np.arange(5) + 2))
    (tmp_path / "look.json").write_text("[1, 0.5, 0.25, 0.1, 0]")
    call("certify", folder, "--guard", "--examination", tmp_path / "look.json")
    assert certificate(folder).weights == (1, 0.5, 0.25, 0.1, 0)
    trust_bias().save(tmp_path / "bias.json")
    call("certify", folder, "--guard", "--examination", tmp_path / "bias.json")
    assert certificate(folder).weights == pytest.approx(trust_bias().exposure_weights)


def test_bad_choices_get_one_sentence(folder, tmp_path):
    for options, words in (
        (("--examination", "all"), "`examination` must be any, fitted, dcg"),
        (("--examination", "dcg", "--weights", "1,1"), "leave one out"),
        (("--guard-mode", "half"), "must be best or mix"),
    ):
        with pytest.raises(InputError, match=words):
            call("certify", folder, *options)


def test_a_promise_for_every_way_of_looking_is_no_weaker(folder):
    call("certify", folder)
    fitted = certificate(folder)
    call("certify", folder, "--examination", "any")
    every = certificate(folder)
    assert every.mean_loss >= fitted.mean_loss - 1e-9
    assert every.share_holding <= fitted.share_holding
    assert all(a <= b + 1e-12 for a, b in zip(every.distribution.kept, fitted.distribution.kept))  # noqa: B905


@pytest.mark.parametrize("mode", ["best", "mix"])
@pytest.mark.parametrize("examination", ["any", "fitted"])
def test_rank_serves_what_was_certified_with_its_propensities(folder, tmp_path, mode, examination):
    call("certify", folder, "--guard", "--guard-mode", mode, "--examination", examination)
    other = "mix" if mode == "best" else "best"
    with pytest.raises(InputError, match="differs from what was certified"):
        call("rank", folder, "--guard", "--guard-mode", other)
    items, ranker = read_items(folder / "items.parquet"), Ranker.load(folder / "dr")
    query_ids, doc_ids = items.ids()
    sessions = 150
    wanted = pa.table(
        {
            "query_id": pa.array(np.tile(query_ids[:3], sessions).astype(str)),
            "session_id": pa.array(np.repeat(np.arange(sessions), 3).astype(str)),
        }
    )
    pq.write_table(wanted, tmp_path / "people.parquet")
    done = call(
        "rank", folder, "--guard", "--sessions", tmp_path / "people.parquet",
        "-o", tmp_path / "served.parquet",
    )  # fmt: skip
    assert done.exit_code == 0
    served = pq.read_table(tmp_path / "served.parquet")
    guard = Guard(
        ranker, items.production, weights=ranker.provenance.weights, mode=mode,
        examination=examination,
    )  # fmt: skip
    table = guard.propensities(items)
    queries = np.repeat(query_ids, items.sizes)
    pairs = zip(queries.tolist(), doc_ids.tolist(), strict=True)
    place = {pair: row for row, pair in enumerate(pairs)}
    shown = zip(served["query_id"].to_pylist(), served["doc_id"].to_pylist(), strict=True)
    rows = np.array([place[pair] for pair in shown])
    ranks = served["rank"].to_numpy() - 1
    np.testing.assert_allclose(served["propensity"].to_numpy(), table[rows, ranks], atol=1e-12)
    # a log of it is counted with its propensities, and these are production's from then on
    log = served.append_column("click", pa.array(np.zeros(served.num_rows, dtype=bool)))
    counts, _ = align(count(log, columns={"propensity": "propensity"}), items, ranks=5)
    told = counts.part("all").propensity
    seen = told > 0
    np.testing.assert_allclose(told[seen], table[seen], rtol=1e-7)  # counts keep ten digits
    assert ProductionPolicy.recorded(np.minimum(told, 1), items.offsets).kind == "recorded"


def test_certificates_tell_what_the_guard_keeps(folder):
    told = {}
    for mode in ("best", "mix"):
        shown = call("certify", folder, "--guard", "--guard-mode", mode, "--json")
        told[mode] = json.loads(shown.stdout)["certificate"]
    assert told["best"]["guard_mode"] == "best"
    assert "is kept" in told_sentence(folder, "best")
    assert "of the traffic gets the new ranker" in told_sentence(folder, "mix")
    assert told["best"]["guard_gain"] == pytest.approx(told["mix"]["guard_gain"])
    assert told["best"]["guard_gain_kept"] is not None


def told_sentence(folder, mode):
    shown = call("certify", folder, "--guard", "--guard-mode", mode, "--json")
    return json.loads(shown.stdout)["verdict"]


def test_clicks_are_told_with_and_without_the_guard(folder):
    items = read_items(folder / "items.parquet")
    fresh = simulate(items, items.production, trust_bias(), sessions=20_000, seed=1, judge=0)
    ranker = Ranker.load(folder / "dr")
    found = assess(ranker, items, counts=fresh, rule=Rule(guard=True))
    alone = assess(ranker, items, counts=fresh)
    assert found.clicks_alone == alone.clicks.difference
    assert alone.clicks_alone is None
    # both tell the truth of what they are of
    weights, true = trust_bias().alpha, items.labels / 4
    guard = Guard(ranker, items.production, weights=ranker.provenance.weights)
    before = rank_probabilities(items.production, 5, items.offsets)
    after = {
        "guarded": guard.propensities(items),
        "alone": rank_probabilities(ranker.scores(items), 5, items.offsets),
    }
    share = np.repeat(fresh.sessions / fresh.total, items.sizes)
    for name, gap in (("guarded", found.clicks.difference), ("alone", found.clicks_alone)):
        truth = share @ (((after[name] - before) @ weights) * true)
        assert gap.lower <= truth <= gap.upper
