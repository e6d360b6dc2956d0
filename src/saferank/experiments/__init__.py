"""The semi-synthetic study of the paper: jobs, sweep, figures, claims and the page."""

from saferank.experiments.learning_curves import FIGURES
from saferank.experiments.reproducing import reproduce, reproduce_columns
from saferank.experiments.study import PRESETS, Study

__all__ = [
    "FIGURES",
    "PRESETS",
    "Study",
    "reproduce",
    "reproduce_columns",
]
