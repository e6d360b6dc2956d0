"""Evaluation: policies by their scores, off-policy estimates with intervals, and the truth."""

from saferank.evaluation.clicks_by_rank import evaluate_clicks
from saferank.evaluation.contrast import Contrast
from saferank.evaluation.intervals import INTERVALS, Interval, interval
from saferank.evaluation.intervals import QueryScores as QueryScores
from saferank.evaluation.lower_bound import LowerBound as LowerBound
from saferank.evaluation.lower_bound import lower_bound
from saferank.evaluation.off_policy import Evaluation, evaluate
from saferank.evaluation.scored_policies import Deployed as Deployed
from saferank.evaluation.scored_policies import Policy as Policy
from saferank.evaluation.sessions import LogRows
from saferank.evaluation.support import Support as Support
from saferank.evaluation.truth import truth

__all__ = [
    "INTERVALS",
    "Contrast",
    "Evaluation",
    "Interval",
    "LogRows",
    "evaluate",
    "evaluate_clicks",
    "interval",
    "lower_bound",
    "truth",
]
