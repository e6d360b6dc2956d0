"""Evaluation: policies by their scores, off-policy estimates with intervals, and the truth."""

from saferank.evaluation.controls import CONTROLS, EVALUATES
from saferank.evaluation.intervals import INTERVALS, Interval, QueryScores, interval
from saferank.evaluation.lower_bound import LowerBound, lower_bound
from saferank.evaluation.off_policy import Evaluation, evaluate
from saferank.evaluation.scored_policies import Deployed, Policy
from saferank.evaluation.sessions import LogRows
from saferank.evaluation.support import Support
from saferank.evaluation.truth import Truth, truth

__all__ = [
    "CONTROLS",
    "EVALUATES",
    "INTERVALS",
    "Deployed",
    "Evaluation",
    "Interval",
    "LogRows",
    "LowerBound",
    "Policy",
    "QueryScores",
    "Support",
    "Truth",
    "evaluate",
    "interval",
    "lower_bound",
    "truth",
]
