"""Policies: what production does, and how a log tells."""

from saferank.policies.agreement import check_production
from saferank.policies.choosing import choose_production
from saferank.policies.known_production import SAID as SAID
from saferank.policies.known_production import known_policy as known_policy
from saferank.policies.log_leaning import check_leaning as check_leaning
from saferank.policies.production import KINDS, ProductionPolicy
from saferank.policies.production_findings import PolicyFinding as PolicyFinding
from saferank.policies.production_findings import production_finding as production_finding
from saferank.policies.production_fit import ProductionFit as ProductionFit
from saferank.policies.several import mix_policies

__all__ = [
    "KINDS",
    "ProductionPolicy",
    "check_production",
    "choose_production",
    "mix_policies",
]
