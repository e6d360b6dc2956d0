"""Evaluation: policies by their scores, off-policy estimates with intervals, and the truth."""

from saferank.evaluation.intervals import INTERVALS, Interval, QueryScores, interval
from saferank.evaluation.off_policy import Evaluation, evaluate
from saferank.evaluation.policies import Deployed, Policy
from saferank.evaluation.session_scores import CONTROLS, ESTIMATORS, SessionScore
from saferank.evaluation.truth import Truth, truth

__all__ = [
    "CONTROLS",
    "ESTIMATORS",
    "INTERVALS",
    "Deployed",
    "Evaluation",
    "Interval",
    "Policy",
    "QueryScores",
    "SessionScore",
    "Truth",
    "evaluate",
    "interval",
    "truth",
]
