"""Documents that production showed and the items lack: production is owed their clicks."""

from dataclasses import replace

import numpy as np
import pytest

import saferank as sr
from saferank.clicks import relevance, simulate, trust_bias
from saferank.counts import Counts
from saferank.counts.counts_file import save_counts
from saferank.data import RankingData, synthetic
from saferank.plackett_luce import rank_probabilities
from saferank.safety import Rule, assess, compare

WORLD = synthetic("small", queries=80, seed=5)
LONG = WORLD.train.subset(np.flatnonzero(np.diff(WORLD.train.offsets) >= 8))
ALL = replace(LONG, query_ids=np.arange(LONG.queries), doc_ids=np.arange(LONG.documents))
USERS = trust_bias()
TRUE = relevance(ALL.known_labels, WORLD.highest_grade)
SHOWN = np.random.default_rng(0).normal(size=ALL.documents)


def clicks(scores, offsets, relevant):
    chance = USERS.probability(relevant)
    return float((rank_probabilities(scores, 5, offsets) * chance).sum()) / (offsets.size - 1)


def delisted():
    """One document in seven of each query has no item any more; every list is still full."""
    kept = np.arange(ALL.documents) % 7 != 3
    query = np.repeat(np.arange(ALL.queries), np.diff(ALL.offsets))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(query[kept], minlength=ALL.queries))])
    items = RankingData(
        ALL.features[kept], offsets, labels=ALL.labels[kept], query_ids=ALL.query_ids,
        doc_ids=ALL.doc_ids[kept], production=SHOWN[kept],
    )  # fmt: skip
    assert np.diff(offsets).min() >= 5
    return kept, items


def aligned(counts, items, folder):
    save_counts(counts, ALL, folder / "counts.parquet")
    table = sr.counts.CountTable.open(folder / "counts.parquet")
    return sr.logs.align(table, items, skip_bad=True)[0]


def test_what_is_outside_is_counted_by_query_and_rank(tmp_path):
    kept, items = delisted()
    counts = simulate(ALL, SHOWN, USERS, sessions=5_000, seed=1)
    found = aligned(counts, items, tmp_path)
    for mine, theirs in ((found, counts), (found.judge, counts.judge)):
        for row, name in enumerate(("impressions", "clicks")):
            lost = np.where(kept[:, None], 0, getattr(theirs, name))
            expected = np.add.reduceat(lost, ALL.offsets[:-1], axis=0)
            assert np.array_equal(mine.outside[row], expected)
    learn = found.part("learn")
    assert np.array_equal(learn.outside + found.judge.outside, found.outside)
    assert np.array_equal((learn + found.judge).outside, found.outside)
    assert np.array_equal(found.subset([3, 1]).outside, found.outside[:, [3, 1]])


def test_production_is_owed_the_clicks_on_what_was_delisted(tmp_path):
    kept, items = delisted()
    new = SHOWN[kept] + 0.3 * items.labels
    truth = clicks(new, items.offsets, TRUE[kept]) - clicks(SHOWN, ALL.offsets, TRUE)
    forgotten = (
        clicks(new, items.offsets, TRUE[kept])
        - float((rank_probabilities(SHOWN, 5, ALL.offsets) * USERS.probability(TRUE))[kept].sum())
        / ALL.queries
    )
    held, estimates = 0, []
    for seed in range(20):
        counts = aligned(simulate(ALL, SHOWN, USERS, 6_000, seed), items, tmp_path)
        found = assess(
            new, items, counts=counts, click_model=USERS, production_kind="observed"
        ).clicks
        estimates.append(found.difference.estimate)
        held += found.difference.lower <= truth <= found.difference.upper
        assert found.production == pytest.approx(clicks(SHOWN, ALL.offsets, TRUE), abs=0.1)
    assert held >= 17
    assert abs(np.mean(estimates) - truth) < 0.2 * abs(forgotten - truth)
    both = compare({"new": new}, items, counts, click_model=USERS, production_kind="observed")
    assert both.candidates[0].estimate == pytest.approx(estimates[-1])


def test_counts_refuse_what_has_another_shape():
    with pytest.raises(sr.errors.InputError, match="outside"):
        Counts([0, 1], [[2, 1]], [[1, 0]], outside=np.zeros((2, 2, 2), np.int64))


def test_behind_the_guard_the_production_arm_still_shows_what_was_delisted(tmp_path):
    kept, items = delisted()
    new = SHOWN[kept] - 0.5 * items.labels
    before = clicks(SHOWN, ALL.offsets, TRUE)
    held = 0
    for seed in range(20):
        counts = aligned(simulate(ALL, SHOWN, USERS, 6_000, seed), items, tmp_path)
        found = assess(
            new,
            items,
            counts=counts,
            click_model=USERS,
            production_kind="observed",
            rule=Rule(guard=True),
        ).clicks
        share = 0.11  # 1 - keep + slack of every query, as nothing tells what production shows
        truth = share * (clicks(new, items.offsets, TRUE[kept]) - before)
        held += found.difference.lower <= truth <= found.difference.upper
    assert held >= 17
