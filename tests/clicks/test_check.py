"""Counts against a click model from elsewhere: silent where it is right, clear where it is not."""

import math

import numpy as np
import pytest

from saferank._core.flat import Floats
from saferank.clicks import (
    ClickModel,
    cascade,
    check_click_model,
    position_bias,
    simulate,
    trust_bias,
)
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.errors import InputError

MODEST = ClickModel(
    np.array([0.45, 0.33, 0.26, 0.21, 0.17]), np.array([0.06, 0.03, 0.02, 0.015, 0.012])
)
MODELS = {"trust": trust_bias(), "position": position_bias(), "modest": MODEST}


def shop(queries: int = 200, seed: int = 0) -> tuple[RankingData, Floats, Floats]:
    """Queries with few relevant documents, sorted with a little noise; some are asked often."""
    rng = np.random.default_rng(seed)
    labels = 1 / (1 + np.exp(2 - 1.2 * rng.normal(size=12 * queries)))
    scores = 6 * (labels + 0.2 * rng.normal(size=labels.size))
    data = RankingData(np.zeros((labels.size, 1)), np.arange(queries + 1) * 12, labels=labels)
    return data, scores, 1 / np.arange(1.0, queries + 1)


def log_of(
    users: object, sessions: int, seed: int, queries: int = 200, **options: object
) -> Counts:
    data, scores, weights = shop(queries)
    return simulate(
        data, scores, users, sessions, seed, weights=weights, highest_grade=1, **options  # type: ignore[arg-type]
    )  # fmt: skip


def rejected(model: ClickModel, logs: int, sessions: int, queries: int) -> int:
    """How many logs of users who do click by the model speak against it."""
    return sum(
        check_click_model(log_of(model, sessions, seed, queries), model, seed=seed).rejected
        for seed in range(logs)
    )


@pytest.mark.parametrize("name", MODELS)
def test_the_users_own_model_is_not_rejected(name: str) -> None:
    for sessions in (30, 3000, 100_000):
        check = check_click_model(log_of(MODELS[name], sessions, 0), MODELS[name])
        assert not check.rejected, check.verdict
        assert "speaks against" in check.verdict


@pytest.mark.slow
@pytest.mark.parametrize("queries", [2, 20, 300])
@pytest.mark.parametrize("sessions", [300, 10_000])
def test_a_right_model_is_rejected_once_in_a_hundred_logs(queries: int, sessions: int) -> None:
    # Of 300 logs 3 are expected at most; 9 would have probability .004.
    found = sum(rejected(model, 100, sessions, queries) for model in MODELS.values())
    assert found <= 8


@pytest.mark.parametrize(
    ("users", "model"),
    [
        (MODEST, trust_bias()),
        (MODEST, position_bias()),
        (position_bias(), trust_bias()),
        (trust_bias(), position_bias()),
        (position_bias(), position_bias(5, 0.5)),
        (cascade(stop=0.8, noise=0.1), trust_bias()),
    ],
)
def test_quite_different_users_are_told(users: object, model: ClickModel) -> None:
    check = check_click_model(log_of(users, 10_000, 1), model)
    assert check.rejected
    assert check.p_value < 1e-4
    assert check.size > 0.01
    assert check.verdict.startswith("The counts reject the click model (p ")
    assert ": at rank " in check.verdict
    assert check.to_dict()["rejected"] is True


def test_a_fixed_ranking_can_speak_against_a_model_too() -> None:
    """Nobody's relevance explains fewer clicks than those of irrelevant documents."""
    counts = log_of(MODEST, 5000, 0, deterministic=True)
    assert check_click_model(counts, trust_bias()).rejected
    assert not check_click_model(counts, MODEST).rejected


def test_the_chance_of_few_clicks_is_the_binomials() -> None:
    """One document at one rank: P(at most 4 clicks of 10 | 0.65), of two sides and three tests."""
    counts = Counts([0, 1], [[10, 0]], [[4, 0]])
    tail = sum(math.comb(10, k) * 0.65**k * 0.35 ** (10 - k) for k in range(5))
    assert check_click_model(counts, trust_bias(2)).p_value == pytest.approx(3 * 2 * tail)


def test_deviations_that_cancel_over_documents_are_told_by_documents() -> None:
    rng = np.random.default_rng(0)
    shown = np.full((400, 4), 3000)
    turn = np.where(np.arange(400)[:, None] % 2, 1, -1) * np.array([1, -1, 1, -1])
    p = position_bias(4, 0.5).probability(np.full(400, 0.6)) + 0.03 * turn
    counts = Counts(np.arange(401), shown, rng.binomial(shown, p))
    check = check_click_model(counts, position_bias(4, 0.5))
    assert check.rejected
    assert "of documents typically lie" in check.verdict
    assert 0.02 < check.size < 0.035


def test_logs_that_can_tell_nothing() -> None:
    nothing = check_click_model(Counts.zeros([0, 3], 5), trust_bias())
    assert nothing.p_value == 1
    assert "too few" in nothing.verdict
    one = Counts([0, 2], [[1, 0], [0, 1]], [[1, 0], [0, 0]])
    assert not check_click_model(one, trust_bias(2)).rejected


def test_other_ranks_are_refused() -> None:
    with pytest.raises(InputError, match="of 5 ranks, as the counts"):
        check_click_model(log_of(MODEST, 10, 0), trust_bias(6))
