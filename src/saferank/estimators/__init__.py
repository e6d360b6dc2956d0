"""Estimators: each document's relevance from counts, and the regression behind some of them."""

from saferank.estimators.evidence import Evidence
from saferank.estimators.propensities import Propensities, by_policy, exact, from_log
from saferank.estimators.regression import LOSSES
from saferank.estimators.session_form import SessionScore
from saferank.estimators.table import ESTIMATORS, Estimator, EstimatorLike, estimator_of

__all__ = [
    "ESTIMATORS", "LOSSES", "Estimator", "EstimatorLike", "Evidence", "Propensities",
    "SessionScore", "by_policy", "estimator_of", "exact", "from_log",
]  # fmt: skip
