"""Networks without torch's graph, against torch's own way through the same modules."""

import numpy as np
import pytest
import torch

from saferank._core.threads import use_threads
from saferank.scorers import layered
from saferank.scorers.networks import forward, gradients, make_network, score_all, to_scores

LENGTHS = [1, 5, 127, 128, 129, 2047, 2048, 2049, 4500]
SHAPES = [(3, ()), (7, (4,)), (24, (32,)), (136, (64, 64)), (5, (8, 3, 2))]


def drawn(documents, width):
    rng = np.random.default_rng(documents)
    features = rng.normal(size=(documents, width)).astype(np.float32)
    return features, rng.normal(size=documents)


def by_graph(module, features, flow):
    """Scores and the gradient of their sum, weighted by `flow`, in double precision."""
    exact = torch.nn.Sequential(*module.children()).double()
    scores = exact(torch.from_numpy(features.astype(np.float64))).reshape(-1)
    slopes = torch.autograd.grad(
        torch.dot(scores, torch.from_numpy(flow)), list(exact.parameters())
    )
    made = scores.detach().numpy(), torch.cat([slope.reshape(-1) for slope in slopes]).numpy()
    exact.float()
    return made


@pytest.mark.parametrize("documents", LENGTHS)
@pytest.mark.parametrize(("width", "hidden"), SHAPES)
def test_scores_and_gradient_are_those_of_the_module(documents, width, hidden):
    module = make_network(width, hidden, seed=documents)
    features, flow = drawn(documents, width)
    scores, gradient = by_graph(module, features, flow)
    (output,) = forward(module, [features])
    np.testing.assert_allclose(to_scores(output), scores, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(score_all(module, features), to_scores(output))
    (own,) = gradients(module, [output], [flow])
    np.testing.assert_allclose(own, gradient, rtol=1e-4, atol=1e-5 * np.abs(gradient).max())


def test_a_hidden_unit_at_zero_has_no_slope():
    module = make_network(2, (1,), seed=0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
        list(module.parameters())[2].fill_(3.0)
    (output,) = forward(module, [np.ones((4, 2), np.float32)])
    (gradient,) = gradients(module, [output], [np.ones(4)])
    np.testing.assert_array_equal(gradient, [0.0, 0.0, 0.0, 0.0, 4.0])


@pytest.mark.skipif(layered.layers_of(make_network(3, (2,), 0)) is None, reason="no oneDNN here")
def test_only_networks_of_this_package_in_single_precision_go_this_way():
    own = make_network(3, (2,), seed=0)
    assert len(layered.layers_of(own)) == 2
    assert layered.layers_of(make_network(0, (2,), seed=0)) is None
    assert layered.layers_of(make_network(3, (2,), seed=0).double()) is None
    fixed = make_network(3, (2,), seed=0)
    next(fixed.parameters()).requires_grad_(False)
    for module in (
        fixed,
        torch.nn.Linear(3, 1),
        torch.nn.Sequential(torch.nn.Linear(3, 1)),
        torch.nn.Sequential(*own.children(), torch.nn.Tanh()),
    ):
        assert layered.layers_of(module) is None


def test_read_only_features_and_any_number_of_threads_give_the_same_bits():
    module = make_network(11, (16, 8), seed=1)
    blocks = [drawn(documents, 11) for documents in (300, 2048, 4096, 77)]
    made = []
    for count in (1, 2, 4):
        with use_threads(count):
            outputs = forward(module, [features for features, _ in blocks])
            slopes = gradients(module, outputs, [flow for _, flow in blocks])
            made.append([*map(to_scores, outputs), *(slope.numpy() for slope in slopes)])
        for features, _ in blocks:
            features.flags.writeable = False
    for other in made[1:]:
        for one, two in zip(made[0], other, strict=True):
            np.testing.assert_array_equal(one, two)
