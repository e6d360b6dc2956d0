"""Safety: certificates, the guard, and decisions to ship."""

from saferank.safety.certificate import Certificate, Curve, Distribution
from saferank.safety.certifying import certify
from saferank.safety.changes import Change, Moved
from saferank.safety.guard import Guard, GuardReport
from saferank.safety.promise import Promise

__all__ = [
    "Certificate",
    "Change",
    "Curve",
    "Distribution",
    "Guard",
    "GuardReport",
    "Moved",
    "Promise",
    "certify",
]
