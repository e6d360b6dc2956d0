"""How far the click model may be wrong before what would be served is no longer surely as good."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from saferank._core import flat
from saferank.counts import Counts
from saferank.estimators import Evidence
from saferank.estimators.updating import update_predictions
from saferank.evaluation.doubt import DoubtCurve, doubt_curve
from saferank.safety.judging import Served
from saferank.safety.rule import Rule


def doubt_served(served: Served, evidence: Evidence, counts: Counts, rule: Rule) -> DoubtCurve:
    """The curve of what would be served, from the sessions to judge by.

    Clicks of sessions to learn from sharpen the predictions by which the weights are chosen.
    """
    if counts.judge is not None and evidence.counts is counts.judge:
        learned = counts.part("learn")
        sharper = update_predictions(evidence.predictions, learned, evidence.click_model)
        evidence = replace(evidence, predictions=sharper)
    omega, omega0, wider = served.compared(evidence)
    production, weights = served.production, served.weights
    observed = production.sessions is not None
    # queries without sessions to judge by have no share of the traffic
    seen = np.flatnonzero(wider.counts.sessions)
    documents, _ = flat.gather(wider.counts.offsets, seen)
    return doubt_curve(
        omega[documents], omega0[documents], wider.subset(seen), doubt=rule.told_doubt,
        wanted=1 - rule.tolerance, confidence=rule.confidence, method=rule.interval,
        observed=weights if observed else None,
        unseen=None if observed else production.shortfall(weights, 0.0)[seen],
    )  # fmt: skip
