"""Click models, simulated users, and fitting click models to counts."""

from saferank.clicks.models import ClickModel, blend, position_bias, relevance, trust_bias
from saferank.clicks.rows import simulate_rows
from saferank.clicks.simulation import simulate
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
    "CascadeUsers",
    "ClickModel",
    "IndependentUsers",
    "Patience",
    "Users",
    "adversarial",
    "attacker",
    "blend",
    "cascade",
    "dependent_clicks",
    "epsilon_adversarial",
    "noise",
    "position_bias",
    "relevance",
    "simulate",
    "simulate_rows",
    "trust_bias",
]
