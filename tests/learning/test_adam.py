"""Adam against torch's own, when the learning rate falls, and what a looser gradient changes."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from saferank.clicks import simulate, trust_bias
from saferank.data import synthetic
from saferank.learning import Settings, learn, training_run
from saferank.learning.adam import Adam
from saferank.learning.descent import NOTABLE, falls
from saferank.learning.stopping import STEADY, exactly, steady
from saferank.plackett_luce import exposure
from saferank.scorers.networks import join_parameters


def _modules(seed, dtype=torch.float32):
    torch.manual_seed(seed)
    one = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1)).to(dtype)
    two = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1)).to(dtype)
    two.load_state_dict(one.state_dict())
    return one, two


def _gradient(module):
    return join_parameters(
        [torch.zeros_like(p) if p.grad is None else p.grad for p in module.parameters()]
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("most", [0.05, 100.0])
def test_steps_are_those_of_torch(dtype, most):
    ours, theirs = _modules(0, dtype)
    adam = Adam(list(ours.parameters()), most)
    reference = torch.optim.Adam(theirs.parameters(), lr=1.0)
    inputs = torch.randn(30, 5, dtype=dtype)
    for step in range(25):
        rate = 0.01 / (1 + step)
        for module in (ours, theirs):
            module.zero_grad()
            (module(inputs) ** 2).sum().backward()
        nn.utils.clip_grad_norm_(theirs.parameters(), most)
        reference.param_groups[0]["lr"] = rate
        reference.step()
        adam.step(_gradient(ours), rate)
    for one, two in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-6)


def test_a_parameter_without_gradient_stays():
    module, _ = _modules(1)
    before = [p.detach().clone() for p in module.parameters()]
    adam = Adam(list(module.parameters()), 1.0)
    next(module.parameters()).grad = torch.ones_like(next(module.parameters()))
    adam.step(_gradient(module), 0.1)
    after = list(module.parameters())
    assert not torch.equal(before[0], after[0])
    assert all(torch.equal(a, b) for a, b in zip(before[1:], after[1:], strict=True))


def test_a_restored_state_goes_on_to_the_bit():
    one, two = _modules(2)
    first, second = Adam(list(one.parameters()), 1.0), Adam(list(two.parameters()), 1.0)
    for adam, module in ((first, one), (second, two)):
        for parameter in module.parameters():
            parameter.grad = torch.full_like(parameter, 0.3)
        adam.step(_gradient(module), 0.1)
    again = Adam(list(two.parameters()), 1.0)
    assert again.fits(second.state())
    again.restore(second.state())
    first.step(_gradient(one), 0.1)
    again.step(_gradient(two), 0.1)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert not Adam(list(nn.Linear(2, 1).parameters()), 1.0).fits(second.state())


def _falls_by_hand(values, plateau):
    """Look at the validations since the last notable one or the last fall, again and again."""
    count, since = 0, 0
    mark = values[0]
    for at in range(1, len(values)):
        gained = max(values[: at + 1]) - values[0]
        if values[at] > mark + NOTABLE * gained:
            mark, since = values[at], at
        elif at - since >= plateau:
            count, since, mark = count + 1, at, max(values[: at + 1])
    return count


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=40), st.integers(1, 5), st.integers(0, 40))
def test_falls_are_counted_alike_from_any_part_of_the_history(values, plateau, cut):
    assert falls(values, plateau) == _falls_by_hand(values, plateau)
    assert falls(values[: cut + 1], plateau) <= falls(values, plateau)


def test_steady_improvement_never_falls_and_none_falls_each_time():
    assert falls(list(np.arange(50.0)), 3) == 0
    assert falls([1.0] * 10, 3) == 3


def test_exactly_so_many_steps_at_the_smallest_rate():
    settings = Settings(learning_rate=0.1, rate_falls=2)
    assert steady(settings).learning_rate == pytest.approx(0.1 * STEADY)
    fixed = exactly(settings, 70)
    assert (fixed.steps, fixed.learning_rate) == (70, steady(settings).learning_rate)
    assert fixed.plateau > 70


def test_rankers_learned_by_the_looser_gradient_agree(monkeypatch):
    world, users = synthetic("small", queries=60, seed=1), trust_bias()
    shown = np.random.default_rng(0).normal(size=world.train.documents)
    counts = simulate(world.train, shown, users, sessions=20_000, seed=0, judge=0)
    settings = Settings(steps=60, plateau=100, min_validation_interval=20, hidden=(16,))

    def scores(tolerance):
        monkeypatch.setattr(training_run, "GRADIENT_TOLERANCE", tolerance)
        ranker = learn(
            world.train, counts, users, method="prpo", production=shown, start="scratch",
            settings=settings,
        )  # fmt: skip
        return exposure(ranker.scores(world.test), users.exposure_weights, world.test.offsets)

    loose, exact = scores(training_run.GRADIENT_TOLERANCE), scores(1e-12)
    assert not np.array_equal(exact, loose)  # it is the looser one that training takes
    # in exposures: a shift of all scores changes nothing, and Adam makes one of rounding
    assert np.abs(exact - loose).max() < 1e-3
