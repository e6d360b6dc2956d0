"""A hold-out: sessions that production keeps whatever the guard would allow."""

import itertools

import numpy as np
import pytest
from scipy import stats
from worlds import rankings

from saferank.data import synthetic
from saferank.errors import InputError
from saferank.safety import Guard, Promise, Rule

W = np.array([1.0, 0.6, 0.3])
K = W.size
DATA = synthetic("small", queries=8, seed=1).train
RNG = np.random.default_rng(0)
NEW, OLD = 2 * RNG.normal(size=DATA.documents), 1.5 * RNG.normal(size=DATA.documents)
MODES = [("best", "fitted"), ("best", "any"), ("mix", "fitted"), ("mix", "any")]


def guard_of(mode, examination, holdout, **options):
    promise = Promise(0.9, 0.01)
    return Guard(
        NEW, OLD, promise, weights=W, mode=mode, examination=examination, holdout=holdout, **options
    )


@pytest.mark.parametrize(("mode", "examination"), MODES)
@pytest.mark.parametrize("holdout", [0.0, 0.2])
@pytest.mark.parametrize("kind", ["sampled", "sorted", "observed"])
def test_one_query_is_served_with_all_that_the_guard_says_of_it(mode, examination, holdout, kind):
    guard = guard_of(mode, examination, holdout, production_kind=kind, production_temperature=0.7)
    table = None if kind == "observed" else guard.propensities(DATA)
    for session in range(6):
        whole, arms = guard.rank(DATA, K + 1, session), guard.serves_new(DATA, session)
        for query, (first, last) in enumerate(itertools.pairwise(DATA.offsets)):
            scores, name = (NEW[first:last], OLD[first:last]), DATA.ids()[0][query]
            served = guard.serve_query(*scores, K + 1, session, name)
            ranked = whole[query][whole[query] >= 0]
            np.testing.assert_array_equal(served.positions, ranked - first)
            np.testing.assert_array_equal(
                served.positions, guard.rank_query(*scores, K + 1, session, name)
            )
            assert served.is_new == arms[query]
            assert (served.is_new, served.share) == pytest.approx(
                guard.arm(*scores, session, name), abs=1e-9
            )
            if table is None:
                assert served.propensities is None
            else:
                told = table[ranked[:K], np.arange(min(K, ranked.size))]
                np.testing.assert_allclose(served.propensities, told, atol=1e-12)


@pytest.mark.parametrize(("mode", "examination"), MODES)
def test_production_keeps_its_share_and_the_rest_is_as_without(mode, examination):
    """By enumeration of production's rankings: P(document at rank) is the mixture of the two."""
    holdout, first, last = 0.3, *DATA.offsets[:2]
    alone, held = (guard_of(mode, examination, h).propensities(DATA) for h in (0.0, holdout))
    production = np.zeros((last - first, K))
    for ranking, chance in rankings(OLD[first:last], K):
        production[list(ranking), np.arange(K)] += chance
    if mode == "best":
        wanted = (1 - holdout) * alone[first:last] + holdout * production
        np.testing.assert_allclose(held[first:last], wanted, atol=1e-9)
    shares = [
        guard_of(mode, examination, holdout).arm(NEW[a:b], OLD[a:b], 0, query)[1]
        for query, (a, b) in enumerate(itertools.pairwise(DATA.offsets))
    ]
    assert max(shares) <= 1 - holdout + 1e-12
    same = Guard(OLD, OLD, weights=W, mode=mode, examination=examination, holdout=holdout)
    assert same.arm(OLD[first:last], OLD[first:last], 0, 0)[1] == pytest.approx(1 - holdout)


@pytest.mark.parametrize(("mode", "examination"), MODES)
def test_sessions_are_drawn_as_the_propensities_say(mode, examination):
    guard = guard_of(mode, examination, 0.25)
    first, last = DATA.offsets[:2]
    table, sessions = guard.propensities(DATA)[first:last], 4000
    seen, new = np.zeros(table.shape), 0
    for session in range(sessions):
        served = guard.serve_query(NEW[first:last], OLD[first:last], K, session, "q")
        seen[served.positions, np.arange(K)] += 1
        new += served.is_new
    expected = sessions * table
    often = expected > 5
    chi = ((seen - expected)[often] ** 2 / (expected * (1 - table))[often]).mean()
    assert stats.norm.sf((chi - 1) * np.sqrt(often.sum() / 2)) > 1e-4
    assert abs(new - sessions * served.share) < 4 * np.sqrt(sessions * 0.25)


def test_the_promise_is_kept_all_the_more():
    for mode, examination in MODES[::2]:
        guard = guard_of(mode, examination, 0.4)
        omega0 = np.concatenate(
            [
                sum(
                    chance * np.bincount(ranking, W, last - first)
                    for ranking, chance in rankings(OLD[first:last], K)
                )
                for first, last in itertools.pairwise(DATA.offsets)
            ]
        )
        loss = np.add.reduceat(
            np.maximum(0, 0.9 * omega0 - guard.exposure(DATA)), DATA.offsets[:-1]
        )
        assert np.all(loss <= 0.01 * W.sum() + 1e-8)


def test_a_hold_out_is_a_part_of_the_guard():
    with pytest.raises(InputError, match="--guard"):
        Rule(holdout=0.1)
    with pytest.raises(InputError, match="`holdout` must be in"):
        guard_of("best", "fitted", 1.0)
