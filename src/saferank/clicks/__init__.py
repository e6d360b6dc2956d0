"""Click models, simulated users, and fitting click models to counts."""

from saferank.clicks.bias import (
    FittedBias,
    KnownPolicy,
    LikeDocuments,
    canonical,
    check_click_model,
    fit_position_bias,
    fit_trust_bias,
)
from saferank.clicks.bias.identifiability import identifiability
from saferank.clicks.models import ClickModel, position_bias, relevance, trust_bias
from saferank.clicks.models import blend as blend
from saferank.clicks.simulation.rows import simulate_rows
from saferank.clicks.simulation.simulating import simulate
from saferank.clicks.simulation.stand_in import stand_in_production
from saferank.clicks.users import USERS, IndependentUsers, Users, adversarial, cascade
from saferank.clicks.users import epsilon_adversarial as epsilon_adversarial

__all__ = [
    "USERS",
    "ClickModel",
    "FittedBias",
    "IndependentUsers",
    "KnownPolicy",
    "LikeDocuments",
    "Users",
    "adversarial",
    "canonical",
    "cascade",
    "check_click_model",
    "fit_position_bias",
    "fit_trust_bias",
    "identifiability",
    "position_bias",
    "relevance",
    "simulate",
    "simulate_rows",
    "stand_in_production",
    "trust_bias",
]
