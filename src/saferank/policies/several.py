"""Logs of several policies at once: together they are the log of one, their mixture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from saferank._core import flat
from saferank._core.flat import Ints
from saferank.errors import require
from saferank.policies.production import ProductionPolicy


def mix_policies(
    policies: Sequence[ProductionPolicy], sessions: Sequence[Ints], k: int
) -> ProductionPolicy:
    r"""The policy of all sessions together, query by query.

    .. math:: P(d, k) = \sum_r \frac{N_{q,r}}{N_q} P_r(d, k)

    Clicks of all rounds divided by the propensities of the mixture (the balance heuristic) are
    unbiased wherever *any* round could show the document, for policies and numbers of sessions
    that were fixed beforehand. Where a round's policy was chosen by the clicks of earlier rounds
    there is a bias that vanishes with the sessions, as fast as the standard error does.

    Parameters
    ----------
    policies
        What each round did, on the same documents.
    sessions
        Of each round, one number per query.
    k
        Number of ranks.

    Returns
    -------
    ProductionPolicy
        Of kind "recorded": all its probabilities are known. Queries without any session are taken
        to be shown as in the last round.

    Examples
    --------
    >>> always, never = (ProductionPolicy.sorted(s, [0, 2]) for s in ([1.0, 0.0], [0.0, 1.0]))
    >>> mix_policies([always, never], [np.array([3]), np.array([1])], k=2).table
    array([[0.75, 0.25],
           [0.25, 0.75]])
    """
    require(len(policies) > 0, "policies", "at least one", len(policies))
    same = len(policies) == len(sessions)
    require(same, "sessions", f"of {len(policies)} rounds", len(sessions))
    offsets = policies[0].offsets
    counted = np.stack([np.asarray(own, dtype=np.float64) for own in sessions])
    shape = (len(policies), offsets.size - 1)
    require(counted.shape == shape, "sessions", f"{shape}, rounds x queries", counted.shape)
    counted[-1, counted.sum(axis=0) == 0] = 1.0
    shares = counted / counted.sum(axis=0)
    table = np.zeros((int(offsets[-1]), k))
    for policy, share in zip(policies, shares, strict=True):
        agrees = np.array_equal(policy.offsets, offsets)
        require(agrees, "policies", "on the same documents", policy.kind)
        table += flat.repeat_per_document(share, offsets)[:, None] * policy.rank_probabilities(k)
    return ProductionPolicy.recorded(np.minimum(table, 1.0), offsets)
