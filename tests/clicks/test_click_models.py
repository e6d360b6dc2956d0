"""Click models and users: their probabilities, their files, and what they refuse."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saferank.clicks import USERS, ClickModel, cascade, position_bias, relevance, trust_bias
from saferank.clicks.models import blend
from saferank.clicks.users import (
    CascadeUsers,
    Patience,
    adversarial,
    attacker,
    dependent_clicks,
    epsilon_adversarial,
    noise,
)
from saferank.errors import InputError

RELEVANCE = np.array([0.0, 0.25, 1.0])


def test_trust_bias_is_the_papers() -> None:
    model = trust_bias()
    assert model.alpha.tolist() == [0.35, 0.53, 0.55, 0.54, 0.52]
    assert model.beta.tolist() == [0.65, 0.26, 0.15, 0.11, 0.08]


@given(st.integers(1, 60))
def test_trust_bias_at_any_depth(k: int) -> None:
    model, paper = trust_bias(k), trust_bias()
    known = min(k, 5)
    assert model.ranks == k
    np.testing.assert_array_equal(model.alpha[:known], paper.alpha[:known])
    np.testing.assert_array_equal(model.beta[:known], paper.beta[:known])
    assert np.all(np.diff(model.exposure_weights) < 0)
    assert np.all(np.diff(model.beta) < 0)


def test_position_bias_is_a_power_of_the_rank() -> None:
    assert position_bias(3, eta=2).alpha.tolist() == [1.0, 1 / 4, 1 / 9]
    assert position_bias(3).beta.tolist() == [0.0] * 3


def test_probability_is_affine_in_relevance() -> None:
    model = trust_bias(3)
    for d, r in enumerate(RELEVANCE):
        for k in range(3):
            expected = model.alpha[k] * r + model.beta[k]
            assert model.probability(RELEVANCE)[d, k] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("alpha", "beta", "words"),
    [
        ([1.2], [0.0], "alpha"),
        ([0.5], [-0.1], "beta"),
        ([0.6], [0.5], "alpha \\+ beta"),
        ([0.5, 0.5], [0.1], "beta"),
        ([float("nan")], [0.0], "alpha"),
        ([], [], "alpha"),
        ("high", [0.0], "alpha"),
        ([[0.5]], [[0.5]], "alpha"),
    ],
)
def test_bad_models_are_refused(alpha: object, beta: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        ClickModel(alpha, beta)  # type: ignore[arg-type]


def test_file_of_a_model(tmp_path: Path) -> None:
    path = tmp_path / "bias.json"
    trust_bias(7).save(path)
    again = ClickModel.load(path)
    assert again.to_dict() == trust_bias(7).to_dict()
    path.write_text(json.dumps({"alpha": [0.5]}))
    with pytest.raises(InputError, match="beta"):
        ClickModel.load(path)
    path.write_text("[1, 2")
    with pytest.raises(InputError, match="JSON"):
        ClickModel.load(path)


@pytest.mark.parametrize(
    "alpha",
    [[True], ["0.5"], [None], [[0.5]], 0.5, "0.5", {}, [0.1] * 100_000, [2**63], [10**30], []],
)
def test_files_of_what_is_no_model(alpha: object, tmp_path: Path) -> None:
    """Booleans and texts that look like numbers among them."""
    path = tmp_path / "bias.json"
    for record in ({"alpha": alpha, "beta": [0.1]}, {"alpha": [0.1], "beta": alpha}):
        path.write_text(json.dumps(record))
        with pytest.raises(InputError) as refused:
            ClickModel.load(path)
        assert len(str(refused.value)) <= 300


def test_at_cuts_or_pads_with_ranks_without_clicks() -> None:
    assert trust_bias(5).at(2).to_dict() == trust_bias(2).to_dict()
    assert position_bias(1).at(3).alpha.tolist() == [1.0, 0.0, 0.0]


def test_users_who_break_the_model() -> None:
    model = trust_bias(2)
    p = model.probability(RELEVANCE)
    np.testing.assert_allclose(adversarial(model).probability(RELEVANCE), 1 - p)
    np.testing.assert_allclose(
        epsilon_adversarial(model, 0.25).probability(RELEVANCE), 0.75 * p + 0.25 * (1 - p)
    )
    assert np.all(noise(0.3, 2).probability(RELEVANCE) == 0.3)
    chosen = np.array([True, False, True])
    np.testing.assert_allclose(
        attacker(chosen, model).probability(RELEVANCE), chosen[:, None] * (model.alpha + model.beta)
    )


@pytest.mark.parametrize("name", USERS)
def test_every_named_user_gives_probabilities(name: str) -> None:
    users = USERS[name](4)
    p = users.probability(RELEVANCE)
    assert users.ranks == 4
    assert p.shape == (3, 4)
    assert np.all((p >= 0) & (p <= 1))


def test_cascade_users_have_patience() -> None:
    users = cascade(3, stop=0.7, noise=0.1)
    np.testing.assert_allclose(users.patience.after_click, 0.3)
    np.testing.assert_allclose(users.patience.after_skip, 1.0)
    np.testing.assert_allclose(users.probability([0.0, 1.0]), [[0.1] * 3, [1.0] * 3])
    with pytest.raises(InputError, match="patience"):
        CascadeUsers(trust_bias(2), Patience([0.5], [0.5]))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="after_click"):
        dependent_clicks([1.5])


def test_blend_lies_between() -> None:
    mixed = blend(trust_bias(), position_bias(), 0.25)
    np.testing.assert_allclose(
        mixed.alpha, 0.75 * trust_bias().alpha + 0.25 * position_bias().alpha
    )
    with pytest.raises(InputError, match="share"):
        blend(trust_bias(), position_bias(), 1.5)
    with pytest.raises(InputError, match="other"):
        blend(trust_bias(), position_bias(3), 0.5)


def test_relevance_is_a_share_of_the_highest_grade() -> None:
    np.testing.assert_allclose(relevance([0, 1, 2], 2), [0.0, 0.5, 1.0])
    with pytest.raises(InputError, match="labels"):
        relevance([0, 3], 2)
    with pytest.raises(InputError, match="highest"):
        relevance([0], 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: position_bias(0),
        lambda: position_bias(3, eta=-1),
        lambda: trust_bias(0),
        lambda: noise(1.5),
        lambda: epsilon_adversarial(trust_bias(), -0.1),
        lambda: attacker(np.array([1, 2])),
        lambda: attacker(np.array([True])).probability([0.0, 1.0]),
        lambda: cascade(stop=2),
        lambda: trust_bias().at(0),
    ],
)
def test_bad_options_are_refused(make: object) -> None:
    with pytest.raises(InputError):
        make()  # type: ignore[operator]
