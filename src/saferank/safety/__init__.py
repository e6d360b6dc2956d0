"""Safety: certificates, the guard, and decisions to ship."""

from saferank.safety.assessing import assess
from saferank.safety.assessment import Assessment, TrueChange, certified_deployment
from saferank.safety.certificate import Certificate, Curve, Distribution
from saferank.safety.certifying import certify
from saferank.safety.changes import Change, Moved
from saferank.safety.comparing import Candidate, Comparison, compare
from saferank.safety.comparison_chart import comparison_chart
from saferank.safety.decisions import (
    ClickTest,
    Decision,
    Selection,
    by_clicks,
    genspec,
    unconditional,
    verdict,
)
from saferank.safety.guard import Guard, GuardReport
from saferank.safety.promise import Promise, promise_of
from saferank.safety.rule import Rule

__all__ = [
    "Assessment",
    "Candidate",
    "Certificate",
    "Change",
    "ClickTest",
    "Comparison",
    "Curve",
    "Decision",
    "Distribution",
    "Guard",
    "GuardReport",
    "Moved",
    "Promise",
    "Rule",
    "Selection",
    "TrueChange",
    "assess",
    "by_clicks",
    "certified_deployment",
    "certify",
    "compare",
    "comparison_chart",
    "genspec",
    "promise_of",
    "unconditional",
    "verdict",
]
