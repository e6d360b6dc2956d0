"""Policies: what production does, and how a log tells."""

from saferank.policies.agreement import ProductionCheck, check_production
from saferank.policies.choosing import choose_production
from saferank.policies.finding import PolicyFinding, production_finding
from saferank.policies.knowing import SAID, known_policy
from saferank.policies.leaning import check_leaning
from saferank.policies.production import KINDS, ProductionPolicy
from saferank.policies.production_fit import ProductionFit

__all__ = [
    "KINDS",
    "SAID",
    "PolicyFinding",
    "ProductionCheck",
    "ProductionFit",
    "ProductionPolicy",
    "check_leaning",
    "check_production",
    "choose_production",
    "known_policy",
    "production_finding",
]
