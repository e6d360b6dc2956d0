"""The gradient of a sum of slope times exposure by sampling, as published studies do it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from saferank._core.flat import Floats


def on_threads(count: int, function: Callable[..., Any], *given: Any) -> Any:
    """A call with torch on so many threads: one is often faster than two for small queries."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        return function(*given)
    finally:
        torch.set_num_threads(before)


def torch_reinforce(scores: Floats, weights: Floats, slope: Floats, samples: int) -> Floats:
    """REINFORCE: Gumbel noise, full sort, log-probability of the top, mean reward, backward."""
    logits = torch.tensor(scores, dtype=torch.float32, requires_grad=True)
    w = torch.tensor(weights[: len(scores)], dtype=torch.float32)
    g = torch.tensor(slope, dtype=torch.float32)
    noise = -torch.log(torch.empty(samples, len(scores)).exponential_())
    ranking = torch.argsort(logits.detach() + noise, dim=1, descending=True)
    ranked = logits[ranking]
    left = torch.logcumsumexp(ranked.flip(1), dim=1).flip(1)
    log_probability = (ranked - left)[:, : len(w)].sum(dim=1)
    reward = (g[ranking[:, : len(w)]] * w).sum(dim=1)
    ((reward - reward.mean()) * log_probability).mean().backward()
    gradient: Floats = logits.grad.double().numpy()  # type: ignore[union-attr]
    return gradient


def numpy_pl_rank(
    scores: Floats, weights: Floats, slope: Floats, samples: int, rng: np.random.Generator
) -> Floats:
    """PL-Rank-3: Gumbel noise, partial sort, cumulative sums of rewards and chances."""
    w = weights[: len(scores)]
    keys = scores - np.log(rng.standard_exponential((samples, len(scores))))
    top = np.argpartition(-keys, min(len(w), len(scores) - 1), axis=1)[:, : len(w)]
    order = np.argsort(-np.take_along_axis(keys, top, axis=1), axis=1)
    ranking = np.take_along_axis(top, order, axis=1)
    rates = np.exp(scores - scores.max())
    placed = rates[ranking]
    left = rates.sum() - np.cumsum(placed, axis=1) + placed
    pay = w * slope[ranking]
    following = np.cumsum(pay[:, ::-1], axis=1)[:, ::-1]
    risk = np.cumsum(following / left, axis=1)
    direct = np.cumsum(w / left, axis=1)

    def of_documents(values: Floats) -> Floats:
        summed = np.bincount(ranking.ravel(), values.ravel(), minlength=len(scores))
        return summed.astype(np.float64)

    risks = risk[:, -1].sum() + of_documents(risk - risk[:, -1:])
    directs = direct[:, -1].sum() + of_documents(direct - direct[:, -1:])
    return (of_documents(following - pay) + rates * (slope * directs - risks)) / samples
