r"""Whether a log leans towards a candidate: the misfit that its estimate would suffer from.

Tests of the whole policy look everywhere, and miss in a small log what matters most: that documents
which a candidate would raise are shown more often than production's policy says, as in a log that a
guard made, which serves the candidate to a share of the sessions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.stats import norm

from saferank._core import flat
from saferank._core.flat import Floats
from saferank.counts import Counts
from saferank.errors import require
from saferank.policies.choosing import LEVEL
from saferank.policies.production import ProductionPolicy, exposure_of_lists
from saferank.policies.production_fit import ProductionFit

CLIP = 10.0
"""Largest ratio of exposures: beyond it few sessions would decide."""


def leaning(counts: Counts, policy: ProductionPolicy, candidate: Floats) -> float:
    r"""By how many standard deviations a log shows too much of what a candidate would show.

    With rank weights :math:`u_k = 1/k`, exposures e of the policy and t of the candidate, and
    :math:`v = \min(t/e, 10)`, a session has :math:`x = \sum_k u_k v(d_k)`. If the policy made the
    log, its mean is :math:`\sum_d e\,v` and its variance at most about
    :math:`\sum_k u_k^2 \mathrm{Var}\,v(d_k)`, as ranks of one list show different documents.

    Parameters
    ----------
    counts : of sessions that had no part in the candidate.
    policy : what production is taken for.
    candidate : its scores, one per document.

    Returns
    -------
    About standard normal if the policy made the log; positive where it leans to the candidate.

    Examples
    --------
    >>> counts = Counts([0, 2], [[10, 90], [90, 10]], [[0, 0], [0, 0]])
    >>> leaning(counts, ProductionPolicy.uniform([0, 2]), np.array([0.0, 3.0])) > 3
    True
    """
    require(candidate.shape == (counts.documents,), "candidate", "one score per document",
            candidate.shape)  # fmt: skip
    sessions = counts.sessions
    if counts.outside is not None:
        # where documents without an item were shown, the policy on items is not all there was
        sessions = np.where(counts.outside[0].any(axis=1), 0, sessions)
    u = 1 / np.arange(1, counts.ranks + 1)
    own = policy.exposure(u)
    target = exposure_of_lists(candidate, u, counts.offsets, in_order=False, filled=policy.filled)
    v = np.divide(target, own, out=np.zeros_like(own), where=own > 0)
    v = np.minimum(v, CLIP)
    excess = flat.query_sums((counts.mean_weight(u) - own) * v, counts.offsets)
    chance = policy.rank_probabilities(counts.ranks)
    means = flat.query_sums(chance * v[:, None], counts.offsets)
    squares = flat.query_sums(chance * v[:, None] ** 2, counts.offsets)
    variance = np.maximum(squares - means**2, 0.0) @ u**2
    spread = float(np.sqrt(sessions @ variance))
    return float(sessions @ excess) / spread if spread > 0 else 0.0


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
    most = max(leaning(judged, policy, scores) for scores in candidates)
    if norm.sf(most) * len(candidates) > LEVEL:
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
