"""Safety: certificates, the guard, and decisions to ship."""

from saferank.safety.assessing import assess
from saferank.safety.assessment import Assessment
from saferank.safety.assessment import TrueChange as TrueChange
from saferank.safety.certificate import Certificate
from saferank.safety.certifying import certify
from saferank.safety.changes import Change as Change
from saferank.safety.comparing import Comparison, compare
from saferank.safety.comparison_chart import comparison_chart as comparison_chart
from saferank.safety.decisions import Decision
from saferank.safety.decisions import unconditional as unconditional
from saferank.safety.decisions import verdict as verdict
from saferank.safety.guard import Guard
from saferank.safety.promise import Promise
from saferank.safety.query_choice import genspec
from saferank.safety.rule import Rule

__all__ = [
    "Assessment",
    "Certificate",
    "Comparison",
    "Decision",
    "Guard",
    "Promise",
    "Rule",
    "assess",
    "certify",
    "compare",
    "genspec",
]
