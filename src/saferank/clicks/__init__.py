"""Click models, simulated users, and fitting click models to counts."""

from saferank.clicks.bias import (
    Canonical,
    ClickModelCheck,
    FittedBias,
    KnownPolicy,
    Misfit,
    canonical,
    check_click_model,
    fit_position_bias,
    fit_trust_bias,
)
from saferank.clicks.bias.identifiability import Identifiability, identifiability
from saferank.clicks.models import ClickModel, blend, position_bias, relevance, trust_bias
from saferank.clicks.simulation.rows import simulate_rows
from saferank.clicks.simulation.simulating import simulate
from saferank.clicks.simulation.stand_in import stand_in_production
from saferank.clicks.users import (
    USERS,
    CascadeUsers,
    IndependentUsers,
    Patience,
    Users,
    adversarial,
    attacker,
    cascade,
    dependent_clicks,
    epsilon_adversarial,
    noise,
)

__all__ = [
    "USERS",
    "Canonical",
    "CascadeUsers",
    "ClickModel",
    "ClickModelCheck",
    "FittedBias",
    "Identifiability",
    "IndependentUsers",
    "KnownPolicy",
    "Misfit",
    "Patience",
    "Users",
    "adversarial",
    "attacker",
    "blend",
    "canonical",
    "cascade",
    "check_click_model",
    "dependent_clicks",
    "epsilon_adversarial",
    "fit_position_bias",
    "fit_trust_bias",
    "identifiability",
    "noise",
    "position_bias",
    "relevance",
    "simulate",
    "simulate_rows",
    "stand_in_production",
    "trust_bias",
]
