import numpy as np
import pytest

from saferank.clicks import simulate, trust_bias
from saferank.data import synthetic
from saferank.errors import InputError
from saferank.evaluation import evaluate
from saferank.evaluation.intervals import QueryScores
from saferank.safety import certify, genspec, high_confidence, unconditional, verdict

DATA = synthetic("small", queries=80, seed=1).train
USERS = trust_bias()
OLD = np.zeros(DATA.documents)
GOOD = DATA.labels.astype(float)
COUNTS = simulate(DATA, OLD, USERS, sessions=30_000, seed=2, judge=0)


def differences(mean, error, queries=100):
    means = mean + error * np.sqrt(queries) * np.where(np.arange(queries) % 2, 1, -1)
    ones = np.ones(queries)
    return QueryScores(
        np.full(queries, 10), means, ones, -9 * ones, 9 * ones, 9 * ones, variance_from="ranks"
    )


def test_sea_ships_when_the_lower_bound_is_above_minus_the_tolerance():
    assert high_confidence(differences(0.2, 0.1)).ship  # 0.2 - 1.645 * 0.1 > 0
    assert not high_confidence(differences(0.1, 0.1)).ship
    assert high_confidence(differences(0.1, 0.1), tolerance=0.1).ship
    assert not high_confidence(differences(0.2, 0.1), method="cantelli").ship
    with pytest.raises(InputError, match="tolerance"):
        high_confidence(differences(0, 1), tolerance=-1)


def test_the_promise_decides_unless_clicks_speak_against_it():
    safe, unsafe = (certify(new, DATA, production=OLD) for new in (OLD + 0.001 * GOOD, 3 * GOOD))
    assert unconditional(safe).ship
    assert not unconditional(unsafe).ship
    guarded = unconditional(unsafe, guard=True)
    assert guarded.ship
    assert guarded.guard == 0.9
    assert guarded.sentence.startswith("Ship with guard 0.9: ")
    better, worse = (
        evaluate(new, DATA, COUNTS, USERS, production=OLD) for new in (3 * GOOD, -3 * GOOD)
    )
    assert verdict(unsafe, better, by="clicks").ship
    assert verdict(unsafe, better, guard=True).ship
    assert not verdict(unsafe, better).ship
    against = verdict(unsafe, worse, guard=True)
    assert not against.ship
    assert against.rule == "clicks"
    assert all(decision.assumes for decision in (guarded, against))
    with pytest.raises(InputError, match="counts"):
        verdict(safe, by="clicks")


def test_genspec_specialises_where_the_querys_own_clicks_warrant():
    busy = np.arange(DATA.queries) < 40
    counts = simulate(
        DATA, OLD, USERS, sessions=200_000, seed=3, weights=np.where(busy, 100.0, 1.0), judge=0
    )
    found = genspec(0.5 * GOOD, 6 * GOOD, DATA, counts, USERS, production=OLD, method="normal")
    assert np.mean(found.choice[busy] == 2) > 0.6
    assert np.all(found.choice[found.choice != 2] == 1)
    bad = genspec(-2 * GOOD, -3 * GOOD, DATA, counts, USERS, production=OLD, method="normal")
    assert np.mean(bad.choice == 0) > 0.9
    assert sum(found.shares) == pytest.approx(1)
