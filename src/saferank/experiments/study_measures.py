"""What is measured of a ranker, on the test queries, with the labels that no learner saw."""

from __future__ import annotations

import numpy as np

from saferank._core import flat
from saferank.clicks import ClickModel, relevance
from saferank.data import Collection
from saferank.learning import Ranker
from saferank.metrics import mean, ndcg
from saferank.plackett_luce import expected_ndcg, exposure
from saferank.safety import certify

MEASURES = ("expected", "sorted", "utility", "production_utility", "bound", "distance")


def measure(
    ranker: Ranker, production: Ranker, collection: Collection, click_model: ClickModel
) -> dict[str, float]:
    r"""NDCG of the ranker, its true utility against production's, and how far it moved.

    `expected`: mean expected NDCG@K of its Plackett-Luce policy; `sorted`: NDCG@K of its scores
    sorted; `utility`, `production_utility`: :math:`\sum_d \omega(d) P(R|d)`, mean over queries;
    `bound`: the certificate's largest loss of utility, for any relevance of the documents;
    `distance`: :math:`\sum_d |\omega - \omega_0| / 2 Z`, the share of exposure that moved.
    """
    test = collection.test
    scores, shown = ranker.scores(test), production.scores(test)
    k, weights = click_model.ranks, click_model.exposure_weights
    omega, omega0 = (exposure(values, weights, test.offsets) for values in (scores, shown))
    relevant = relevance(test.known_labels, collection.highest_grade)
    available = np.maximum(flat.query_sums(omega0, test.offsets), 1e-300)
    moved = flat.query_sums(np.abs(omega - omega0), test.offsets) / (2 * available)
    return {
        "expected": mean(expected_ndcg(scores, test.known_labels, test.offsets, k)),
        "sorted": mean(ndcg(scores, test.known_labels, test.offsets, k)),
        "utility": float(flat.query_sums(omega * relevant, test.offsets).mean()),
        "production_utility": float(flat.query_sums(omega0 * relevant, test.offsets).mean()),
        "bound": certify(scores, test, production=shown, weights=weights).curve.loss(1.0),
        "distance": float(moved.mean()),
    }
