"""The distribution of simulated counts against enumeration, and what they must not depend on."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from scipy import stats

from saferank._core.chance.streams import stream
from saferank._core.flat import Array, Floats
from saferank._core.threads import use_threads
from saferank.clicks import ClickModel, Users, cascade, position_bias, simulate, trust_bias
from saferank.clicks.simulation.shown_lists import ranking_counts
from saferank.clicks.simulation.simulating import sessions_of_queries
from saferank.clicks.simulation.tails import fill, new_tails
from saferank.clicks.users import adversarial, attacker, dependent_clicks
from saferank.data import RankingData, synthetic
from saferank.errors import InputError

PATHS = {"split": 0.0, "mixed": 8.0, "one by one": np.inf}
POLICIES = {
    "flat": [0.0, 0.0, 0.0, 0.0],
    "usual": [0.3, -0.5, 1.1, 0.0],
    "peaked": [6.0, 1.0, 0.5, -2.0],
    "two groups": [5.0, 5.0, -4.0, -4.0],
}


def data_of(sizes: list[int], seed: int = 0) -> tuple[RankingData, Floats]:
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    labels = rng.integers(0, 5, size=offsets[-1])
    data = RankingData(
        rng.normal(size=(offsets[-1], 2)),
        offsets,
        labels=labels,
        query_ids=np.array([f"q{index}" for index in range(len(sizes))]),
    )
    return data, rng.normal(size=offsets[-1])


def rankings_of(scores: Floats, k: int) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every ranking of k documents and its Plackett-Luce probability."""
    rate = np.exp(scores - scores.max())
    for ranking in itertools.permutations(range(scores.size), min(k, scores.size)):
        probability, left = 1.0, list(range(scores.size))
        for document in ranking:
            probability *= rate[document] / rate[left].sum()
            left.remove(document)
        yield ranking, probability


def chances(scores: Floats, k: int) -> Floats:
    table = np.zeros((scores.size, k))
    for ranking, probability in rankings_of(scores, k):
        for rank, document in enumerate(ranking):
            table[document, rank] += probability
    return table


def assert_close_to(found: Array, expected: Array, sessions: int) -> None:
    """No count is further from its expectation than chance allows (each is a binomial)."""
    spread = np.sqrt(sessions * expected * (1 - expected))
    assert np.all(np.abs(found - sessions * expected) <= 5 * spread + 5 * (expected > 0))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("k", [1, 3, 4, 6])
def test_mean_counts_are_those_of_enumeration(policy: str, path: str, k: int) -> None:
    scores = np.sort(POLICIES[policy])[::-1].copy()
    sessions = 100_000
    shown, _ = ranking_counts(scores, sessions, k, PATHS[path], stream(1, policy, path, k))
    assert_close_to(shown, chances(scores, k), sessions)
    assert shown.sum(axis=0).tolist() == [sessions if rank < 4 else 0 for rank in range(k)]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("path", PATHS)
def test_joint_distribution_of_few_sessions(policy: str, path: str) -> None:
    """Three sessions, top 2 of 3: the whole count table has the law of enumeration (chi-square)."""
    scores, sessions = np.sort(POLICIES[policy][:3])[::-1].copy(), 3
    law: dict[bytes, float] = {}
    for drawn in itertools.product(list(rankings_of(scores, 2)), repeat=sessions):
        table = np.zeros((3, 2), dtype=np.int64)
        for ranking, _ in drawn:
            for rank, document in enumerate(ranking):
                table[document, rank] += 1
        chance = float(np.prod([probability for _, probability in drawn]))
        law[table.tobytes()] = law.get(table.tobytes(), 0.0) + chance
    found = dict.fromkeys(law, 0)
    state, runs = stream(2, policy, path), 20_000
    for _ in range(runs):
        table, state = ranking_counts(scores, sessions, 2, PATHS[path], np.uint64(state))
        found[table.tobytes()] += 1
    expected = np.array([law[key] for key in law]) * runs
    seen = np.array([found[key] for key in law])
    usual = expected >= 5
    rare = expected[~usual].sum()
    assert seen[~usual].sum() <= rare + 5 * np.sqrt(rare) + 5
    statistic = ((seen - expected)[usual] ** 2 / expected[usual]).sum()
    assert stats.chi2.sf(statistic, max(1, usual.sum() - 1)) > 1e-4


@pytest.mark.parametrize("path", ["mixed", "one by one"])
def test_tables_of_larger_queries(path: str) -> None:
    """First and second rank of 40 documents in closed form."""
    scores = np.sort(np.random.default_rng(3).normal(0, 2, size=40))[::-1].copy()
    p = np.exp(scores) / np.exp(scores).sum()
    second = p * ((p / (1 - p)).sum() - p / (1 - p))
    sessions = 2_000_000
    shown, _ = ranking_counts(scores, sessions, 2, PATHS[path], stream(0, path))
    assert_close_to(shown, np.stack([p, second], axis=1), sessions)


def test_alias_tables_hold_the_weights() -> None:
    scores = np.sort(np.random.default_rng(0).normal(0, 3, size=17))[::-1].copy()
    tails = new_tails(scores, 4)
    for first in range(4):
        fill(tails, first)
        own = np.zeros(scores.size)
        for document in range(first, scores.size):
            own[document] += 1 - tails.foreign[first, document]
            own[tails.other[first, document]] += tails.foreign[first, document]
        weight = np.exp(scores[first:] - scores[first])
        np.testing.assert_allclose(
            own[first:] / (scores.size - first), weight / weight.sum(), rtol=1e-12, atol=1e-15
        )


@pytest.mark.parametrize("path", PATHS)
def test_no_spread_of_scores_is_too_large(path: str) -> None:
    scores = np.array([5000.0, 4000.0, 1e3, 1e3, -1e6])
    shown, _ = ranking_counts(scores, 1000, 5, PATHS[path], stream(0))
    assert shown[0, 0] == shown[1, 1] == shown[4, 4] == 1000
    assert shown[2, 2] + shown[3, 2] == 1000
    assert 400 < shown[2, 2] < 600


def clicks_of_enumeration(scores: Floats, relevance: Floats, users: Users) -> tuple[Floats, Floats]:
    """P(document at rank) and P(document at rank and clicked), for users with patience."""
    click = users.probability(relevance)
    shown, clicked = np.zeros((2, scores.size, users.ranks))
    patience = users.patience
    for ranking, probability in rankings_of(scores, users.ranks):
        looked = probability
        for rank, document in enumerate(ranking):
            p = click[document, rank]
            shown[document, rank] += probability
            clicked[document, rank] += looked * p
            if patience is not None:
                looked *= p * patience.after_click[rank] + (1 - p) * patience.after_skip[rank]
    return shown, clicked


@pytest.mark.parametrize(
    "users",
    [
        trust_bias(3),
        position_bias(2),
        adversarial(trust_bias(3)),
        attacker(np.array([True, False, False, True]), k=2),
        cascade(3, stop=0.8, noise=0.2),
        dependent_clicks([0.2, 0.5, 0.1]),
    ],
    ids=["trust", "position", "adversarial", "attacker", "cascade", "dcm"],
)
@pytest.mark.parametrize("policy", ["flat", "peaked"])
def test_clicks_are_those_of_enumeration(users: Users, policy: str) -> None:
    labels = np.array([0.0, 1.0, 2.0, 4.0])
    scores = np.array(POLICIES[policy])
    data = RankingData(np.zeros((4, 1)), [0, 4], labels=labels)
    sessions = 300_000
    counts = simulate(data, scores, users, sessions, seed=3)
    shown, clicked = clicks_of_enumeration(scores, labels / 4, users)
    assert_close_to(counts.impressions, shown, sessions)
    assert_close_to(counts.clicks, clicked, sessions)


def test_click_rate_is_affine_in_relevance() -> None:
    """E[ctr] = a R + b, with a and b of the same counts."""
    data, scores = data_of([8] * 40)
    model = trust_bias()
    counts = simulate(data, scores, model, 4_000_000, seed=5, highest_grade=4)
    a, b = counts.mean_weight(model.alpha), counts.mean_weight(model.beta)
    expected = a * data.known_labels / 4 + b
    sessions = np.repeat(counts.sessions, data.sizes)
    z = (counts.ctr() - expected) / np.sqrt(expected * (1 - expected) / sessions)
    assert np.abs(z).max() < 5
    assert stats.kstest(z, "norm").pvalue > 1e-4


def same(first: object, second: object) -> bool:
    fields = ("impressions", "clicks", "sessions")
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in fields)


@pytest.mark.parametrize("users", [trust_bias(4), cascade(4)], ids=["independent", "dependent"])
def test_order_of_queries_and_threads_change_no_bit(users: Users) -> None:
    data, scores = data_of([3, 30, 1, 12, 0, 7, 25, 2] * 5)
    task = {"users": users, "sessions": 200_000, "seed": 11, "highest_grade": 4}
    counts = simulate(data, scores, **task)  # type: ignore[arg-type]
    order = np.random.default_rng(0).permutation(data.queries)
    moved = data.subset(order)
    position = np.concatenate([np.arange(data.offsets[q], data.offsets[q + 1]) for q in order])
    assert same(simulate(moved, scores[position], **task), counts.subset(order))  # type: ignore[arg-type]
    for threads in (1, 4):
        with use_threads(threads):
            assert same(simulate(data, scores, **task), counts)  # type: ignore[arg-type]
    task["seed"] = 12
    assert not same(simulate(data, scores, **task), counts)  # type: ignore[arg-type]


def test_the_same_seed_shows_the_same_rankings_to_other_users() -> None:
    data, scores = data_of([10] * 5)
    first = simulate(data, scores, trust_bias(), 10_000, seed=0)
    second = simulate(data, scores, position_bias(), 10_000, seed=0)
    np.testing.assert_array_equal(first.impressions, second.impressions)


@pytest.mark.parametrize("users", [trust_bias(3), cascade(3)], ids=["independent", "dependent"])
def test_deterministic_rankings(users: Users) -> None:
    data = RankingData(np.zeros((4, 1)), [0, 4], labels=[0, 1, 0, 1])
    counts = simulate(data, [1.0, 3.0, 0.0, 1.0], users, 50, seed=0, deterministic=True, k=2)
    assert counts.impressions.tolist() == [[0, 50], [50, 0], [0, 0], [0, 0]]


def test_temperature_divides_scores() -> None:
    data, scores = data_of([6] * 3)
    cold = simulate(data, scores, trust_bias(), 1000, seed=0, temperature=0.25)
    assert same(cold, simulate(data, scores * 4, trust_bias(), 1000, seed=0))
    frozen = simulate(data, scores, trust_bias(), 1000, seed=0, temperature=1e-6)
    still = simulate(data, scores, trust_bias(), 1000, seed=0, deterministic=True)
    np.testing.assert_array_equal(frozen.impressions, still.impressions)


def test_sessions_fall_on_queries_by_weight() -> None:
    data, _ = data_of([2, 3, 0, 4, 5])
    numbers = sessions_of_queries(data, 1_000_000, 0, [1, 2, 5, 0, 1])
    assert numbers.sum() == 1_000_000
    assert numbers[2] == numbers[3] == 0
    assert_close_to(numbers, np.array([0.25, 0.5, 0, 0, 0.25]), 1_000_000)
    uniform = sessions_of_queries(data, 1_000_000, 0)
    assert_close_to(uniform, np.array([0.25, 0.25, 0, 0.25, 0.25]), 1_000_000)


def test_highest_grade_defaults_to_the_largest_label() -> None:
    data = RankingData(np.zeros((2, 1)), [0, 2], labels=[0, 2])
    users = ClickModel([1.0, 1.0], [0.0, 0.0])
    assert simulate(data, [0, 0], users, 100, seed=0).clicks[1].sum() == 100
    half = simulate(data, [0, 0], users, 10_000, seed=0, highest_grade=4).clicks[1].sum()
    assert 4700 < half < 5300
    unjudged = RankingData(np.zeros((2, 1)), [0, 2], labels=[0, 0])
    assert simulate(unjudged, [0, 0], users, 100, seed=0).clicks.sum() == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sessions": -1}, "sessions"),
        ({"sessions": 2.5}, "sessions"),
        ({"sessions": 10**16}, "sessions"),
        ({"scores": [1.0, 2.0]}, "scores"),
        ({"scores": [1.0, float("nan"), 0.0]}, "scores"),
        ({"temperature": 0.0}, "temperature"),
        ({"k": 9}, "k"),
        ({"weights": [0.0, 0.0]}, "weights"),
        ({"weights": [1.0]}, "weights"),
        ({"weights": [1.0, -1.0]}, "weights"),
        ({"highest_grade": 1.0}, "labels"),
    ],
)
def test_bad_options_of_a_simulation_are_refused(options: dict[str, object], words: str) -> None:
    data = RankingData(np.zeros((3, 1)), [0, 2, 3], labels=[0, 1, 2])
    task = {"scores": [1.0, 2.0, 3.0], "users": trust_bias(), "sessions": 10, "seed": 0, **options}
    with pytest.raises(InputError, match=words):
        simulate(data, **task)  # type: ignore[arg-type]


def test_no_sessions_and_no_queries() -> None:
    data, scores = data_of([3, 4])
    assert simulate(data, scores, trust_bias(), 0, seed=0).total == 0
    empty = RankingData(np.zeros((0, 1)), [0], labels=np.zeros(0))
    assert simulate(empty, np.zeros(0), trust_bias(), 0, seed=0).queries == 0


def test_labels_are_needed() -> None:
    with pytest.raises(InputError, match="labels"):
        simulate(RankingData(np.zeros((1, 1)), [0, 1]), [0.0], trust_bias(), 1, seed=0)


@pytest.mark.parametrize(
    ("users", "fingerprint"),
    [
        (trust_bias(4), "96fa3ee43df2d3b4d5d756e3e60db6c7"),
        (cascade(4), "624f087e0e4200855e13e3346208ceb3"),
    ],
    ids=["independent", "dependent"],
)
def test_without_a_judge_part_the_bits_are_those_of_before(users: Users, fingerprint: str) -> None:
    """Fingerprints of the counts before simulation knew of parts."""
    data = synthetic("small", queries=20, seed=0).train
    scores = np.linspace(0, 3, data.documents)
    counts = simulate(data, scores, users, 20_000, seed=5, highest_grade=4, judge=0)
    assert counts.judge is None
    assert counts.fingerprint() == fingerprint


@pytest.mark.parametrize("users", [trust_bias(4), cascade(4)], ids=["independent", "dependent"])
def test_the_judge_part_is_a_binomial_share_of_other_sessions(users: Users) -> None:
    data, scores = data_of([3, 30, 1, 12, 7, 25, 2] * 30)
    task = {"users": users, "sessions": 200_000, "seed": 11, "highest_grade": 4}
    all_of_them = simulate(data, scores, judge=0, **task)  # type: ignore[arg-type]
    for share in (0.2, 0.7):
        counts = simulate(data, scores, judge=share, **task)  # type: ignore[arg-type]
        np.testing.assert_array_equal(counts.sessions, all_of_them.sessions)
        judged = counts.part("judge").sessions
        expected = counts.sessions * share
        z = (judged - expected) / np.sqrt(expected * (1 - share))
        assert abs(z.mean()) < 4 / np.sqrt(z.size)
        assert abs(z.var() - 1) < 4 * np.sqrt(2 / z.size)
        for name in ("learn", "judge"):
            part = counts.part(name)
            rate, whole = (c.clicks.sum() / c.impressions.sum() for c in (part, all_of_them))
            assert abs(rate - whole) < 5 * np.sqrt(whole / part.impressions.sum())


def test_parts_are_of_independent_sessions() -> None:
    """Clicks of one cell in both parts, over many seeds: no correlation."""
    data = RankingData(np.zeros((2, 1)), [0, 2], labels=[0, 1])
    clicks = []
    for seed in range(2000):
        counts = simulate(data, [0.0, 0.0], trust_bias(1), 100, seed=seed, judge=0.5)
        learn, judge = counts.part("learn"), counts.part("judge")
        rates = [part.clicks[0, 0] / max(1, part.impressions[0, 0]) for part in (learn, judge)]
        clicks.append(rates)
    assert abs(np.corrcoef(np.array(clicks).T)[0, 1]) < 4 / np.sqrt(len(clicks))
