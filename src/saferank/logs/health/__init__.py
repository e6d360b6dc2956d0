"""Whether a log is good enough to learn from: measures, findings, a chart."""

from saferank.logs.health.checking import LogHealth, check_log
from saferank.logs.health.health_chart import click_rate_chart
from saferank.logs.health.judgements import Finding

__all__ = ["Finding", "LogHealth", "check_log", "click_rate_chart"]
