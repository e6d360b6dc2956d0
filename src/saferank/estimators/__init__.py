"""Gains: estimates of each document's relevance from counts, and the regression behind them."""

from saferank.estimators.formulas import GAINS, Evidence, Gain
from saferank.estimators.propensities import Propensities, by_policy, exact, from_log
from saferank.estimators.regression import LOSSES

__all__ = ["GAINS", "LOSSES", "Evidence", "Gain", "Propensities", "by_policy", "exact", "from_log"]
