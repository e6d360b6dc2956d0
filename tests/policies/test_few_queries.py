"""Production's policy by few queries, and by lists that are nearly sorted."""

import numpy as np
import pytest

from saferank.clicks import position_bias, simulate
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.policies import choose_production


@pytest.mark.parametrize("queries", [2, 5, 10])
def test_a_temperature_is_found_however_few_the_queries(queries):
    rng = np.random.default_rng(queries)
    size = 8
    items = RankingData(
        np.zeros((queries * size, 1)), np.arange(0, queries * size + 1, size),
        labels=np.zeros(queries * size, dtype=int),
    )  # fmt: skip
    scores = 2.0 * rng.normal(size=items.documents)
    log = simulate(items, scores / 2, position_bias(), sessions=20_000 * queries, seed=1)
    _, fit = choose_production(log, scores)
    assert fit.kind == "sampled"
    assert fit.temperature == pytest.approx(2.0, rel=0.05)


def sorted_log(queries, reverse=0, ties=False):
    """Lists of three of five documents, sorted by score but for the first `reverse` queries."""
    shown = np.zeros((queries * 5, 3), dtype=np.int64)
    for query in range(queries):
        order = np.arange(5)[::-1] if query < reverse else np.arange(5)
        shown[query * 5 + order[:3], np.arange(3)] = 50
    scores = np.tile([5.0, 1.0, 1.0, 1.0, 1.0] if ties else [5.0, 4.0, 3.0, 2.0, 1.0], queries)
    return Counts(np.arange(0, queries * 5 + 1, 5), shown, shown // 10), scores


def test_one_reversed_query_of_a_hundred_is_no_sorting():
    assert choose_production(*sorted_log(100))[1].kind == "sorted"
    assert choose_production(*sorted_log(100, reverse=1))[1].kind != "sorted"


def test_ties_that_are_broken_otherwise_are_no_sorting():
    assert choose_production(*sorted_log(20, ties=True))[1].kind == "sorted"
    counts, scores = sorted_log(20, ties=True)
    # rank 2 and 3 go to the last two of four documents with one score
    shown = np.zeros_like(counts.impressions)
    for query in range(20):
        shown[query * 5 + np.array([0, 4, 3]), np.arange(3)] = 50
    assert choose_production(Counts(counts.offsets, shown, shown // 10), scores)[1].kind != "sorted"
