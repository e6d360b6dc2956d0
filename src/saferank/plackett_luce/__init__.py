"""Exact Plackett-Luce: exposure, its gradient and metrics without sampling."""

from saferank.plackett_luce.exact import (
    deterministic_exposure,
    expected_ndcg,
    exposure,
    exposure_gradient,
    rank_probabilities,
)

__all__ = [
    "deterministic_exposure",
    "expected_ndcg",
    "exposure",
    "exposure_gradient",
    "rank_probabilities",
]
