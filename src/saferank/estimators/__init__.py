"""Estimators: each document's relevance from counts, and the regression behind some of them."""

from saferank.estimators.evidence import Evidence
from saferank.estimators.propensities import Propensities, by_policy, exact, from_log
from saferank.estimators.rank_form import (
    CLICK_ESTIMATORS,
    ClickEstimator,
    RankEvidence,
    interpolation,
)
from saferank.estimators.regression import LOSSES
from saferank.estimators.session_form import SessionScore
from saferank.estimators.table import ESTIMATORS, Estimator, EstimatorLike, estimator_of

__all__ = [
    "CLICK_ESTIMATORS", "ESTIMATORS", "LOSSES", "ClickEstimator", "Estimator", "EstimatorLike",
    "Evidence", "Propensities", "RankEvidence", "SessionScore", "by_policy", "estimator_of",
    "exact", "from_log", "interpolation",
]  # fmt: skip
