"""What judging needs of production, of the log and of what would be served, each in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from saferank._core.flat import Floats
from saferank.clicks import ClickModel, check_click_model
from saferank.clicks.bias.misfit import SIGNIFICANT
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.errors import InputError, require
from saferank.estimators import Evidence
from saferank.estimators.propensities import by_policy
from saferank.evaluation import Contrast, LogRows
from saferank.evaluation.outside import with_outside
from saferank.evaluation.scored_policies import (
    Deployed,
    Policy,
    all_scores,
    check_policy,
    exposure_of,
    production_policy,
)
from saferank.learning import Ranker
from saferank.policies import ProductionPolicy, choose_production
from saferank.policies.agreement import check_table
from saferank.policies.log_leaning import check_leaning
from saferank.policies.production_fit import ProductionFit
from saferank.safety.decisions import OTHER_USERS
from saferank.safety.examination import Examination
from saferank.safety.guarded import GuardRule, both_tables
from saferank.safety.independence import FLATTERS, shared_sessions
from saferank.safety.promise import Promise
from saferank.safety.rule import Rule


def production_of(
    production: Policy | None,
    data: RankingData,
    counts: Counts | None,
    kind: str,
    deployed: Deployed,
    candidates: Sequence[Floats] = (),
) -> tuple[ProductionPolicy, ProductionFit | None]:
    """What production does: by the log where there is one, else as its scores are deployed.

    `candidates` are scores of rankers that the log may lean to.
    """
    if counts is None or counts.total == 0:
        require(
            kind in ("auto", "sampled", "sorted"), "production kind",
            "sampled or sorted where no counts are given", kind,
        )  # fmt: skip
        said: dict[str, Deployed] = {"auto": deployed, "sampled": "sampled", "sorted": "sorted"}
        return production_policy(production, data, said[kind]), None
    scores = None
    if production is not None or data.production is not None:
        scores = scores_on(production, data, "production")
    return check_leaning(counts, *choose_production(counts, scores, kind), candidates)


def production_as_said(
    production: Policy | ProductionPolicy | None,
    data: RankingData,
    kind: str,
    logged_by: ProductionPolicy | None,
    counts: Counts | None,
) -> tuple[ProductionPolicy, ProductionFit]:
    """What production does as it is told, and whether what is said to have made the log did."""
    require(kind in ("sampled", "sorted"), "production kind", "sampled or sorted", kind)
    shown = production_policy(production, data, "sorted" if kind == "sorted" else "sampled")
    made = shown if logged_by is None else logged_by
    same = np.array_equal(made.offsets, data.offsets)
    require(same, "logged_by", f"a policy on the data's documents ({data!r})", made.kind)
    fits = (
        None
        if counts is None
        else check_table(counts.part("all"), made.rank_probabilities(counts.ranks)).fits
    )
    how = "as production's" if logged_by is None else "apart from production's"
    policies = {
        None: "could not be tested",
        True: "agrees with the log",
        False: "is contradicted by it",
    }
    sentence = f"The policy that made the log was given, {how}; it {policies[fits]}."
    return shown, ProductionFit(shown.kind, fits, sentence, asked_for=True)


def judged_counts(ranker: Policy, counts: Counts, same_sessions: bool) -> tuple[Counts, str | None]:
    """The counts to judge by, and a warning where they flatter."""
    reason = shared_sessions(ranker, counts)
    if reason is not None:
        if not same_sessions:
            raise InputError(reason)
        return counts.part("all"), FLATTERS
    judged = counts.part("all") if counts.judge is None else counts.judge
    if judged.total == 0:
        raise InputError(
            "`counts` must have sessions to judge by; count the log with --judge 0.2 (the default)."
        )
    return judged, None


@dataclass(frozen=True, eq=False)
class Served:
    """What would be served in place of production: the new ranker's scores, guarded or not."""

    scores: Floats
    data: RankingData
    production: ProductionPolicy
    weights: Floats
    """Of the ranks: those that the guard's promise is for."""
    deployed: Deployed
    guard: GuardRule | None = None

    def guarded(self, promise: Promise, examination: Examination, rule: Rule) -> Served:
        """The same, with the guard that keeps a promise."""
        guard = GuardRule.against(
            self.production, promise, examination, rule.guard_mode, rule.holdout
        )
        return replace(self, guard=guard)

    def exposures(self, measured: Floats | None = None) -> tuple[Floats, Floats, Floats]:
        """Exposures of what would be served, of production, and what the guard keeps per query.

        Exposures are with the rank weights `measured` where those are given.
        """
        weights = self.weights if measured is None else measured
        offsets, filled = self.data.offsets, self.production.filled
        omega0 = self.production.exposure(weights)
        if self.guard is None:
            omega = exposure_of(self.scores, weights, offsets, self.deployed, filled)
            return omega, omega0, np.ones(self.data.queries)
        tables = both_tables(self.scores, self.production, self.guard.examination, self.deployed)
        served = self.guard.serve(*tables, offsets, filled=filled, groups=self.data.group_codes)
        return served.table @ weights[: served.table.shape[1]], omega0, served.kept

    def compared(
        self, evidence: Evidence, measured: Floats | None = None, rows: LogRows | None = None
    ) -> Contrast:
        """What would be served beside production, by exposures and evidence with what items lack.

        `rows` are those of the evidence's counts.
        """
        weights = self.weights if measured is None else measured
        wider, omega, omega0 = with_outside(evidence, *self.exposures(measured), weights)
        return Contrast(omega, omega0, wider, None if rows is None else (rows, self.data))


def scores_on(policy: Policy | None, data: RankingData, name: str) -> Floats:
    """Scores of a policy on all documents: computed once, whatever they are then needed for."""
    return all_scores(check_policy(policy, data, name), data, name)


def evidence_for(
    ranker: Policy,
    data: RankingData,
    judged: Counts,
    click_model: ClickModel,
    production: ProductionPolicy,
    weights: Floats,
) -> Evidence:
    """What the sessions to judge by say, with the ranker's own regression where it has one."""
    predictions = ranker.relevance(data) if isinstance(ranker, Ranker) else None
    shown = production.rank_probabilities(click_model.ranks)
    return Evidence(
        judged, click_model, by_policy(production, click_model, weights), predictions, shown
    )


MATTERS = 0.1
"""Deviation of click rates, as a share of them, from which a click model is not relied on."""


def find_misfits(click_model: ClickModel, fit: ProductionFit, judged: Counts) -> tuple[str, ...]:
    """What is known to be wrong of what every estimate rests on, in words."""
    problems = []
    if click_model.doubt:
        problems.append(click_model.doubt)
    else:
        problems += _contradictions(click_model, judged)
    if fit.fits is False:
        problems.append(f"production's policy does not fit ({fit.sentence.rstrip('.')})")
    return tuple(problems)


def estimator_for(evidence: Evidence) -> tuple[str, str]:
    """Estimator and control variate: doubly robust where there are predictions."""
    return ("affine-ips", "additive") if evidence.predictions is None else ("dr", "none")


def _contradictions(click_model: ClickModel, judged: Counts) -> list[str]:
    """Whether the sessions to judge by speak against the click model, wherever it is from."""
    rate = float(judged.clicks.sum() / max(int(judged.impressions.sum()), 1))
    check = check_click_model(judged, click_model)
    if check.p_value >= SIGNIFICANT or check.size < MATTERS * rate:
        return []
    said = check.verdict.rstrip(".")
    return [f"{OTHER_USERS} ({said[0].lower()}{said[1:]})"]
