"""One round's decision: is a candidate, behind its guard, surely no worse than what is served?

The promise is kept by construction, against the policy that it is for. Clicks are compared with
what is served now, by sessions of this round that taught the candidate nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saferank._core.flat import Floats
from saferank.clicks import ClickModel
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.evaluation import Contrast
from saferank.evaluation.scored_policies import Policy
from saferank.evaluation.support import support_of
from saferank.policies import ProductionPolicy
from saferank.policies.agreement import check_table
from saferank.policies.production_fit import ProductionFit
from saferank.safety.assessment import ClickChange
from saferank.safety.estimating import click_change
from saferank.safety.examination import Examination
from saferank.safety.guarded import GuardRule, both_tables
from saferank.safety.judging import evidence_for, find_misfits, scores_on
from saferank.safety.promise import Promise
from saferank.safety.rule import Rule


@dataclass(frozen=True, eq=False)
class Candidate:
    """A ranker as it would be served: behind a guard that keeps a promise.

    See Also
    --------
    take_step : judges one.

    Examples
    --------
    >>> import numpy as np
    >>> import saferank as sr
    >>> items = sr.data.RankingData(np.eye(3), offsets=[0, 3])
    >>> served = sr.policies.ProductionPolicy.uniform(items.offsets)
    >>> looking = Examination.of("fitted", [1.0, 0.5])
    >>> candidate = Candidate(np.arange(3.0), Promise(0.9, 0.0), served, looking)
    >>> candidate.table(items).sum(axis=0).round(9)
    array([1., 1.])
    """

    ranker: Policy
    """A ranker, a function of the data, or scores."""
    promise: Promise
    """What every query keeps."""
    against: ProductionPolicy
    """What the promise is against."""
    examination: Examination
    """The ways of looking that the promise is for."""

    def table(self, items: RankingData) -> Floats:
        """P(document at rank) of what would be served, documents x ranks."""
        rule = GuardRule(self.promise, self.examination, "best")
        scores = scores_on(self.ranker, items, "ranker")
        tables = both_tables(scores, self.against, self.examination, "sampled")
        served = rule.serve(*tables, items.offsets, groups=items.group_codes)
        return np.clip(served.table, 0.0, 1.0)  # up to rounding


@dataclass(frozen=True)
class Step:
    """Whether a candidate replaces what is served, and why.

    See Also
    --------
    take_step : makes one.

    Examples
    --------
    >>> Step(False, "a loss cannot be ruled out").replace
    False
    """

    replace: bool
    """Whether it does."""
    sentence: str
    """Why, in words."""
    change: ClickChange | None = None
    """Of clicks per session; None where they cannot be told."""


def take_step(
    candidate: Candidate,
    items: RankingData,
    judged: Counts,
    served: ProductionPolicy,
    click_model: ClickModel,
    rule: Rule,
) -> Step:
    """Compare a candidate behind its guard with what is served, by clicks that it has not seen.

    Parameters
    ----------
    candidate
        The ranker with its promise.
    items
        Queries and documents.
    judged
        Sessions of this round that had no part in the candidate.
    served
        The policy that made them.
    click_model
        What a click means.
    rule
        With which tolerance and confidence.

    Returns
    -------
    Step
        Not to replace where something speaks against the click model or the policy, where the
        log has no support for the candidate, or where it may be worse.

    Examples
    --------
    >>> import numpy as np
    >>> import saferank as sr
    >>> items = sr.data.synthetic("small", queries=40, seed=0).train
    >>> model, shown = sr.clicks.trust_bias(), np.zeros(items.documents)
    >>> counts = sr.clicks.simulate(items, shown, model, sessions=20_000, seed=0)
    >>> served = sr.policies.ProductionPolicy.sampled(shown, items.offsets)
    >>> looking = Examination.of("fitted", model.exposure_weights)
    >>> candidate = Candidate(items.labels, Promise(0.5, 0.01), served, looking)
    >>> take_step(candidate, items, counts.part("judge"), served, model, Rule()).replace
    True
    """
    made = check_table(judged, served.rank_probabilities(judged.ranks)).fits
    fit = ProductionFit(served.kind, made, "the log is not that of the policy that was served")
    problems = find_misfits(click_model, fit, judged)
    weights = candidate.examination.weights
    evidence = evidence_for(candidate.ranker, items, judged, click_model, served, weights)
    table = candidate.table(items)
    refusal = support_of(table @ weights, evidence).refusal()
    problems = (*problems, *([] if refusal is None else [refusal]))
    if problems:
        return Step(False, f"Kept what is served: {'; '.join(problems)}.")
    before = served.rank_probabilities(judged.ranks)
    alpha = click_model.alpha
    change = click_change(Contrast(table @ alpha, before @ alpha, evidence), rule)
    enough = bool(change.share(change.bound.lower) >= -rule.tolerance)
    outcome = "Replaced what is served" if enough else "Kept what is served"
    sentence = (
        f"{outcome}: clicks per session change by {change.share(change.difference.estimate):+.1%}, "
        f"with confidence {rule.confidence:.0%} by at least {change.share(change.bound.lower):+.1%}"
        f", on {judged.total:,} sessions that taught it nothing."
    )
    return Step(enough, sentence, change)
