"""The best policy behind the guard: its promise, its gain, its draws and its propensities."""

import itertools

import numpy as np
import pytest
from scipy import stats

from saferank.data import RankingData, synthetic
from saferank.errors import InputError
from saferank.plackett_luce import rank_probabilities
from saferank.safety import Guard, Promise
from saferank.safety.guarded import Mode

W = np.array([1.0, 0.6, 0.3, 0.2, 0.1])
K = W.size
DATA = synthetic("small", queries=60, seed=1).train
RNG = np.random.default_rng(0)
NEW, OLD = 2 * RNG.normal(size=DATA.documents), 1.5 * RNG.normal(size=DATA.documents)


def guard_of(mode, examination, promise=Promise(0.9, 0.01), **options):  # noqa: B008
    return Guard(
        NEW, OLD, promise, weights=W, mode=mode, examination=examination, **options
    )  # fmt: skip


def prefix_losses(table, table0, keep):
    """eta_j of each query: queries x ranks."""
    gap = np.maximum(0, keep * np.cumsum(table0, axis=1) - np.cumsum(table, axis=1))
    return np.add.reduceat(gap, DATA.offsets[:-1])


def sorted_table():
    table = np.zeros((DATA.documents, K))
    for first, last in itertools.pairwise(DATA.offsets):
        ranked = first + np.argsort(-OLD[first:last], kind="stable")[:K]
        table[ranked, np.arange(ranked.size)] = 1
    return table


def uniform_table():
    size = np.repeat(DATA.sizes, DATA.sizes)[:, None]
    return np.where(np.arange(K) < size, 1 / size, 0.0)


TABLES = {
    "sampled": lambda: rank_probabilities(OLD, K, DATA.offsets),
    "sorted": sorted_table,
    "uniform": uniform_table,
}


@pytest.mark.parametrize("mode", ["best", "mix"])
@pytest.mark.parametrize("keep", [0.0, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("slack", [0.0, 0.01])
@pytest.mark.parametrize("kind", ["sampled", "sorted", "uniform"])
def test_every_way_of_looking_is_kept(mode, keep, slack, kind):
    guard = guard_of(mode, "any", Promise(keep, slack), production_kind=kind)
    table0 = TABLES[kind]()
    lost = prefix_losses(guard.propensities(DATA), table0, keep)
    allowed = slack * np.minimum(np.arange(1, K + 1), DATA.sizes[:, None])
    assert np.all(lost <= allowed + 3e-9)


@pytest.mark.parametrize("examination", ["fitted", "any"])
@pytest.mark.parametrize("promise", [Promise(0.9, 0.01), Promise(0.5, 0.0), Promise(1, 0)])
def test_the_best_policy_gains_no_less_than_the_mixture_by_what_it_maximises(examination, promise):
    best, mix = (guard_of(mode, examination, promise) for mode in ("best", "mix"))
    gains = rank_probabilities(NEW, K, DATA.offsets) @ W
    more = np.add.reduceat(gains * (best.exposure(DATA) - mix.exposure(DATA)), DATA.offsets[:-1])
    if examination == "fitted" or promise.slack == 0:
        assert more.min() >= -1e-8
    assert more.mean() >= -1e-8


def test_gains_can_be_given_and_must_be_numbers():
    worth = RNG.random(DATA.documents)
    ours = guard_of("best", "fitted", gains=worth).exposure(DATA)
    others = guard_of("best", "fitted").exposure(DATA)
    assert worth @ ours > worth @ others
    with pytest.raises(InputError, match="`gains` must be finite"):
        guard_of("best", "fitted", gains=np.full(DATA.documents, np.nan)).exposure(DATA)


def test_bad_choices_get_one_sentence():
    with pytest.raises(InputError, match="must be one of best, mix"):
        guard_of("half", "fitted")
    with pytest.raises(InputError, match="must be any, fitted, dcg or rank weights"):
        guard_of("best", "all")
    with pytest.raises(InputError, match="known from the log only"):
        guard_of("best", "any", production_kind="observed").propensities(DATA)


@pytest.mark.parametrize("mode", ["best", "mix"])
@pytest.mark.parametrize("examination", ["fitted", "any"])
def test_sessions_are_drawn_as_the_propensities_say(mode, examination):
    few = DATA.subset(np.arange(4))
    scores = {"new": NEW[: few.documents], "production": OLD[: few.documents]}
    guard = Guard(
        scores["new"],
        scores["production"],
        Promise(0.8, 0.02),
        weights=W,
        mode=mode,
        examination=examination,
    )
    table, sessions = guard.propensities(few), 1500
    seen = np.zeros(table.shape)
    for session in range(sessions):
        ranking = guard.rank(few, K, session)
        query, rank = np.nonzero(ranking >= 0)
        seen[ranking[query, rank], rank] += 1
        assert all(len(set(row[row >= 0])) == (row >= 0).sum() for row in ranking)
    expected = table * sessions
    often = expected > 5
    chi = ((seen - expected)[often] ** 2 / (expected * (1 - table) + 1e-9)[often]).mean()
    # cells of mean 1; they depend on each other a little
    assert stats.norm.sf((chi - 1) * np.sqrt(often.sum() / 2)) > 1e-4
    assert not seen[table <= 0].any()


def test_lists_longer_than_the_promise_go_on_by_gain():
    guard = guard_of("best", "fitted")
    longer, shorter = guard.rank(DATA, K + 3, "u"), guard.rank(DATA, 2, "u")
    assert np.array_equal(longer[:, :2], shorter)
    assert all(len(set(row[row >= 0])) == (row >= 0).sum() for row in longer)
    assert np.array_equal((longer >= 0).sum(axis=1), np.minimum(DATA.sizes, K + 3))


@pytest.mark.parametrize("examination", ["fitted", "any"])
def test_hard_queries(examination):
    """One document, fewer than ranks, ties, none at all."""
    data = RankingData(np.zeros((8, 1)), [0, 1, 4, 4, 8])
    guard = Guard(np.zeros(8), np.zeros(8), weights=W, examination=examination)
    ranked = guard.rank(data, 5, "s")
    assert (ranked >= 0).sum(axis=1).tolist() == [1, 3, 0, 4]
    assert guard.propensities(data)[0].tolist() == [1, 0, 0, 0, 0]
    assert np.all(guard.mixing(data) == 1)


def check_random(cases, seed):
    """Violations of (keep, slack) among random queries, relevances and examinations."""
    rng = np.random.default_rng(seed)
    broken = 0
    cases_: list[tuple[float, float, Mode]] = [
        (0.9, 0.01, "best"), (0.5, 0.05, "best"), (0.8, 0.0, "mix"),
    ]  # fmt: skip
    for keep, slack, mode in cases_:
        queries = cases // 30  # of ten relevances and examinations each
        sizes = rng.integers(1, 15, size=queries)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        data = RankingData(np.zeros((offsets[-1], 1)), offsets)
        spread = np.repeat(rng.choice([0.1, 1, 3, 10], size=(2, queries)), sizes, axis=1)
        new, old = spread * rng.normal(size=(2, offsets[-1]))
        guard = Guard(new, old, Promise(keep, slack), weights=W, mode=mode, examination="any")
        table, table0 = guard.propensities(data), rank_probabilities(old, K, offsets)
        for _ in range(10):
            look = np.sort(rng.random((queries, K)) ** rng.choice([0.1, 1, 8]), axis=1)[:, ::-1]
            look *= np.arange(K) < rng.integers(1, K + 1, size=(queries, 1))
            own = np.repeat(look, sizes, axis=0)
            omega, omega0 = (table * own).sum(axis=1), (table0 * own).sum(axis=1)
            relevance = rng.random(offsets[-1]) ** rng.choice([0.2, 1, 5])
            worst = (keep * omega0 > omega).astype(float)
            relevance = np.where(rng.random(offsets[-1]) < 0.7, worst, relevance)
            before, after = (
                np.add.reduceat(exposed * relevance, offsets[:-1]) for exposed in (omega0, omega)
            )
            total = (look * (np.arange(K) < sizes[:, None])).sum(axis=1)
            broken += int((after < keep * before - slack * total - 3e-9 * look[:, 0]).sum())
    return broken


def test_no_relevance_and_no_examination_breaks_the_promise():
    assert check_random(10_000, seed=0) == 0


@pytest.mark.slow
def test_a_million_relevances_and_examinations():
    assert check_random(1_000_000, seed=1) == 0


@pytest.mark.parametrize("mode", ["best", "mix"])
@pytest.mark.parametrize("examination", ["fitted", "any"])
@pytest.mark.parametrize("kind", [None, "sorted", "uniform", "observed"])
def test_one_query_is_served_as_it_is_among_others(mode, examination, kind):
    guard = guard_of(mode, examination, production_kind=kind, production_temperature=0.7)
    names = DATA.ids()[0]
    for session in ("a", 7):
        whole = guard.rank(DATA, K, session)
        for query in range(12):
            own = slice(DATA.offsets[query], DATA.offsets[query + 1])
            alone = guard.rank_query(NEW[own], OLD[own], K, session, names[query])
            wanted = whole[query][whole[query] >= 0] - own.start
            np.testing.assert_array_equal(alone, wanted)
