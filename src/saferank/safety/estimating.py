"""Estimates of what would be served from the sessions to judge by, and what speaks against them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from saferank._core import flat
from saferank.counts import Counts
from saferank.errors import InputError
from saferank.evaluation import Contrast, Evaluation, Interval, interval
from saferank.evaluation import lower_bound as bound_below
from saferank.evaluation.lower_bound import LowerBound, clipped_interval
from saferank.evaluation.off_policy import evaluate_exposures
from saferank.evaluation.sessions import LogRows
from saferank.logs.sources import LogName
from saferank.policies import ProductionPolicy
from saferank.safety.assessment import ClickChange
from saferank.safety.certificate import Certificate
from saferank.safety.decisions import ClickTest
from saferank.safety.independence import FLATTERS, NO_PART, UNKNOWN_PART
from saferank.safety.judging import estimator_for
from saferank.safety.rule import Rule


def rows_of(log: LogName | LogRows, counts: Counts, judged: Counts) -> LogRows:
    """The rows of the sessions that are judged by."""
    rows = LogRows.of(log)
    if judged is not counts.judge:
        return replace(rows, split=None)
    if rows.split is None:
        raise InputError(
            "`log` must be LogRows with the split of the counts (`CountTable.split`), as these are "
            "in parts: its rows do not tell by themselves which sessions are to judge by."
        )
    return rows


def click_change(contrast: Contrast, rule: Rule) -> ClickChange:
    """Change of clicks per session: alpha R differs, beta is clicked whatever stands there.

    Exposures of the contrast are with alpha as rank weights. Where production did not make the
    log, its own clicks are the log's and the estimated difference to them.
    """
    bound, gap = _bounds(contrast, rule)
    evidence = contrast.evidence
    counted = float(evidence.counts.clicks.sum() / evidence.counts.total)
    logged = evidence.propensities.rho
    if not np.allclose(logged, contrast.omega0, rtol=1e-6, atol=1e-9):
        counted += clipped_interval(
            contrast.against(logged), clip=bound.clip, confidence=rule.confidence,
            method=rule.interval,
        ).estimate  # fmt: skip
    return ClickChange(counted, gap, bound)


def _bounds(contrast: Contrast, rule: Rule) -> tuple[LowerBound, Interval]:
    """The bound of the difference, and its estimate and interval with weights clipped alike."""
    confidence, method = rule.confidence, rule.interval
    bound = bound_below(contrast, confidence=confidence, method=method)
    return bound, clipped_interval(contrast, clip=bound.clip, confidence=confidence, method=method)


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimates of what would be served."""

    evaluation: Evaluation
    bound: LowerBound
    estimator: str
    largest: float
    """Most utility per session that there can be."""
    difference: Interval
    """Estimate and interval with clipped weights."""
    filled: float = 1.0
    """Share of the ranks that production's lists fill."""
    misfits: tuple[str, ...] = ()
    """What is known to be wrong of what the estimates rest on."""

    def test(
        self,
        clicks: ClickChange,
        certificate: Certificate,
        rule: Rule,
        *,
        flatters: bool,
        independent: bool,
    ) -> ClickTest:
        """What the clicks say of what would be served, and what speaks against it."""
        problems = self._problems(rule)
        assumes = (
            certificate.assumptions[3],
            *_short_lists(self.filled),
            FLATTERS if flatters else NO_PART if independent else UNKNOWN_PART,
        )
        return ClickTest(
            clicks.difference, clicks.production, clicks.bound, self.evaluation.difference.total,
            problems, assumes, flatters, independent,
        )  # fmt: skip

    def tell(self, rule: Rule) -> bool:
        """Whether there are numbers to tell: the log has support, and they can be at all."""
        return self.evaluation.support.refusal() is None and self._possible(rule)

    def _possible(self, rule: Rule) -> bool:
        """Whether what the intervals hold can be: utilities of 0 to the largest."""
        production = interval(self.evaluation.production, rule.interval, rule.confidence)
        margin = 1e-9 * self.largest
        return (
            self.difference.lower <= self.largest + margin
            and self.difference.upper >= -self.largest - margin
            and production.lower <= self.largest + margin
            and production.upper >= -margin
        )

    def _problems(self, rule: Rule) -> tuple[str, ...]:
        problems = [*self.misfits]
        refusal = self.evaluation.support.refusal()
        if refusal is not None:
            problems.append(refusal)
        if not self._possible(rule):
            problems.append(
                f"the estimates lie outside what is possible (a utility of 0 to {self.largest:.3g}"
                f" per session), so the click model or production's policy is wrong"
            )
        return tuple(problems)


def _short_lists(filled: float) -> tuple[str, ...]:
    if filled == 1:
        return ()
    return (
        f"Lists are not always full: {1 - filled:.1%} of their rows are not in the log. The new "
        f"ranker's are taken to be as long, and rows to be missing whatever they show.",
    )


def filled_share(policy: ProductionPolicy, counts: Counts) -> float:
    """Share of the ranks that production's lists fill."""
    if policy.filled is None:
        return 1.0
    there = np.arange(counts.ranks) < flat.sizes(counts.offsets)[:, None]
    owed = counts.sessions @ there.sum(axis=1)
    return float(counts.sessions @ (policy.filled * there).sum(axis=1) / max(owed, 1))


def estimate(contrast: Contrast, rule: Rule) -> Estimates:
    """Utility of what would be served and of production, their difference and its bound."""
    name, control = estimator_for(contrast.evidence)
    judged, rows = contrast.evidence.counts, contrast.rows
    if rows is not None and judged.documents != rows[1].documents:
        raise InputError(
            "`log` must show items only, as its rows are matched with them, and some of its "
            "documents have no item: leave the log out; the counts tell without it."
        )
    evaluation = evaluate_exposures(contrast, estimator=name, control=control)
    bound, gap = _bounds(contrast, rule)
    # the metric's weights may be others than the click model's: Z is what production's sum to
    largest = float(
        judged.sessions @ flat.query_sums(contrast.omega0, judged.offsets) / max(judged.total, 1)
    )
    how = f"{name}, additive control variate" if control == "additive" else name
    return Estimates(evaluation, bound, how, largest, gap)
