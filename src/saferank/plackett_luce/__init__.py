"""Exact Plackett-Luce: exposure, its gradient and metrics without sampling; and sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saferank.plackett_luce.exact import (
    deterministic_exposure,
    expected_ndcg,
    exposure,
    exposure_gradient,
    rank_probabilities,
)
from saferank.plackett_luce.exact import sorted_rank_probabilities as sorted_rank_probabilities
from saferank.plackett_luce.sampled_gradients import GRADIENTS
from saferank.plackett_luce.sampling import log_probability, sample

if TYPE_CHECKING:
    from saferank.plackett_luce.differentiable import torch_exposure

__all__ = [
    "GRADIENTS",
    "deterministic_exposure",
    "expected_ndcg",
    "exposure",
    "exposure_gradient",
    "log_probability",
    "rank_probabilities",
    "sample",
    "torch_exposure",
]


def __getattr__(name: str) -> Any:
    if name == "torch_exposure":  # torch is imported when it is used
        from saferank.plackett_luce.differentiable import torch_exposure

        return torch_exposure
    raise AttributeError(f"module 'saferank.plackett_luce' has no attribute {name!r}")
