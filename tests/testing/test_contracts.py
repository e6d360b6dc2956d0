"""Every registered part keeps its contract, and a part that does not is found out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from saferank.clicks import ClickModel, position_bias, trust_bias
from saferank.counts import Counts
from saferank.estimators import ESTIMATORS, Estimator
from saferank.estimators.session_form import ips
from saferank.learning.families import SCORERS
from saferank.objectives import OBJECTIVES, Objective, ValueSlope
from saferank.policies import ProductionPolicy
from saferank.testing import (
    check_click_model,
    check_estimator,
    check_objective,
    check_policy,
    check_scorer,
)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators(name):
    check_estimator(name, averages=name not in ("click-model", "evidence-dr"))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_objectives(name):
    check_objective(name)


@pytest.mark.parametrize("name", SCORERS)
def test_scorers(name):
    check_scorer(name)


def test_a_module_of_a_user():
    check_scorer(lambda width: torch.nn.Sequential(torch.nn.Linear(width, 1)))


@pytest.mark.parametrize("model", [trust_bias(), position_bias(3), ClickModel([0.2], [0.3])])
def test_click_models(model):
    check_click_model(model)


@pytest.mark.parametrize(
    "policy",
    [
        ProductionPolicy.sampled([0.0, 1.0, 2.0, -1.0], [0, 1, 4], 0.5),
        ProductionPolicy.sorted([0.0, 1.0, 2.0, -1.0], [0, 1, 4]),
        ProductionPolicy.uniform([0, 1, 4]),
        ProductionPolicy.observed(Counts([0, 2], [[3, 1], [1, 3]], [[0, 0], [0, 0]])),
        ProductionPolicy.recorded([[0.6, 0.4], [0.4, 0.6]], [0, 2]),
    ],
    ids=lambda policy: policy.kind,
)
def test_policies(policy):
    check_policy(policy)


BROKEN: dict[str, Any] = {
    "one value": lambda known: np.zeros(1),
    "infinite": lambda known: np.full(known.counts.documents, np.inf),
    "a sum": lambda known: known.counts.clicks.sum(axis=1).astype(float),
    "by place": lambda known: np.arange(known.counts.documents, dtype=float),
    "forms that differ": Estimator(lambda known: 2 * known.counts.ctr(), ips),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_estimator_is_found_out(name):
    with pytest.raises(AssertionError, match="contract"):
        check_estimator(BROKEN[name])


def test_a_wrong_slope_is_found_out():
    def build(_):
        return Objective(lambda omega, terms: ValueSlope(omega**2, omega))

    with pytest.raises(AssertionError, match="finite differences"):
        check_objective(build)


def test_a_policy_that_shows_two_documents_at_once_is_found_out():
    policy = ProductionPolicy.recorded([[0.9], [0.9]], [0, 2])
    with pytest.raises(AssertionError, match="one document"):
        check_policy(policy)
