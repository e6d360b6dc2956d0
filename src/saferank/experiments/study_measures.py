"""What is measured of a ranker, on the test queries, with the labels that no learner saw."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats
from saferank.clicks import ClickModel, relevance
from saferank.data import Collection
from saferank.learning import Ranker
from saferank.metrics import mean, ndcg
from saferank.objectives.exposure import shortfall
from saferank.plackett_luce import expected_ndcg, exposure

MEASURES = ("expected", "sorted", "utility", "production_utility", "bound", "distance")


@dataclass(frozen=True, eq=False)
class Measuring:
    r"""NDCG of rankers, their true utility against production's, and how far they moved.

    `expected`: mean expected NDCG@K of the Plackett-Luce policy; `sorted`: NDCG@K of the scores
    sorted; `utility`, `production_utility`: :math:`\sum_d \omega(d) P(R|d)`, mean over queries;
    `bound`: the certificate's largest loss of utility, :math:`\sum_d \max(0, \omega_0 - \omega)`,
    for any relevance of the documents; `distance`: :math:`\sum_d |\omega - \omega_0| / 2 Z`, the
    share of exposure that moved.
    """

    production: Ranker
    collection: Collection
    click_model: ClickModel

    @cached_property
    def shown(self) -> Floats:
        """Production's exposures, computed once for all rankers."""
        return self._exposure(self.production.scores(self.collection.test))

    @cached_property
    def relevant(self) -> Floats:
        """P(R|d) by the labels."""
        return relevance(self.collection.test.known_labels, self.collection.highest_grade)

    def measure(self, ranker: Ranker) -> dict[str, float]:
        """The measures of one ranker."""
        test, k = self.collection.test, self.click_model.ranks
        scores = ranker.scores(test)
        omega, omega0 = self._exposure(scores), self.shown
        available = np.maximum(flat.query_sums(omega0, test.offsets), 1e-300)
        moved = flat.query_sums(np.abs(omega - omega0), test.offsets) / (2 * available)
        return {
            "expected": mean(expected_ndcg(scores, test.known_labels, test.offsets, k)),
            "sorted": mean(ndcg(scores, test.known_labels, test.offsets, k)),
            "utility": self._per_query(omega * self.relevant),
            "production_utility": self._per_query(omega0 * self.relevant),
            "bound": self._per_query(shortfall(omega, omega0, 1.0)),
            "distance": float(moved.mean()),
        }

    def _exposure(self, scores: Floats) -> Floats:
        return exposure(scores, self.click_model.exposure_weights, self.collection.test.offsets)

    def _per_query(self, values: Floats) -> float:
        return float(flat.query_sums(values, self.collection.test.offsets).mean())
