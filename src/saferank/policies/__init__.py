"""Policies: what production does, and how a log tells."""

from saferank.policies.choosing import choose_production
from saferank.policies.finding import production_finding
from saferank.policies.fit import ProductionFit
from saferank.policies.leaning import check_leaning
from saferank.policies.production import KINDS, ProductionPolicy

__all__ = [
    "KINDS",
    "ProductionFit",
    "ProductionPolicy",
    "check_leaning",
    "choose_production",
    "production_finding",
]
