"""What the certified guard serves is what was certified, whatever production does."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import saferank as sr
from saferank.clicks import simulate, trust_bias
from saferank.counts import Counts
from saferank.data import synthetic
from saferank.errors import InputError
from saferank.learning import Settings, learn
from saferank.plackett_luce import exposure
from saferank.safety import Rule, assess
from saferank.serving.production_lists import scores_of_lists
from saferank.serving.rankings import Serving, rankings

DATA = synthetic("small", queries=60, seed=3).train
USERS = trust_bias()
SCORES = 2.0 * np.random.default_rng(0).normal(size=DATA.documents)


@pytest.mark.parametrize("temperature", [0.4, 1.0, 2.5])
def test_the_guard_of_a_run_knows_productions_temperature(temperature, tmp_path):
    truly = exposure(SCORES / temperature, USERS.exposure_weights, DATA.offsets)
    counts = simulate(DATA, SCORES / temperature, USERS, sessions=40_000, seed=1)
    ranker = learn(
        DATA, counts, USERS, method="dr", production=SCORES, scorer="linear",
        settings=Settings(steps=60),
    )  # fmt: skip
    found = assess(ranker, DATA, production=SCORES, counts=counts, rule=Rule(guard=True))
    assert found.fit.kind == "sampled"
    ranker.save(tmp_path / "run")
    found.save(tmp_path / "run")
    guard = Serving.of_run(tmp_path / "run", guard=True).guarded(SCORES)
    served, shares = guard.exposure(DATA), guard.mixing(DATA)
    assert shares.min() < 1
    # the production arm is production, and what is served keeps its promise against the truth
    lost = 0.9 * truly - served
    per_query = np.add.reduceat(np.maximum(lost, 0), DATA.offsets[:-1])
    allowed = 0.01 * USERS.exposure_weights.sum()
    assert per_query.max() <= allowed * 1.3  # the temperature is fitted
    assert found.certificate.guard_mixing == pytest.approx(
        counts.part("all").sessions @ shares / counts.part("all").total, abs=1e-6
    )


def test_a_uniform_production_needs_no_scores():
    guard = sr.safety.Guard(SCORES, production_kind="uniform", promise=sr.safety.Promise(0.9, 0.01))
    ones = sr.safety.Guard(SCORES, np.zeros(DATA.documents), sr.safety.Promise(0.9, 0.01))
    assert np.array_equal(guard.mixing(DATA), ones.mixing(DATA))
    assert np.array_equal(guard.rank(DATA, 5, "a"), ones.rank(DATA, 5, "a"))


def certified_run(place, data, counts, *, production=None, guard=True, **options):
    """A ranker that was learned, certified and saved, with what was certified."""
    ranker = learn(
        data, counts, USERS, scorer="linear", settings=Settings(steps=40), production=SCORES,
        **({"method": "dr"} | options),
    )  # fmt: skip
    assessment = assess(
        ranker, data, production=production, counts=counts if production is None else None,
        rule=Rule(guard=guard, by="promise"),
    )  # fmt: skip
    ranker.save(place)
    assessment.save(place)
    return assessment


def with_scores(scores=SCORES):
    return replace(DATA, production=scores)


def lists_of(scores):
    rows: dict[str, list[Any]] = {"query_id": [], "doc_id": [], "rank": []}
    query_ids, doc_ids = DATA.ids()
    for query, (first, last) in enumerate(itertools.pairwise(DATA.offsets)):
        for rank, d in enumerate(np.argsort(-scores[first:last], kind="stable")[:5]):
            rows["query_id"].append(query_ids[query])
            rows["doc_id"].append(doc_ids[first + d])
            rows["rank"].append(rank + 1)
    return rows


def test_lists_are_productions_arm_and_nothing_else(tmp_path):
    """A ranker that adds to production_score adds to that, whatever lists production made."""
    really = np.random.default_rng(5).normal(size=DATA.documents)
    counts = simulate(DATA, really, USERS, sessions=40_000, seed=1)
    data = with_scores()
    told = certified_run(tmp_path / "run", data, counts, method=None, keep=0.9)
    assert told.certificate.guard_mode == "constant"
    serving = Serving.of_run(tmp_path / "run", guard=True)
    assert serving.ranker.adds_production
    scores = scores_of_lists(pa.table(lists_of(really)), data)
    wanted = pa.table({
        "query_id": np.repeat(data.ids()[0], 60), "session_id": np.tile(np.arange(60), 60),
    })  # fmt: skip
    table, _ = rankings(serving, data, scores, lists_given=True, sessions=wanted)
    new = dict(zip(zip(*_ids(data), strict=True), serving.ranker.scores(data), strict=True))
    rows = table.to_pylist()
    for row in rows:
        if row["arm"] == "new":
            assert row["score"] == new[row["query_id"], row["doc_id"]]
    assert np.mean([row["arm"] == "new" for row in rows]) == pytest.approx(0.11, abs=0.02)
    assert {round(row["share"], 12) for row in rows} == {0.11}


def _ids(data):
    queries, documents = data.ids()
    return np.repeat(queries, np.diff(data.offsets)).tolist(), documents.tolist()


def test_cut_lists_get_a_share_that_is_served_as_certified(tmp_path):
    """How long lists are is not known when a query is served: the share must not depend on it."""
    whole = simulate(DATA, SCORES, USERS, sessions=40_000, seed=1, judge=0)
    keep = np.array([1, 1, 1, 0.4, 0.4])
    rng = np.random.default_rng(0)
    shown = rng.binomial(whole.impressions, keep)
    clicks = rng.binomial(shown, whole.clicks / np.maximum(whole.impressions, 1))
    cut = Counts(DATA.offsets, shown, clicks, whole.sessions)
    ranker = learn(
        DATA, whole, USERS, method="dr", production=SCORES, scorer="linear",
        settings=Settings(steps=40),
    )  # fmt: skip
    assessment = assess(
        ranker, with_scores(), counts=cut, rule=Rule(guard=True, by="promise", same_sessions=True)
    )
    ranker.save(tmp_path / "run")
    assessment.save(tmp_path / "run")
    guard = Serving.of_run(tmp_path / "run", guard=True).guarded(SCORES)
    assert assessment.certificate.guard_mode == "constant"
    np.testing.assert_allclose(guard.mixing(DATA), 0.11)
    assert assessment.certificate.guard_mixing == pytest.approx(0.11)


def test_another_production_than_certified_is_refused(tmp_path):
    counts = simulate(DATA, SCORES, USERS, sessions=40_000, seed=1)
    data = with_scores()
    certified_run(tmp_path / "items", data, counts)
    other = learn(DATA, counts, USERS, method="ips", scorer="linear", settings=Settings(steps=5))
    serving = Serving.of_run(tmp_path / "items", guard=True)
    with pytest.raises(InputError, match="left out"):
        rankings(serving, data, other)
    with pytest.raises(InputError, match="must not be lists"):
        rankings(serving, data, scores_of_lists(pa.table(lists_of(SCORES)), data), lists_given=True)
    assert "of lists of 5, and only 1" in " ".join(rankings(serving, data, SCORES, k=1)[1])
    assert rankings(serving, data, SCORES)[0].num_rows > 0
    certified_run(tmp_path / "ranker", data, counts, production=other)
    serving = Serving.of_run(tmp_path / "ranker", guard=True)
    with pytest.raises(InputError, match="certified against"):
        rankings(serving, data, SCORES)
    certified_run(tmp_path / "plain", data, counts, guard=False)
    with pytest.raises(InputError, match="without a guard"):
        Serving.of_run(tmp_path / "plain", guard=True)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"rank": [1] * 300}, "one document at a rank"),
        ({"rank": list(range(-300, 0))}, "at least 1"),
        ({"doc_id": ["nobody"] * 300}, "among the items"),
    ],
)
def test_lists_that_cannot_be_served_are_refused(change, sentence):
    rows = {name: values[:300] for name, values in lists_of(SCORES).items()}
    with pytest.raises(InputError, match=sentence):
        scores_of_lists(pa.table(rows | change), DATA)
