"""The best policies under a promise against linear programs over all rankings, and their draws."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import linprog

from saferank.errors import InputError
from saferank.plackett_luce import exposure, rank_probabilities
from saferank.safety.best_policy import best_exposures, by_gain, largest_first
from saferank.safety.decomposition import decompose
from saferank.safety.open_shop import draw_ranking
from saferank.safety.prefix_policy import best_rank_tables

SHAPES = ("steep", "equal steps", "flat", "zeros", "any order")


def rank_weights(rng, shape, k):
    if shape == "steep":
        return 1 / np.arange(1, k + 1)
    if shape == "equal steps":
        return np.arange(k, 0, -1.0)
    if shape == "flat":
        return np.ones(k)
    if shape == "zeros":
        return np.where(np.arange(k) < max(1, k // 2), 1.0, 0.0)
    return rng.random(k) + 0.01


def vertices(weights, documents):
    """Exposures of every ranking: rankings x documents."""
    rows = []
    for ranking in itertools.permutations(range(documents)):
        row = np.zeros(documents)
        for weight, document in zip(weights, ranking, strict=False):
            row[document] = weight
        rows.append(row)
    return np.array(rows)


def by_linear_program(gains, exposed, looks, before, keep, allowed):
    """The most gain of any mixture of rankings; `looks` are exposures by way of looking."""
    rankings, (ways, documents) = exposed.shape[0], before.shape
    size = rankings + ways * documents
    short, bound = [], []
    for way in range(ways):
        rows = np.zeros((documents, size))
        rows[:, :rankings] = -looks[way].T
        rows[:, rankings + way * documents : rankings + (way + 1) * documents] = -np.eye(documents)
        sums = np.zeros((1, size))
        sums[0, rankings + way * documents : rankings + (way + 1) * documents] = 1
        short += [rows, sums]
        bound += [-keep * before[way], [allowed[way]]]
    cost = np.concatenate([-(exposed @ gains), np.zeros(ways * documents)])
    one = np.concatenate([np.ones(rankings), np.zeros(ways * documents)])[None]
    found = linprog(cost, np.concatenate(short), np.concatenate(bound), one, [1.0], method="highs")
    assert found.status == 0
    return -found.fun


def case(seed):
    rng = np.random.default_rng(seed)
    documents, k = int(rng.integers(1, 6)), int(rng.integers(1, 7))
    weights = rank_weights(rng, SHAPES[seed % len(SHAPES)], k)
    gains = rng.normal(size=documents)
    if seed % 3 == 0:  # ties
        gains = np.round(gains)
    shown = vertices(weights, documents)
    mixture = rng.dirichlet(np.full(len(shown), 0.1))
    if seed % 4 == 0:  # production sorts: many exposures are 0
        mixture = np.eye(len(shown))[rng.integers(len(shown))]
    keep, slack = rng.choice([0.0, 0.5, 0.9, 1.0]), rng.choice([0.0, 0.01, 0.1, 1.0])
    return weights, gains, shown, mixture, float(keep), float(slack)


def rankings_of(omega, gains, weights):
    """Shares and rankings of the decomposition, and the ranks that its places stand for."""
    ranks, own = largest_first(weights, omega.size)
    shares, rankings = np.zeros(omega.size), np.zeros((omega.size, own.size), dtype=np.int64)
    count = decompose(omega, by_gain(gains, omega), own, shares, rankings)
    return shares[:count], rankings[:count], ranks, own


@pytest.mark.parametrize("seed", range(200))
def test_no_mixture_of_rankings_gains_more(seed):
    weights, gains, shown, mixture, keep, slack = case(seed)
    omega0 = mixture @ shown
    allowed = slack * weights[: gains.size].sum()
    omega = best_exposures(
        gains, omega0, np.array([0, gains.size]), weights, keep, np.array([allowed])
    )
    most = by_linear_program(gains, shown, shown[None], omega0[None], keep, [allowed])
    assert gains @ omega == pytest.approx(most, abs=1e-9)
    assert np.maximum(0, keep * omega0 - omega).sum() <= allowed + 1e-12
    shares, rankings, _, own = rankings_of(omega, gains, weights)
    assert len(shares) <= gains.size
    check_exposures(omega, shares, rankings, own)


def check_exposures(omega, shares, rankings, own):
    back = np.zeros(omega.size)
    np.add.at(back, rankings, shares[:, None] * own)
    assert back == pytest.approx(omega, abs=1e-12)
    assert shares.sum() == pytest.approx(1, abs=1e-12)
    assert shares.min() >= 0
    ordered = np.sort(rankings, axis=1)
    assert np.all(ordered[:, 1:] > ordered[:, :-1])


@pytest.mark.parametrize("seed", range(300))
def test_a_mixture_has_tiny_and_nearly_equal_exposures(seed):
    """Exposures of mixtures with tiny shares, drawn together until they are all but equal."""
    rng = np.random.default_rng(seed)
    documents, k = int(rng.integers(2, 10)), int(rng.integers(1, 8))
    weights = [rng.random(k), np.ones(k), 10.0 ** -rng.integers(0, 15, k), rng.integers(0, 3, k)]
    own = np.append(weights[seed % 4], 1.0)[:documents].astype(float)
    shares = 10.0 ** -rng.uniform(0, 18, 6)
    omega = np.zeros(documents)
    for share in shares / shares.sum():
        omega[rng.permutation(documents)[: own.size]] += share * own
    for nearness in rng.choice([0.5, 0.5 + 1e-14, 1e-10, 1e-13, 1e-16], 6):
        pair = rng.choice(documents, 2, replace=False)
        omega[pair] = (1 - nearness) * omega[pair] + nearness * omega[pair[::-1]]
    shares, rankings, _, largest = rankings_of(omega, rng.normal(size=documents).round(), own)
    check_exposures(omega, shares, rankings, largest)


@pytest.mark.parametrize("seed", range(120))
def test_for_every_way_of_looking_little_is_left_and_without_slack_nothing(seed):
    _, gains, _, mixture, keep, slack = case(seed)
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 6))
    ranks = min(k, gains.size)
    weights = np.sort(rng.random(k))[::-1]
    prefixes = [vertices(np.arange(k) < j + 1, gains.size) for j in range(ranks)]
    looks = np.array(prefixes, dtype=float)
    before = np.einsum("r,jrd->jd", mixture, looks)
    table0 = np.diff(before, axis=0, prepend=0).T
    cuts = np.array([0, gains.size])
    table = best_rank_tables(gains, np.ascontiguousarray(table0), cuts, keep, slack)
    assert table.sum(axis=0) == pytest.approx(1)
    assert table.sum(axis=1).max() <= 1 + 1e-12
    reached = np.cumsum(table, axis=1).T
    allowed = slack * np.arange(1, ranks + 1)
    lost = np.maximum(0, keep * before - reached).sum(axis=1)
    assert np.all(lost <= allowed + 1e-12)
    exposed = vertices(weights, gains.size)
    most = by_linear_program(gains, exposed, looks, before, keep, allowed)
    ours, old = gains @ (table @ weights[:ranks]), gains @ (table0 @ weights[:ranks])
    assert ours <= most + 1e-9
    if slack == 0:
        assert ours == pytest.approx(most, abs=1e-9)
    assert ours - old >= 0.9 * (most - old) - 1e-9


def test_hard_cases():
    cuts = np.array([0, 3])
    w, none = np.array([1.0, 0.5]), np.array([0.0])
    omega0 = exposure([1.0, 0.0, -1.0], w, cuts)
    equal = best_exposures(np.zeros(3), omega0, cuts, w, 0.9, none)
    assert np.all(equal >= 0.9 * omega0 - 1e-12)
    kept = best_exposures(np.array([0.0, 1.0, 2.0]), omega0, cuts, w, 1.0, none)
    assert kept == pytest.approx(omega0, abs=1e-9)
    free = best_exposures(np.array([0.0, 1.0, 2.0]), omega0, cuts, w, 0.0, none)
    assert free == pytest.approx([0, 0.5, 1])
    for function in (
        lambda g: best_exposures(g, omega0, cuts, w, 0.9, none),
        lambda g: best_rank_tables(g, np.zeros((3, 2)), cuts, 0.9, 0.01),
    ):
        with pytest.raises(InputError, match="`gains` must be finite"):
            function(np.array([0.0, np.nan, 1.0]))


@pytest.mark.parametrize("spread", [0.0, 1.0, 10.0])
def test_ten_thousand_documents(spread):
    rng = np.random.default_rng(0)
    documents, w = 10_000, 1 / np.log2(np.arange(10) + 2.0)
    cuts = np.array([0, documents])
    scores, gains = spread * rng.normal(size=documents), rng.normal(size=documents)
    omega0, slack = exposure(scores, w, cuts), 0.01
    omega = best_exposures(gains, omega0, cuts, w, 0.9, slack * w.sum()[None])
    assert np.maximum(0, 0.9 * omega0 - omega).sum() <= slack * w.sum() + 1e-12
    shares, rankings, _, own = rankings_of(omega, gains, w)
    assert len(shares) <= documents
    check_exposures(omega, shares, rankings, own)


@given(st.integers(0, 10**6))
@settings(deadline=None, max_examples=100)
def test_a_promise_with_more_room_never_gains_less(seed):
    rng = np.random.default_rng(seed)
    documents, k = int(rng.integers(1, 30)), int(rng.integers(1, 12))
    w, cuts = np.sort(rng.random(k))[::-1].copy(), np.array([0, documents])
    gains = rng.normal(size=documents)
    omega0 = exposure(3 * rng.normal(size=documents), w, cuts)
    total = w[:documents].sum()
    values = [
        gains @ best_exposures(gains, omega0, cuts, w, keep, np.array([slack * total + 1e-9]))
        for keep, slack in ((1.0, 0.0), (0.9, 0.0), (0.9, 0.01), (0.5, 0.01), (0.5, 0.2))
    ]
    assert np.all(np.diff(values) >= -1e-8)


@pytest.mark.parametrize(
    ("documents", "k", "spread"), [(1, 3, 1), (4, 6, 1), (9, 3, 0), (40, 5, 2), (40, 10, 8)]
)
def test_rankings_are_drawn_as_the_table_says(documents, k, spread):
    rng = np.random.default_rng(documents)
    cuts = np.array([0, documents])
    table0 = rank_probabilities(spread * rng.normal(size=documents), k, cuts)
    ranks = min(k, documents)
    table = best_rank_tables(rng.normal(size=documents), table0, cuts, 0.8, 0.01)[:, :ranks].copy()
    sessions, ranking = 4000, np.empty(ranks, dtype=np.int64)
    seen = np.zeros(table.shape)
    for _ in range(sessions):
        draw_ranking(table, rng.random(), rng.random(ranks), ranking)
        assert len(set(ranking.tolist())) == ranks
        seen[ranking, np.arange(ranks)] += 1
    assert not seen[table == 0].any()
    for rank in range(ranks):
        expected = sessions * table[:, rank]
        often = expected > 5
        both = np.append(seen[often, rank], seen[~often, rank].sum())
        against = np.append(expected[often], expected[~often].sum())
        both, against = both[against > 0], against[against > 0]
        if both.size > 1:
            chi = ((both - against) ** 2 / against).sum()
            assert stats.chi2.sf(chi, both.size - 1) > 1e-4
