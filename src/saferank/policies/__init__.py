"""Policies: what production does, and how a log tells."""

from saferank.policies.agreement import ProductionCheck, check_production
from saferank.policies.choosing import choose_production
from saferank.policies.finding import production_finding
from saferank.policies.leaning import check_leaning
from saferank.policies.production import KINDS, ProductionPolicy
from saferank.policies.production_fit import ProductionFit

__all__ = [
    "KINDS",
    "ProductionCheck",
    "ProductionFit",
    "ProductionPolicy",
    "check_leaning",
    "check_production",
    "choose_production",
    "production_finding",
]
