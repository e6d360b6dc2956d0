"""What judging needs of production, of the log and of what would be served, each in one place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats
from saferank.clicks import ClickModel, check_click_model
from saferank.clicks.bias.misfit import SIGNIFICANT
from saferank.counts import Counts
from saferank.data import RankingData
from saferank.errors import InputError, require
from saferank.estimators import Evidence, by_policy
from saferank.evaluation import Deployed, Policy
from saferank.evaluation.scored_policies import (
    all_scores,
    check_policy,
    exposure_of,
    production_policy,
)
from saferank.learning import Ranker
from saferank.policies import (
    ProductionFit,
    ProductionPolicy,
    check_leaning,
    choose_production,
)
from saferank.policies.production import total_weights
from saferank.safety.decisions import OTHER_USERS
from saferank.safety.independence import FLATTERS, shared_sessions
from saferank.safety.losses import TOLERANCE, blind_share, mixing_shares
from saferank.safety.promise import Promise


def production_of(
    production: Policy | None,
    data: RankingData,
    counts: Counts | None,
    kind: str,
    deployed: Deployed,
    candidates: Sequence[Policy] = (),
) -> tuple[ProductionPolicy, ProductionFit | None]:
    """What production does: by the log where there is one, else as its scores are deployed."""
    if counts is None or counts.total == 0:
        require(
            kind in ("auto", "sampled", "sorted"), "production kind",
            "sampled or sorted where no counts are given", kind,
        )  # fmt: skip
        how: Deployed = deployed if kind == "auto" else kind  # type: ignore[assignment]
        return production_policy(production, data, how), None
    scores = None
    if production is not None or data.production is not None:
        scores = all_scores(check_policy(production, data, "production"), data, "production")
    chosen = choose_production(counts, scores, kind)
    new = [all_scores(check_policy(one, data, "ranker"), data, "ranker") for one in candidates]
    return check_leaning(counts, *chosen, new)


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


def served_exposures(
    ranker: Policy,
    data: RankingData,
    production: ProductionPolicy,
    weights: Floats,
    deployed: Deployed,
    guard: Promise | None = None,
    *,
    measured: Floats | None = None,
) -> tuple[Floats, Floats, Floats]:
    """Exposures of what would be served (with the guard where there is one), of production, and
    the share of each query's sessions that get the new ranker.

    The guard's promise is for `weights`; the exposures are with `measured` where that is given.
    """
    scores = all_scores(check_policy(ranker, data, "ranker"), data, "ranker")

    def exposures(w: Floats) -> tuple[Floats, Floats]:
        new = exposure_of(scores, w, data.offsets, deployed, production.filled)
        return new, production.exposure(w)

    if guard is None:
        return *exposures(weights if measured is None else measured), np.ones(data.queries)
    omega, omega0 = exposures(weights)
    if production.exact:
        total = total_weights(data.offsets, weights, production.filled)
        allowed = guard.slack * total + TOLERANCE * weights.max()
        shares = mixing_shares(omega, omega0, data.offsets, allowed, guard.keep)
    else:
        shares = np.full(data.queries, blind_share(guard.keep, guard.slack))
    own = flat.repeat_per_document(shares, data.offsets)
    if measured is not None:
        omega, omega0 = exposures(measured)
    return own * omega + (1 - own) * omega0, omega0, shares


def evidence_for(
    ranker: Policy,
    data: RankingData,
    judged: Counts,
    users: ClickModel,
    production: ProductionPolicy,
    weights: Floats,
) -> Evidence:
    """What the sessions to judge by say, with the ranker's own regression where it has one."""
    predictions = ranker.relevance(data) if isinstance(ranker, Ranker) else None
    shown = production.rank_probabilities(users.ranks)
    return Evidence(judged, users, by_policy(production, users, weights), predictions, shown)


MATTERS = 0.1
"""Deviation of click rates, as a share of them, from which a click model is not relied on."""


def known_misfits(users: ClickModel, fit: ProductionFit, judged: Counts) -> tuple[str, ...]:
    """What is known to be wrong of what every estimate rests on, in words."""
    problems = []
    if users.doubt:
        problems.append(users.doubt)
    else:
        problems += _contradicted(users, judged)
    if fit.fits is False:
        problems.append(f"production's policy does not fit ({fit.sentence.rstrip('.')})")
    return tuple(problems)


def estimator_for(known: Evidence) -> tuple[str, str]:
    """Estimator and control variate: doubly robust where there are predictions."""
    return ("affine-ips", "additive") if known.predictions is None else ("dr", "none")


def _contradicted(users: ClickModel, judged: Counts) -> list[str]:
    """Whether the sessions to judge by speak against the click model, wherever it is from."""
    rate = float(judged.clicks.sum() / max(int(judged.impressions.sum()), 1))
    check = check_click_model(judged, users)
    if check.p_value >= SIGNIFICANT or check.size < MATTERS * rate:
        return []
    said = check.verdict.rstrip(".")
    return [f"{OTHER_USERS} ({said[0].lower()}{said[1:]})"]
