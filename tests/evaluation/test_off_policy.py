from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import worlds

from saferank.clicks import ClickModel, simulate, simulate_rows, trust_bias
from saferank.counts import Counts, CountTable
from saferank.data import RankingData, synthetic
from saferank.errors import InputError
from saferank.estimators import ESTIMATORS, Evidence
from saferank.estimators.propensities import exact
from saferank.evaluation import INTERVALS, evaluate, interval, truth
from saferank.evaluation.controls import CONTROLS, EVALUATES
from saferank.evaluation.intervals import QueryScores, query_lower
from saferank.logs import align, count
from saferank.plackett_luce import exposure

MODEL = ClickModel([0.6, 0.4], [0.3, 0.1])
RELEVANCE = np.array([0.9, 0.2, 0.5])
OLD, NEW = np.array([0.3, 0.8, -0.2]), np.array([1.5, -0.5, 0.4])
ONE = RankingData(np.eye(3), [0, 3], labels=RELEVANCE)


def said(estimator, n, c, **options):
    counts = Counts([0, 3], n, c)
    return evaluate(
        NEW, ONE, counts, MODEL, production=OLD, estimator=estimator, control="none", **options
    )


@pytest.mark.parametrize("estimator", ["affine-ips", "dr"])
def test_estimates_are_right_on_average_over_every_session(estimator):
    # the expectation over all rankings and clicks, enumerated, is the true utility
    w = MODEL.exposure_weights
    guess = {"predictions": np.array([0.4, 0.6, 0.1])} if estimator == "dr" else {}
    expected = np.zeros(3)
    for n, c, probability in worlds.sessions(OLD, RELEVANCE, MODEL.alpha, MODEL.beta):
        found = said(estimator, n, c, **guess)
        expected += probability * np.array(
            [found.new.estimate, found.production.estimate, found.difference.estimate]
        )
    after = worlds.exposure(list(NEW), list(w)) @ RELEVANCE
    before = worlds.exposure(list(OLD), list(w)) @ RELEVANCE
    assert expected == pytest.approx([after, before, after - before], abs=1e-8)


def small(sessions, seed=0, queries=40):
    data = synthetic("small", queries=queries, seed=1).train
    rng = np.random.default_rng(5)
    old = rng.normal(size=data.documents)
    new = old + rng.normal(size=data.documents)
    users = trust_bias(3)
    counts = simulate(data, old, users, sessions=sessions, seed=seed, judge=0)
    return data, old, new, users, counts


@pytest.mark.parametrize("name", EVALUATES)
def test_estimators_are_exposure_times_the_gain_of_that_name(name):
    data, old, new, users, counts = small(500)
    guess = np.random.default_rng(2).random(data.documents)
    found = evaluate(
        new, data, counts, users, production=old, estimator=name, control="none", predictions=guess
    )
    w = users.exposure_weights
    known = Evidence(counts, users, exact(old, data.offsets, users, w), guess)
    omega = exposure(new, w, data.offsets)
    share = np.repeat(counts.sessions / counts.total, data.sizes)
    assert found.new.estimate == pytest.approx(share @ (omega * ESTIMATORS[name].documents(known)))


@pytest.mark.parametrize("control", CONTROLS)
def test_the_variance_of_ranks_and_sessions_by_plain_loops(control, tmp_path):
    data, old, new, users, _ = small(0, queries=6)
    simulate_rows(data, old, users, 400, 3, tmp_path / "log.parquet")
    count(tmp_path / "log.parquet", output=tmp_path / "counts.parquet")
    counts, _ = align(CountTable.open(tmp_path / "counts.parquet"), data, ranks=3)
    common = {"production": old, "control": control}
    exact_ = evaluate(new, data, counts, users, log=tmp_path / "log.parquet", **common)
    apart = evaluate(new, data, counts, users, **common)
    bound = evaluate(new, data, counts, users, variance="bound", **common)

    from saferank.evaluation import controls

    w = users.exposure_weights
    known = Evidence(counts, users, exact(old, data.offsets, users, w))
    omega = exposure(new, w, data.offsets)
    score, _, _ = controls.joint_scores(
        omega, known.propensities.omega, known, "affine-ips", control
    )
    import pyarrow.parquet as pq

    query_ids, doc_ids = data.ids()
    position = {
        (str(query_ids[q]), str(doc_ids[d])): (q, d)
        for q in range(data.queries)
        for d in range(data.offsets[q], data.offsets[q + 1])
    }
    sums: dict[Any, Any] = {}
    ranks: dict[Any, Any] = {}
    for row in pq.read_table(tmp_path / "log.parquet").to_pylist():
        q, d = position[str(row["query_id"]), str(row["doc_id"])]
        table = score.clicked if row["click"] else score.missed
        value = table[d, row["rank"] - 1]
        key = (q, row["session_id"])
        sums[key] = sums.get(key, score.base[q]) + value
        ranks.setdefault((q, row["rank"]), []).append(value)
    for q in range(data.queries):
        own = [value for (query, _), value in sums.items() if query == q]
        assert exact_.new.mean[q] == pytest.approx(np.mean(own))
        assert exact_.new.variance[q] == pytest.approx(np.var(own, ddof=1))
        assert min(own) >= exact_.new.low[q] - 1e-12
        assert max(own) <= exact_.new.high[q] + 1e-12
        spread = [np.var(ranks[q, rank], ddof=1) for rank in (1, 2, 3)]
        assert apart.new.variance[q] == pytest.approx(sum(spread))
        assert bound.new.variance[q] == pytest.approx(np.sum(np.sqrt(spread)) ** 2)
    assert np.all(bound.new.variance >= exact_.new.variance - 1e-9)
    assert exact_.new.variance_from == "sessions"


def test_controls_and_differences_sharpen():
    data, old, _, users, counts = small(3000)
    near = old + 0.1 * np.random.default_rng(0).normal(size=data.documents)
    width = {}
    for control in CONTROLS:
        found = evaluate(near, data, counts, users, production=old, control=control)
        width[control] = np.diff(_ends(found.difference, "normal"))[0]
        assert width[control] < 0.5 * np.diff(_ends(found.new, "normal"))[0]
    assert width["additive"] <= width["none"] * (1 + 1e-9)


def _ends(scores, method):
    found = interval(scores, method)
    return found.lower, found.upper


def test_intervals_by_their_formulas():
    scores = QueryScores(
        sessions=np.array([10, 30, 0]),
        mean=np.array([1.0, 2.0, 9.0]),
        variance=np.array([4.0, 1.0, 9.0]),
        low=np.array([-3.0, -2.0, -99.0]),
        high=np.array([3.0, 5.0, 99.0]),
        bound=np.array([8.0, 4.0, 9.0]),
        variance_from="sessions",
    )
    found = {name: interval(scores, name, 0.9, seed=1) for name in INTERVALS}
    assert all(one.estimate == 1.75 for one in found.values())
    error = np.sqrt((0.25**2) * 4 / 10 + (0.75**2) * 1 / 30)
    assert found["normal"].upper == pytest.approx(1.75 + 1.6448536 * error)
    error = np.sqrt(2 * ((10 * 0.75) ** 2 + (30 * 0.25) ** 2)) / 40
    # two queries: Student's t with one degree of freedom, tan(pi (1/2 - 0.05))
    assert found["clustered"].lower == pytest.approx(1.75 - 6.3137515 * error)
    rare = replace(scores, least_variance=40.0)
    assert interval(rare, "normal", 0.9).upper == pytest.approx(1.75 + 1.6448536)
    assert interval(rare, "clustered", 0.9).lower == pytest.approx(1.75 - 6.3137515)
    error = np.sqrt(0.95 / 0.05 * (0.25 * 8 + 0.75 * 4) / 40)
    assert found["cantelli"].lower == pytest.approx(1.75 - error)
    variance = (0.25 * 4 + 0.75 * 1 + 0.25 * 0.75**2 + 0.75 * 0.25**2) * 40 / 39
    log = np.log(40)
    width = np.sqrt(2 * variance * log / 40) + 7 * 8 * log / (3 * 39)
    assert found["bernstein"].upper == pytest.approx(1.75 + width)
    assert (found["bootstrap"].lower, found["bootstrap"].upper) == (1.0, 2.0)
    with pytest.raises(InputError, match="method"):
        interval(scores, "guess")
    lower = query_lower(scores, 0.05, "normal")
    assert lower[0] == pytest.approx(1 - 1.6448536 * np.sqrt(0.4))
    assert lower[2] == -np.inf


def test_labels_give_the_truth():
    found = truth(NEW, ONE, weights=MODEL.exposure_weights, highest=1.0)
    omega = worlds.exposure(list(NEW), list(MODEL.exposure_weights))
    assert found.utility == pytest.approx(omega @ RELEVANCE)
    assert 0 < found.ndcg < 1
    assert truth(RELEVANCE, ONE, deployed="sorted", weights=[1.0, 0.5]).ndcg == pytest.approx(1)


def test_bad_input_gets_one_sentence():
    data, old, new, users, counts = small(100)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"estimator": "x"}, "estimator"),
        ({"control": "x"}, "control"),
        ({"estimator": "dr"}, "predictions"),
        ({"variance": "x"}, "variance"),
    ]
    for wrong, match in cases:
        with pytest.raises(InputError, match=match):
            evaluate(new, data, counts, users, production=old, **wrong)
    with pytest.raises(InputError, match="counts"):
        evaluate(NEW, ONE, counts, users, production=OLD)
