"""After shipping: a confidence sequence from guarded traffic, and what it says to do."""

from saferank.serving.watching.confidence_sequences import ConfidenceSequence, confidence_sequence
from saferank.serving.watching.drift import Drift, find_drift
from saferank.serving.watching.experiment import Experiment, Metric, read_experiment
from saferank.serving.watching.verdicts import Verdict, Watch, watch
from saferank.serving.watching.watch_chart import watch_chart
from saferank.serving.watching.watch_page import render_watch, write_watch_page

__all__ = [
    "ConfidenceSequence",
    "Drift",
    "Experiment",
    "Metric",
    "Verdict",
    "Watch",
    "confidence_sequence",
    "find_drift",
    "read_experiment",
    "render_watch",
    "watch",
    "watch_chart",
    "write_watch_page",
]
