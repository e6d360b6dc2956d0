"""The semi-synthetic study of the paper: jobs, sweep, figures, claims and the page."""

from saferank.experiments.claims import CLAIMS, judge
from saferank.experiments.figure_drawing import draw
from saferank.experiments.jobs import Job, Log, Production
from saferank.experiments.learning_curves import CURVES, FIGURES, Curve, plan
from saferank.experiments.reproducing import Reproduction, reproduce
from saferank.experiments.results import Results, read_results
from saferank.experiments.study import PRESETS, Conditions, Study, open_collection
from saferank.experiments.study_page import write_page
from saferank.experiments.sweep import Outcome, sweep

__all__ = [
    "CLAIMS",
    "CURVES",
    "FIGURES",
    "PRESETS",
    "Conditions",
    "Curve",
    "Job",
    "Log",
    "Outcome",
    "Production",
    "Reproduction",
    "Results",
    "Study",
    "draw",
    "judge",
    "open_collection",
    "plan",
    "read_results",
    "reproduce",
    "sweep",
    "write_page",
]
