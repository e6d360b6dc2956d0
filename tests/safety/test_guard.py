import numpy as np
import pytest

from saferank.data import RankingData, synthetic
from saferank.errors import InputError
from saferank.plackett_luce import deterministic_exposure, exposure
from saferank.safety import Guard, Promise

W = np.array([1.0, 0.6, 0.3, 0.2, 0.1])
WORLD = synthetic("small", queries=60, seed=1)


def new(data):
    return 2.0 * data.features[:, 0].astype(float).clip(-3, 3)


def production(data):
    return 1.5 * data.features[:, 1].astype(float).clip(-3, 3)


def losses(omega, omega0, offsets, kappa):
    gap = np.maximum(0, kappa * omega0 - omega)
    return np.add.reduceat(gap, offsets[:-1])


@pytest.mark.parametrize("deployed", ["sampled", "sorted"])
@pytest.mark.parametrize(("keep", "slack"), [(0.9, 0.01), (1.0, 0.0), (0.5, 0.0), (0.0, 0.0)])
def test_every_query_keeps_the_promise_unseen_ones_too(deployed, keep, slack):
    guard = Guard(new, production, Promise(keep, slack), weights=W, mode="mix", deployed=deployed)
    exposed = exposure if deployed == "sampled" else deterministic_exposure
    for data in (WORLD.train, WORLD.test):
        omega0 = exposed(production(data), W, data.offsets)
        omega = exposed(new(data), W, data.offsets)
        share = np.repeat(guard.mixing(data), data.sizes)
        mixed = share * omega + (1 - share) * omega0
        assert guard.exposure(data) == pytest.approx(mixed, abs=1e-12)
        total = np.array([W[:size].sum() for size in data.sizes])
        lost = losses(mixed, omega0, data.offsets, keep)
        assert np.all(lost <= slack * total + 2e-9)
        # and no share could be larger: a little more breaks it
        more = np.minimum(1, share + 1e-4)
        beyond = losses(more * omega + (1 - more) * omega0, omega0, data.offsets, keep)
        limited = guard.mixing(data) < 1 - 1e-4
        assert np.all(beyond[limited] > slack * total[limited])


@pytest.mark.parametrize("mode", ["best", "mix"])
def test_no_relevance_breaks_the_guarded_promise(mode):
    guard = Guard(new, production, Promise(0.9, 0.01), weights=W, mode=mode)
    data, rng = WORLD.test, np.random.default_rng(0)
    omega, omega0 = guard.exposure(data), exposure(production(data), W, data.offsets)
    total = np.array([W[:size].sum() for size in data.sizes])
    adversary = (0.9 * omega0 > omega).astype(float)
    for relevance in [adversary, *(rng.random((200, data.documents)) ** 4)]:
        after = np.add.reduceat(omega * relevance, data.offsets[:-1])
        before = np.add.reduceat(omega0 * relevance, data.offsets[:-1])
        assert np.all(after >= 0.9 * before - 0.01 * total - 2e-9)


def test_sessions_are_served_at_the_right_frequencies_and_always_alike():
    data = WORLD.train.subset(np.arange(8))
    guard = Guard(new, production, Promise(0.9, 0.02), weights=W, mode="mix")
    share = guard.mixing(data)
    served = np.mean([guard.serves_new(data, session) for session in range(1500)], axis=0)
    error = np.sqrt(share * (1 - share) / 1500)
    assert np.all(np.abs(served - share) <= 4.5 * error + 1e-12)
    again = Guard(new, production, Promise(0.9, 0.02), weights=W, mode="mix")
    assert np.array_equal(guard.serves_new(data, "x"), again.serves_new(data, "x"))
    other = Guard(new, production, Promise(0.9, 0.02), weights=W, mode="mix", salt="other")
    assert any(
        not np.array_equal(guard.serves_new(data, s), other.serves_new(data, s)) for s in range(50)
    )


@pytest.mark.parametrize("mode", ["best", "mix"])
@pytest.mark.parametrize("examination", ["fitted", "any"])
def test_what_is_shown_has_the_guarded_exposure(mode, examination):
    data = WORLD.train.subset(np.arange(3))
    promise = Promise(0.9, 0.02)
    guard = Guard(new, production, promise, weights=W, mode=mode, examination=examination)
    shown = np.zeros(data.documents)
    sessions = 1500
    for session in range(sessions):
        ranking = guard.rank(data, 5, session)
        for rank in range(5):
            shown[ranking[:, rank][ranking[:, rank] >= 0]] += W[rank]
    assert shown / sessions == pytest.approx(guard.exposure(data), abs=4.5 * 0.5 / sessions**0.5)
    assert np.array_equal(guard.rank(data, 5, "a"), guard.rank(data, 5, "a"))
    # a query is served the same way whatever stands beside it
    alone = guard.rank(data.subset([2]), 5, "a")
    assert np.array_equal(alone[0] + data.offsets[2], guard.rank(data, 5, "a")[2])


@pytest.mark.parametrize("mode", ["best", "mix"])
def test_the_report_tells_what_the_guard_costs(mode):
    data = WORLD.train
    guard = Guard(new, production, Promise(0.9, 0.01), weights=W, mode=mode)
    gain = np.random.default_rng(0).random(data.documents)
    traffic = np.arange(1, data.queries + 1)
    report = guard.report(data, traffic=traffic, gain=gain)
    omega, omega0 = (exposure(f(data), W, data.offsets) for f in (new, production))
    share = np.repeat(traffic / traffic.sum(), data.sizes)
    assert report.gain == pytest.approx(share @ ((omega - omega0) * gain))
    assert report.cost == pytest.approx(share @ ((omega - guard.exposure(data)) * gain))
    assert report.share == np.mean(guard.mixing(data) < 1)
    assert "gives up" in report.sentence()
    assert guard.report(data).cost is None


def test_new_like_production_is_left_alone():
    def shifted(data):
        return production(data) + 3

    guard = Guard(shifted, production, Promise(1.0, 0.0), weights=W, mode="mix")
    assert np.all(guard.mixing(WORLD.test) == 1)


def test_bad_input_gets_one_sentence():
    with pytest.raises(InputError, match="keep"):
        Guard(new, production, Promise(keep=2))
    with pytest.raises(InputError, match="production"):
        Guard(new).mixing(RankingData(np.eye(2), [0, 2]))
    with pytest.raises(InputError, match="`k`"):
        Guard(new, production).rank(WORLD.test, 0, "s")
