"""How far the click model may be wrong before what would be served is no longer surely as good."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from saferank.counts import Counts
from saferank.estimators import Evidence
from saferank.estimators.updating import update_predictions
from saferank.evaluation.doubt import DoubtCurve, doubt_curve
from saferank.evaluation.doubted_loss import DoubtedLoss
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
    contrast = served.compared(evidence)
    production, weights = served.production, served.weights
    observed = production.sessions is not None
    # queries without sessions to judge by have no share of the traffic
    seen = np.flatnonzero(contrast.evidence.counts.sessions)
    loss = DoubtedLoss(
        contrast.subset(seen), confidence=rule.confidence, method=rule.interval,
        observed=weights if observed else None,
        unseen=None if observed else production.shortfall(weights, 0.0)[seen],
    )  # fmt: skip
    return doubt_curve(loss, doubt=rule.told_doubt, wanted=1 - rule.tolerance)
