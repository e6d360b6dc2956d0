"""Gains: estimates of each document's relevance from counts, and the regression behind them."""

from saferank.gains.estimators import GAINS, Evidence, Gain
from saferank.gains.propensities import Propensities, by_policy, exact, from_log
from saferank.gains.regression import LOSSES

__all__ = ["GAINS", "LOSSES", "Evidence", "Gain", "Propensities", "by_policy", "exact", "from_log"]
