r"""Whether a log leans towards a candidate: the misfit that its estimate would suffer from.

Tests of the whole policy look everywhere, and miss in a small log what matters most: that documents
which a candidate would raise are shown more often than production's policy says, as in a log that a
guard made, which serves the candidate to a share of the sessions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank._core.tails import normal_quantile, normal_tail
from saferank.counts import Counts
from saferank.errors import require
from saferank.policies.choosing import LEVEL
from saferank.policies.production import ProductionPolicy, exposure_of_lists
from saferank.policies.production_fit import ProductionFit
from saferank.policies.recorded import moments_if_seen

CLIP = 10.0
"""Largest ratio of exposures: beyond it few sessions would decide."""


def leaning(
    counts: Counts, policy: ProductionPolicy, candidate: Floats, sessions: Ints | None = None
) -> float:
    r"""By how many standard deviations a log shows too much of what a candidate would show.

    With rank weights :math:`u_k = 1/k`, exposures e of the policy and t of the candidate, and
    :math:`v = \min(t/e, 10)`, a session has :math:`x = \sum_k u_k v(d_k)`. If the policy made the
    log, its mean is :math:`\sum_d e\,v` and its variance at most about
    :math:`\sum_k u_k^2 \mathrm{Var}\,v(d_k)`, as ranks of one list show different documents.

    Recorded propensities need more care. Only what was shown has one, so that impressions are held
    against their mean given that there is one. And ranks of a list may go together in any way, as
    where a guard draws one of two rankers for the whole list: each rank is tested by itself, and
    the result is that of the rank which leans most, with Bonferroni over the ranks.

    Parameters
    ----------
    counts : of sessions that had no part in the candidate.
    policy : what production is taken for.
    candidate : its scores, one per document.
    sessions : of each query in the whole log that has the propensities; by default the counts'.

    Returns
    -------
    About standard normal if the policy made the log (of recorded propensities at most so above 1);
    positive where it leans to the candidate.

    Examples
    --------
    >>> counts = Counts([0, 2], [[10, 90], [90, 10]], [[0, 0], [0, 0]])
    >>> leaning(counts, ProductionPolicy.uniform([0, 2]), np.array([0.0, 3.0])) > 3
    True
    """
    require(candidate.shape == (counts.documents,), "candidate", "one score per document",
            candidate.shape)  # fmt: skip
    u = 1 / np.arange(1, counts.ranks + 1)
    own = policy.exposure(u)
    target = exposure_of_lists(candidate, u, counts.offsets, in_order=False, filled=policy.filled)
    v = np.divide(target, own, out=np.zeros_like(own), where=own > 0)
    excess, variance = _by_rank(
        counts, policy, np.minimum(v, CLIP), counts.sessions if sessions is None else sessions
    )
    if policy.kind == "recorded":
        surprise = np.divide(excess, np.sqrt(variance), out=np.zeros_like(u), where=variance > 0)
        return float(
            normal_quantile(min(counts.ranks * normal_tail(surprise.max(initial=0.0)), 0.5))
        )
    spread = float(np.sqrt(variance @ u**2))
    return float(excess @ u) / spread if spread > 0 else 0.0


def _by_rank(
    counts: Counts, policy: ProductionPolicy, v: Floats, sessions: Ints
) -> tuple[Floats, Floats]:
    """Of each rank: by how much the sum of v over the log exceeds its mean, and its variance."""
    chance = policy.rank_probabilities(counts.ranks)
    # where documents without an item were shown, the policy on items is not all there was
    strange = None if counts.outside is None else counts.outside[0].any(axis=1)
    own = counts.sessions if strange is None else np.where(strange, 0, counts.sessions)
    n, total = (
        flat.repeat_per_document(x, counts.offsets)[:, None].astype(np.float64)
        for x in (own, sessions)
    )
    mean, square = n * chance, n * chance
    if policy.kind == "recorded":
        mean, own_variance = moments_if_seen(n, total, chance)
        square = own_variance + n * chance**2
    excess = np.where(n > 0, counts.impressions - mean, 0.0).T @ v
    # documents of a rank exclude each other: Var = sum of n p v^2 less n (sum of p v)^2
    means = flat.query_sums(chance * v[:, None], counts.offsets)
    variance = v**2 @ square - own @ means**2
    return excess, np.maximum(variance, 0.0)


def check_leaning(
    counts: Counts, policy: ProductionPolicy, fit: ProductionFit, candidates: Sequence[Floats]
) -> tuple[ProductionPolicy, ProductionFit]:
    """What production is taken for once candidates are known: observed, where the log leans.

    A kind that was asked for stays, and does not fit.
    """
    if policy.kind not in ("sampled", "uniform", "recorded") or not candidates:
        return policy, fit
    judged = counts.part("all") if counts.judge is None else counts.judge
    # a guard shows more of what its new ranker would show, never less
    whole = counts.part("all").sessions
    most = max(leaning(judged, policy, scores, whole) for scores in candidates)
    if normal_tail(most) * len(candidates) > LEVEL:
        return policy, fit
    recorded = policy.kind == "recorded"
    says = "recorded propensities say" if recorded else "production's score says"
    why = (
        f"the log shows what a new ranker would show more often than {says} ({most:.1f} standard "
        f"deviations), as a log does that a guard made"
    )
    if fit.asked_for:
        return policy, replace(fit, fits=False, sentence=f"{fit.sentence.rstrip('.')}, but {why}.")
    everything = counts.part("all")
    sentence = (
        f"Production is taken as the log shows it (frequencies of {everything.total:,} sessions): "
        f"{why}."
    )
    observed = replace(ProductionPolicy.observed(everything), filled=policy.filled)
    return observed, ProductionFit("observed", True, sentence, fit.temperature)
