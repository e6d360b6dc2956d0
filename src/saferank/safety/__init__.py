"""Safety: certificates, the guard, and decisions to ship."""

from saferank.safety.assessment import Assessment, assess, certified_deployment
from saferank.safety.certificate import Certificate, Curve, Distribution
from saferank.safety.certifying import certify
from saferank.safety.changes import Change, Moved
from saferank.safety.decisions import (
    Decision,
    Selection,
    genspec,
    high_confidence,
    unconditional,
    verdict,
)
from saferank.safety.guard import Guard, GuardReport
from saferank.safety.promise import Promise

__all__ = [
    "Assessment",
    "Certificate",
    "Change",
    "Curve",
    "Decision",
    "Distribution",
    "Guard",
    "GuardReport",
    "Moved",
    "Promise",
    "Selection",
    "assess",
    "certified_deployment",
    "certify",
    "genspec",
    "high_confidence",
    "unconditional",
    "verdict",
]
