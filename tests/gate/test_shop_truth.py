"""The referee against brute force: every ranking, every click, on tiny shops."""

import itertools
import math

import numpy as np
import pytest
import worlds

from benchmarks.shops import Lists, Mixture, Shop, Table, Truth, build, in_order, sampled
from benchmarks.shops.lists import Maker, rank_probabilities, sorted_rankings
from benchmarks.shops.users import ByPosition, Cascade

OFFSETS = np.array([0, 4, 7])
SCORES = np.array([0.3, -1.0, 2.0, 0.3, 5.0, 0.0, -4.0])
RELEVANCE = np.array([0.9, 0.1, 0.4, 0.0, 0.7, 1.0, 0.2])
USERS = ByPosition(np.array([0.8, 0.5, 0.2]), np.array([0.1, 0.05, 0.0]))


def truth(users=USERS, production=None, traffic=(0.25, 0.75)):
    policy = production or in_order(SCORES)
    return Truth(OFFSETS, RELEVANCE, users, policy, np.array(traffic), 3)


def enumerated(scores, k):
    """P(document at rank) of Plackett-Luce over one query."""
    table = np.zeros((len(scores), k))
    for ranking, probability in worlds.rankings(scores, k):
        table[list(ranking), range(len(ranking))] += probability
    return table


@pytest.mark.parametrize("temperature", [0.2, 1.0, 2.0])
def test_plackett_luce_is_that_of_all_rankings(temperature):
    found = rank_probabilities(SCORES, OFFSETS, 3, scale=temperature)
    parts = [enumerated(s / temperature, 3) for s in (SCORES[:4], SCORES[4:])]
    np.testing.assert_allclose(found, np.vstack(parts), atol=1e-12)


def test_two_documents_with_normal_noise():
    found = rank_probabilities(np.array([1.0, 0.4]), np.array([0, 2]), 1, noise="normal", scale=0.7)
    above = 0.5 * math.erfc(-0.6 / (0.7 * math.sqrt(2)) / math.sqrt(2))
    np.testing.assert_allclose(found[:, 0], [above, 1 - above], atol=1e-12)


@pytest.mark.parametrize("noise", ["gumbel", "normal"])
def test_long_lists_do_not_depend_on_the_step_and_sum_to_one(noise):
    scores = 1.5 * np.random.default_rng(0).standard_normal(60)
    offsets = np.array([0, 45, 60])
    options = {"noise": noise, "scale": 0.1}
    found = rank_probabilities(scores, offsets, 10, **options)
    finer = rank_probabilities(scores, offsets, 10, step=0.11, **options)
    np.testing.assert_allclose(found, finer, atol=1e-9)
    np.testing.assert_allclose(np.add.reduceat(found, offsets[:-1]), 1.0, atol=1e-9)


@pytest.mark.parametrize("maker", [Maker(SCORES, "normal", 0.9), sampled(SCORES, 0.7)])
def test_drawn_lists_have_the_probabilities(maker):
    draws = 40_000
    query = np.repeat([0, 1], draws)
    lists = maker.draw(np.random.default_rng(3), query, OFFSETS, 3)
    seen = Lists(query, lists).probabilities(OFFSETS, 3)
    expected = maker.probabilities(OFFSETS, 3)
    error = np.sqrt(expected * (1 - expected) / draws)
    assert (np.abs(seen - expected) <= 5 * error + 1e-12).all()


def test_a_short_query_leaves_ranks_empty():
    lists = sorted_rankings(SCORES, OFFSETS, 4)
    assert lists.tolist() == [[2, 0, 3, 1], [4, 5, 6, -1]]
    assert (
        Maker(SCORES).draw(np.random.default_rng(0), np.array([1]), OFFSETS, 5)[0, 3:].max() == -1
    )


def test_expected_clicks_are_those_of_all_sessions():
    expected = []
    for part in (slice(0, 4), slice(4, 7)):
        every = worlds.sessions(SCORES[part], RELEVANCE[part], USERS.alpha, USERS.beta)
        expected.append(sum(c.sum() * probability for _, c, probability in every))
    np.testing.assert_allclose(truth().clicks(sampled(SCORES)), expected, atol=1e-12)


def test_a_cascade_clicks_as_often_as_all_its_stories_say():
    users, relevance = Cascade(patience=0.8, satisfied=0.5), (0.9, 0.3, 0.6)
    expected = 0.0
    for clicks in itertools.product((0, 1), repeat=3):
        for last in range(3):  # the rank after which the user leaves
            chance = 1.0
            for rank in range(last + 1):
                chance *= relevance[rank] if clicks[rank] else 1 - relevance[rank]
                stays = 0.8 * (0.5 if clicks[rank] else 1.0)
                leaves = rank == last < 2
                chance *= 1 - stays if leaves else stays if rank < last else 1.0
            if any(clicks[last + 1 :]):
                continue  # nothing is clicked that was not looked at
            expected += chance * sum(clicks)
    assert users.expected(np.array([relevance]))[0] == pytest.approx(expected)
    drawn = users.clicks(np.random.default_rng(1), np.tile(relevance, (100_000, 1)))
    assert drawn.sum(axis=1).mean() == pytest.approx(expected, abs=0.01)


def test_a_cascade_of_drawn_lists():
    users = Cascade(0.8, 0.5)
    expected = sum(
        p * users.expected(RELEVANCE[:4][list(ranking)][None])[0]
        for ranking, p in worlds.rankings(SCORES[:4], 3)
    )
    assert truth(users).clicks(sampled(SCORES))[0] == pytest.approx(expected, abs=0.02)


def test_change_by_hand():
    referee = truth()
    first = 0.8 * 0.4 + 0.5 * 0.9 + 0.2 * 0.0 + 0.15  # lists 2, 0, 3 and 4, 5, 6
    second = 0.8 * 0.7 + 0.5 * 1.0 + 0.2 * 0.2 + 0.15
    turned = in_order(-SCORES)  # lists 1, 0, 3 and 6, 5, 4
    new = (0.8 * 0.1 + 0.5 * 0.9 + 0.15, 0.8 * 0.2 + 0.5 * 1.0 + 0.2 * 0.7 + 0.15)
    change = referee.change(turned)
    assert change.production == pytest.approx(0.25 * first + 0.75 * second)
    assert change.difference == pytest.approx(0.25 * (new[0] - first) + 0.75 * (new[1] - second))
    assert change.percent == pytest.approx(100 * change.difference / change.production)
    assert change.worst_loss == pytest.approx(max(first - new[0], second - new[1]))
    assert change.worst_loss_percent == pytest.approx(100 * (1 - new[0] / first))
    assert change.losing == 1.0
    same = referee.change(referee.production)
    assert (same.difference, same.worst_loss, same.losing) == (0.0, 0.0, 0.0)


def test_tables_lists_and_mixtures_are_policies_too():
    referee, policy = truth(), sampled(SCORES)
    clicks = referee.clicks(policy)
    table = Table(policy.probabilities(OFFSETS, 3))
    np.testing.assert_allclose(referee.clicks(table), clicks)
    share = np.array([0.2, 0.9])
    mixed = referee.clicks(Mixture(share, policy, referee.production))
    np.testing.assert_allclose(mixed, share * clicks + (1 - share) * referee.production_clicks)
    lists = Lists(np.array([0, 1, 0]), np.array([[2, 0, 3], [4, 5, 6], [0, 1, 2]]))
    value = USERS.expected(RELEVANCE[lists.rankings])
    expected = [(value[0] + value[2]) / 2, value[1]]
    np.testing.assert_allclose(referee.clicks(lists), expected)
    np.testing.assert_allclose(truth(Cascade(1.0, 0.0)).clicks(lists)[1], RELEVANCE[4:7].sum())
    with pytest.raises(ValueError, match="cannot be drawn"):
        truth(Cascade()).clicks(table)
    with pytest.raises(ValueError, match="1 queries have no list"):
        referee.clicks(Lists(np.array([0]), np.array([[2, 0, 3]])))


def test_a_promise_by_plain_loops():
    referee, policy, weights = truth(), sampled(SCORES), np.array([1.0, 0.5, 0.25])
    omega = policy.probabilities(OFFSETS, 3) @ weights
    omega0 = referee.shown @ weights
    for keep, slack in itertools.product((0.5, 0.9, 1.0), (0.0, 0.01, 0.1, 0.4)):
        broken = 0.0
        for query in range(2):
            own = range(OFFSETS[query], OFFSETS[query + 1])
            loss = sum(max(0.0, keep * omega0[d] - omega[d]) for d in own)
            broken += referee.traffic[query] * (loss > slack * weights.sum() + 1e-6)
        assert referee.promise_broken(policy, weights, keep, slack) == pytest.approx(broken)


def test_utility_in_the_unit_of_a_fitted_model():
    referee, policy = truth(production=sampled(SCORES, 2.0)), sampled(SCORES)
    weights = USERS.alpha + USERS.beta
    production, change = referee.utility_change(policy, USERS.alpha, USERS.beta, weights)
    tables = (
        p.probabilities(OFFSETS, 3) @ weights * RELEVANCE for p in (policy, referee.production)
    )
    new, old = (referee.traffic @ np.add.reduceat(t, OFFSETS[:-1]) for t in tables)
    assert (production, change) == (pytest.approx(old), pytest.approx(new - old))
    # R = 2 R' - 0.1 is the same model: alpha' = 2 alpha, beta' = beta - 0.1 alpha
    other = referee.utility_change(policy, 2 * USERS.alpha, USERS.beta - 0.1 * USERS.alpha, weights)
    shift = (policy.probabilities(OFFSETS, 3) - referee.shown) @ weights
    lists = referee.traffic @ np.add.reduceat(shift, OFFSETS[:-1])
    assert other[1] == pytest.approx(change / 2 + 0.05 * lists)
    assert truth(Cascade()).utility_change(policy, USERS.alpha, USERS.beta, weights) is None


@pytest.mark.parametrize("production", ["sorted", "noisy", "sampled", "drift", "uniform"])
@pytest.mark.parametrize("users", ["trust", "cascade"])
def test_the_log_is_made_by_what_the_truth_says(production, users):
    shop = Shop(
        seed=5, production=production, users=users, queries=6, products=(3, 12), k=4, weeks=3,
        sessions=30_000, bots=0.0, delisted=0.0,
    )  # fmt: skip
    world = build(shop)
    sessions, referee = world.sessions, world.truth
    seen = Lists(sessions.query, sessions.lists).probabilities(referee.offsets, shop.k)
    count = np.bincount(sessions.query)[world.catalogue.query][:, None]
    error = np.sqrt(np.maximum(referee.shown * (1 - referee.shown), 1e-4) / count)
    assert (np.abs(seen - referee.shown) <= 5 * error).all()
    clicks = sessions.clicks.sum(axis=1)
    mean = np.bincount(sessions.query, clicks) / np.bincount(sessions.query)
    spread = clicks.std() / np.sqrt(np.bincount(sessions.query))
    assert (np.abs(mean - referee.production_clicks) <= 5 * spread).all()
