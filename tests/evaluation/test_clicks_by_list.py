"""RIPS and cascade-DR: exact by enumeration of lists and clicks of users who stop."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import saferank as sr
from saferank._core.flat import Floats
from saferank.clicks import ClickModel, relevance
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.errors import InputError
from saferank.estimators.list_form import log_chances, prefix_weights
from saferank.evaluation import evaluate_clicks
from saferank.evaluation.clicks_by_list import ListEvidence, SessionLists, evaluate_lists
from saferank.plackett_luce import rank_probabilities
from saferank.policies import ProductionPolicy

ATTRACTION = np.array([0.9, 0.5, 0.2, 0.7])
OFFSETS = np.array([0, 4])
OLD, NEW = np.array([0.3, -0.5, 0.8, 0.0]), np.array([1.0, 0.2, -0.4, 0.6])
RANKS = 3


def plackett_luce(scores: Floats, order: tuple[int, ...]) -> float:
    chance, left = 1.0, float(np.exp(scores).sum())
    for document in order:
        chance *= float(np.exp(scores[document])) / left
        left -= float(np.exp(scores[document]))
    return chance


def happens(order: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every pattern of clicks of users who look down and leave after a click four times in five."""
    for clicks in itertools.product([0, 1], repeat=len(order)):
        looking, chance = 1.0, 1.0  # probability to be still looking, given the clicks so far
        for document, click in zip(order, clicks, strict=True):
            rate = looking * ATTRACTION[document]
            chance *= rate if click else 1 - rate
            if click:
                looking = 0.2
            else:
                gone = 1 - rate
                looking = looking * (1 - ATTRACTION[document]) / gone if gone > 0 else 0.0
        yield clicks, chance


ORDERS = list(itertools.permutations(range(4), RANKS))


def true_clicks(scores: Floats) -> float:
    return sum(plackett_luce(scores, order) * chance * sum(clicks)
               for order in ORDERS for clicks, chance in happens(order))  # fmt: skip


def test_the_enumeration_is_one_of_probabilities() -> None:
    assert sum(c for o in ORDERS for _, c in happens(o)) == pytest.approx(len(ORDERS))
    assert sum(plackett_luce(OLD, order) for order in ORDERS) == pytest.approx(1)


@pytest.mark.parametrize("predicted", [None, np.array([0.1, 0.9, 0.4, 0.3])])
def test_estimators_are_unbiased_where_clicks_depend_on_what_is_above(
    predicted: Floats | None,
) -> None:
    lists = np.array(ORDERS)
    query = np.zeros(len(ORDERS), dtype=np.int64)
    old, new = (log_chances(s, OFFSETS, query, lists, in_order=False) for s in (OLD, NEW))
    np.testing.assert_allclose(
        np.exp(old.sum(axis=1)), [plackett_luce(OLD, order) for order in ORDERS]
    )
    weights = prefix_weights(new, old)
    rates = np.zeros((4, RANKS))
    if predicted is not None:
        rates = np.array([1.0, 0.6, 0.3]) * predicted[:, None]
    base = float((rank_probabilities(NEW, RANKS, OFFSETS) * rates).sum())
    expected = 0.0
    for number, order in enumerate(ORDERS):
        for clicks, chance in happens(order):
            said = base + sum(weights[number, k] * (clicks[k] - rates[order[k], k])
                              for k in range(RANKS))  # fmt: skip
            expected += plackett_luce(OLD, order) * chance * said
    assert expected == pytest.approx(true_clicks(NEW), abs=1e-9)


def test_the_recursion_of_cascade_dr_is_its_short_form() -> None:
    """With Q as a sum of predicted rates, what is expected below cancels, rank by rank."""
    rates = np.random.default_rng(0).random((4, RANKS))

    def below(prefix: tuple[int, ...]) -> float:
        """Predicted clicks of the ranks after a prefix, under the new policy."""
        rest = [d for d in range(4) if d not in prefix]
        value = 0.0
        for tail in itertools.permutations(rest, RANKS - len(prefix)):
            chance = plackett_luce(NEW[rest], tuple(rest.index(d) for d in tail))
            value += chance * sum(rates[d, len(prefix) + j] for j, d in enumerate(tail))
        return value

    lists = np.array(ORDERS)
    query = np.zeros(len(ORDERS), dtype=np.int64)
    chances = [log_chances(s, OFFSETS, query, lists, in_order=False) for s in (NEW, OLD)]
    weights = np.hstack([np.ones((len(ORDERS), 1)), prefix_weights(*chances)])
    base = float((rank_probabilities(NEW, RANKS, OFFSETS) * rates).sum())
    for number, order in enumerate(ORDERS):
        clicks = (0, 1, 1)
        long = short = 0.0
        for k in range(RANKS):
            q = rates[order[k], k] + below(order[: k + 1])
            long += weights[number, k] * below(order[:k]) + weights[number, k + 1] * (clicks[k] - q)
            short += weights[number, k + 1] * (clicks[k] - rates[order[k], k])
        assert long == pytest.approx(base + short, abs=1e-9)


def test_weights_are_precise_where_one_document_has_nearly_all_of_the_mass() -> None:
    scores = np.array([60.0, 0.0, -3.0, 1.0])
    lists = np.array([[0, 3, 1], [1, 0, 2]])
    got = log_chances(scores, OFFSETS, np.zeros(2, np.int64), lists, in_order=False)
    left = np.logaddexp.reduce(scores[1:])
    assert got[0, 1] == pytest.approx(1 - left, abs=1e-12)
    assert got[1, 0] == pytest.approx(-60, abs=1e-9)


def world(tmp_path: Path, *, fixed: bool = False) -> tuple[RankingData, Floats, Path, Counts]:
    items = sr.data.synthetic("small", queries=40, seed=2).train
    true = relevance(items.known_labels, 4)
    production = 1.5 * true + np.random.default_rng(0).normal(size=items.documents)
    log = tmp_path / "log.parquet"
    sr.clicks.simulate_rows(
        items, production, sr.clicks.cascade(), 6000, 0, log, deterministic=fixed, highest_grade=4
    )
    counts, _ = sr.logs.align(sr.count(log, judge=0), items)
    return items, production, log, counts


@pytest.mark.parametrize("control", ["none", "by-rank", "normalised"])
@pytest.mark.parametrize("estimator", ["rips", "cascade-dr"])
def test_cascade_users_are_judged_rightly_by_rows(
    tmp_path: Path, estimator: str, control: str
) -> None:
    items, production, log, counts = world(tmp_path)
    true = relevance(items.known_labels, 4)
    new = production + true
    many = sr.clicks.simulate(items, new, sr.clicks.cascade(), 400_000, 9, judge=0, highest_grade=4)
    truth = flat_mean(many, counts)
    policy = ProductionPolicy.sampled(production, items.offsets)
    result = evaluate_clicks(
        new, items, counts, policy, estimator=estimator, control=control,  # type: ignore[arg-type]
        click_model=sr.clicks.position_bias(), predictions=0.3 + 0.4 * true, log=log,
    )  # fmt: skip
    gap = result.interval("normal", 0.999, of="new")
    assert gap.lower < truth < gap.upper
    assert gap.upper - gap.lower < 0.5 * truth
    own = result.interval("normal", of="production").estimate
    assert own == pytest.approx(counts.clicks.sum() / counts.total)
    assert result.difference.estimate == pytest.approx(result.new.estimate - own)
    ipm = evaluate_clicks(new, items, counts, policy).interval("normal", 0.999, of="new")
    assert ipm.lower > truth  # it takes clicks at ranks for what documents there make of them


def flat_mean(many: Counts, counts: Counts) -> float:
    """Clicks per session of a simulated ranker, with the traffic of the log."""
    clicks = np.add.reduceat(many.clicks.sum(axis=1), many.offsets[:-1])
    return float(counts.sessions / counts.total @ (clicks / np.maximum(many.sessions, 1)))


def test_a_fixed_ranking_tells_of_what_it_shows_and_of_no_more(tmp_path: Path) -> None:
    items, production, log, counts = world(tmp_path, fixed=True)
    policy = ProductionPolicy.sorted(production, items.offsets)
    same = evaluate_clicks(
        production, items, counts, policy, estimator="rips", control="none", deployed="sorted",
        log=log,
    )  # fmt: skip
    assert same.difference.estimate == pytest.approx(0)
    assert same.support.share == 1
    with pytest.raises(InputError, match=r"only .* of the new ranker's exposure"):
        evaluate_clicks(-production, items, counts, policy, estimator="rips", deployed="sorted",
                        log=log)  # fmt: skip


def test_unseen_lists_widen_the_interval() -> None:
    """One query, production shows 0 then 1; the new ranker does so with a known chance."""
    data = RankingData(np.eye(3), [0, 3])
    counts = Counts([0, 3], [[40, 0], [0, 40], [0, 0]], [[10, 0], [0, 5], [0, 0]])
    lists = SessionLists(
        np.zeros(40, np.int64), np.tile([0, 1], (40, 1)),
        np.stack([np.arange(40) < 10, np.arange(40) < 5], axis=1).astype(float),
    )  # fmt: skip
    production = ProductionPolicy.sorted(np.array([2.0, 1.0, 0.0]), data.offsets)
    new = np.log([8.0, 1.0, 1.0])
    for estimator, rates in (("rips", np.zeros((3, 2))), ("cascade-dr", np.full((3, 2), 0.25))):
        result = evaluate_lists(
            new, ListEvidence(data, counts, production, rates), lists, estimator=estimator,
            control="none", deployed="sampled",
        )  # fmt: skip
        first, both = 0.8, 0.8 * 0.5
        lost = (1 - first) + (1 - both)
        filled = 0.0 if estimator == "rips" else 0.25 * lost
        assert result.unknown == pytest.approx((filled, lost - filled))
        seen = first * 10 / 40 + both * 5 / 40
        assert result.new.estimate == pytest.approx(seen + filled)


def test_refusals(tmp_path: Path) -> None:
    items, production, log, counts = world(tmp_path)
    policy = ProductionPolicy.sampled(production, items.offsets)
    with pytest.raises(InputError, match="`log` must be given for rips"):
        evaluate_clicks(production, items, counts, policy, estimator="rips")
    with pytest.raises(InputError, match="`predictions` and `click_model`"):
        evaluate_clicks(production, items, counts, policy, estimator="cascade-dr", log=log)
    observed = ProductionPolicy.observed(counts)
    with pytest.raises(InputError, match="must draw or sort by scores"):
        evaluate_clicks(production, items, counts, observed, estimator="rips", log=log)
    wrong = ProductionPolicy.sorted(production, items.offsets)
    with pytest.raises(InputError, match="of lists that production makes"):
        evaluate_clicks(production, items, counts, wrong, estimator="rips", log=log)
    import pyarrow.parquet as pq

    table = pq.read_table(log)
    gap = table.filter(pa.array(np.asarray(table["rank"]) != 2))
    fewer, _ = sr.logs.align(sr.count(gap, judge=0), items)
    with pytest.raises(InputError, match="sessions have gaps"):
        evaluate_clicks(production, items, fewer, policy, estimator="rips", log=gap)


def test_a_click_model_is_not_needed_by_rips(tmp_path: Path) -> None:
    items, production, log, counts = world(tmp_path)
    policy = ProductionPolicy.sampled(production, items.offsets)
    model = ClickModel(np.ones(5), np.zeros(5))
    results = [evaluate_clicks(production + 0.1, items, counts, policy, estimator="rips", log=log,
                               click_model=m) for m in (None, model)]  # fmt: skip
    assert results[0].new.estimate == results[1].new.estimate
    assert results[0].assumes[0].startswith("A click at a rank depends on the documents down to it")
