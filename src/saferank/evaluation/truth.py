"""The truth, where labels are known: utility and NDCG of a policy."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank.clicks import relevance
from saferank.data import RankingData
from saferank.evaluation.scored_policies import (
    Deployed,
    Policy,
    all_scores,
    check_policy,
    exposure_of,
    query_shares,
    rank_weights,
)
from saferank.metrics import mean, ndcg
from saferank.plackett_luce import expected_ndcg


@dataclass(frozen=True)
class Truth:
    """Against labels: utility (relevance is the share of the highest grade) and NDCG."""

    utility: float
    ndcg: float
    k: int

    def to_dict(self) -> dict[str, Any]:
        """The truth for JSON."""
        return asdict(self)


def truth(
    policy: Policy,
    data: RankingData,
    *,
    weights: npt.ArrayLike | None = None,
    traffic: npt.ArrayLike | None = None,
    deployed: Deployed = "sampled",
    highest: float | None = None,
) -> Truth:
    """Utility with the weights of ranks, and NDCG at as many ranks, from the labels.

    Parameters
    ----------
    policy
        A ranker, its scores (one per document), or a function of the data.
    data
        Labelled items.
    weights
        Of the ranks, K of them; by default the ranker's own, else DCG's of five ranks.
    traffic
        Sessions of each query; by default all are as frequent.
    deployed
        "sampled" or "sorted".
    highest
        The grade of relevance 1; by default the largest label of the data.

    Returns
    -------
    Truth
        Utility and NDCG, means over the traffic.

    Examples
    --------
    >>> from saferank.data import RankingData
    >>> items = RankingData(np.eye(2), offsets=[0, 2], labels=[0, 1])
    >>> truth([0.0, 9.0], items, deployed="sorted").ndcg
    1.0
    """
    labels = data.known_labels.astype(np.float64)
    checked = check_policy(policy, data, "policy")
    w = rank_weights(weights, checked)
    scores = all_scores(checked, data)
    omega = exposure_of(scores, w, data.offsets, deployed)
    top = float(labels.max(initial=0)) or 1.0 if highest is None else highest
    gained = flat.query_sums(omega * relevance(labels, top), data.offsets)
    metric = expected_ndcg if deployed == "sampled" else ndcg
    return Truth(
        float(query_shares(traffic, data.queries) @ gained),
        mean(metric(scores, labels, data.offsets, w.size)),
        int(w.size),
    )
