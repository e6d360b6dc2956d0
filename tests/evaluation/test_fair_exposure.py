"""Measures of fair exposure: plain loops, and merit by clicks that covers the truth."""

from dataclasses import replace

import numpy as np
import pytest

from saferank.clicks import simulate, trust_bias
from saferank.counts import Counts
from saferank.data import RankingData, synthetic
from saferank.data.groups import Groups
from saferank.errors import InputError
from saferank.estimators import Evidence
from saferank.estimators.propensities import by_policy
from saferank.evaluation.fair_exposure import exposure_report, merits_by_clicks
from saferank.plackett_luce import exposure
from saferank.policies import ProductionPolicy
from saferank.safety import assess
from saferank.safety.rule import Rule

USERS = trust_bias()
W = USERS.exposure_weights


def world(queries=40):
    data = synthetic("small", queries=queries, seed=2).train
    brands = np.array(["acme", "bolt", "corp"])[np.arange(data.documents) * 7 % 5 % 3]
    return replace(data, groups=Groups.of(brands, "brand")), brands


def test_measures_are_those_of_plain_loops():
    data, brands = world(6)
    rng = np.random.default_rng(0)
    scores, merit = rng.normal(size=(2, data.documents)), rng.random(data.documents)
    omega, omega0 = (exposure(s, W, data.offsets) for s in scores)
    shares = rng.dirichlet(np.ones(6))
    report = exposure_report(omega, omega0, data, W, shares=shares, merit=merit)
    query = np.repeat(np.arange(6), data.sizes)
    for group in report.groups:
        own = [d for d in range(data.documents) if brands[d] == group.name]
        for told, values in ((group.new, omega), (group.production, omega0), (group.merit, merit),
                             (group.documents, np.ones(data.documents))):  # fmt: skip
            part = sum(shares[query[d]] * values[d] for d in own)
            assert told == pytest.approx(part / (shares[query] @ values))
    per_document = [group.new / group.documents for group in report.groups]
    per_merit = [group.new / group.merit for group in report.groups]
    assert report.new.parity == pytest.approx(min(per_document) / max(per_document))
    assert report.new.treatment == pytest.approx(min(per_merit) / max(per_merit))
    disparity = loss = 0.0
    for q in range(6):
        docs = range(data.offsets[q], data.offsets[q + 1])
        pairs = [(omega[i] * merit[j] - omega[j] * merit[i]) ** 2
                 for i in docs for j in docs if i != j]  # fmt: skip
        disparity += shares[q] * np.mean(pairs)
        best = sorted(docs, key=lambda d: -merit[d])
        ideal = {d: W[r] if r < W.size else 0.0 for r, d in enumerate(best)}
        loss += shares[q] * sum((omega[d] - ideal[d]) ** 2 for d in docs)
    assert report.new.disparity == pytest.approx(disparity)
    assert report.new.expected_exposure_loss == pytest.approx(loss)
    assert sum(group.new for group in report.groups) == pytest.approx(1)


def test_without_merit_or_with_one_group_nothing_is_said_of_it():
    data = RankingData(np.eye(2), [0, 2], groups=Groups.of(["a", "a"]))
    report = exposure_report(np.ones(2), np.ones(2), data, np.ones(1), shares=np.ones(1))
    assert report.new.parity is report.new.treatment is report.new.disparity is None
    with pytest.raises(InputError, match="`group` must be given"):
        exposure_report(np.ones(2), np.ones(2), replace(data, groups=None), W, shares=np.ones(1))


def test_merit_by_clicks_covers_the_truth():
    data, brands = world()
    shown = np.zeros(data.documents)
    policy = ProductionPolicy.sampled(shown, data.offsets)
    relevance = data.labels / data.labels.max()
    inside = total = 0
    widths = []
    for seed in range(30):
        counts = simulate(data, shown, USERS, sessions=4000, seed=seed, judge=0)
        evidence = Evidence(
            counts, USERS, by_policy(policy, USERS, W), np.full(data.documents, 0.3)
        )
        share = np.repeat(counts.sessions / counts.total, data.sizes)
        names = ("acme", "bolt", "corp")
        for name, told in zip(
            names, merits_by_clicks(data.groups, names, evidence, method="normal"), strict=True
        ):
            assert not isinstance(told, str)
            truth = (share * relevance)[brands == name].sum()
            inside += told.lower <= truth <= told.upper
            widths.append((told.upper - told.lower) / truth)
            total += 1
    assert inside >= 0.87 * total  # 95 % of 90, four standard errors below
    assert np.mean(widths) < 0.5


def test_merit_by_clicks_goes_by_what_made_the_log():
    data, brands = world()
    production = ProductionPolicy.sampled(np.zeros(data.documents), data.offsets)
    scores = np.where(brands == "acme", 1.0, -0.5)
    made_by = ProductionPolicy.sampled(scores, data.offsets)
    counts = simulate(data, scores, USERS, sessions=40_000, seed=0)
    assessment = assess(
        np.linspace(0, 1, data.documents), data, production=production, counts=counts,
        click_model=USERS, logged_by=made_by, rule=Rule(method="normal"),
    )  # fmt: skip
    judged = counts.part("judge")
    share = np.repeat(judged.sessions / judged.total, data.sizes)
    relevance = data.labels / data.labels.max()
    for group in assessment.exposures.groups:
        truth = (share * relevance)[brands == group.name].sum()
        interval = group.merit_by_clicks
        error = (interval.upper - interval.lower) / 4
        assert abs(interval.estimate - truth) < 4 * error
        assert error < 0.1 * truth


def test_of_documents_that_are_never_shown_clicks_tell_nothing():
    data, _ = world(10)
    scores = np.where(data.groups.codes == 0, -1e3, 0.0)
    counts = simulate(data, scores, USERS, sessions=2000, seed=0, judge=0)
    policy = ProductionPolicy.sampled(scores, data.offsets)
    evidence = Evidence(counts, USERS, by_policy(policy, USERS, W), np.full(data.documents, 0.3))
    told = merits_by_clicks(data.groups, ("acme", "bolt"), evidence)
    assert told[0] == "100% of its documents hardly ever shown"
    assert not isinstance(told[1], str)
    nobody = Counts.zeros(data.offsets, USERS.ranks)
    assert merits_by_clicks(data.groups, ("bolt",), replace(evidence, counts=nobody)) == (
        "no session to judge by",
    )
