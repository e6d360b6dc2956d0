"""Estimators: each document's relevance from counts, and the regression behind some of them."""

from saferank.estimators.estimator_table import ESTIMATORS, Estimator
from saferank.estimators.estimator_table import EstimatorLike as EstimatorLike
from saferank.estimators.estimator_table import estimator_of as estimator_of
from saferank.estimators.evidence import Evidence
from saferank.estimators.propensities import Propensities
from saferank.estimators.propensities import by_policy as by_policy
from saferank.estimators.propensities import exact as exact
from saferank.estimators.propensities import from_log as from_log
from saferank.estimators.rank_form import CLICK_ESTIMATORS
from saferank.estimators.regression import LOSSES as LOSSES
from saferank.estimators.session_form import SessionScore

__all__ = [
    "CLICK_ESTIMATORS",
    "ESTIMATORS",
    "Estimator",
    "Evidence",
    "Propensities",
    "SessionScore",
]
