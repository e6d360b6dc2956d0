r"""Exact exposures in plain torch, for any device: products of polynomials in a tree.

At one time, the polynomial :math:`q_d + p_d z` of a document says whether it has arrived; products
are cut at K coefficients. Up the tree go products of documents; down goes, for each node, what the
product of all *other* documents makes of the weights:
``below[a] = sum_b sibling[b] above[a + b]``, from the weights at the root. At the leaf of d stands
the expected weight of d's rank if d arrives now. Queries and times are batched; a document that is
not there has rate 0, so padding changes nothing. Autograd differentiates all of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from saferank.plackett_luce import nodes

_VALUES_AT_A_TIME = 1 << 24


def tree_exposure(scores: Tensor, weights: Tensor, offsets: Tensor, grid: nodes.Grid) -> Tensor:
    """Exposure of each document; see `torch_exposure`, which checks and chooses the grid."""
    omega = torch.zeros_like(scores)
    for queries in _batches(offsets.cpu().numpy(), weights.numel()):
        place, there = _padded(offsets, queries.to(offsets.device))
        rows = scores[place].masked_fill(~there, -torch.inf)
        exposures = _of_rows(rows, weights, grid)
        omega = omega.index_put((place[there],), exposures[there])
    return omega


def _batches(offsets: np.ndarray[tuple[int], np.dtype[np.int64]], ranks: int) -> Iterator[Tensor]:
    """Queries that are not empty, those of similar size together, as many as memory is for."""
    sizes = np.diff(offsets)
    order = np.argsort(sizes, kind="stable")
    order = order[sizes[order] > 0]
    while order.size:
        room = _VALUES_AT_A_TIME // (64 * ranks)
        padded = sizes[order] * np.arange(1, order.size + 1)
        count = max(1, int(np.searchsorted(padded, room, side="right")))
        yield torch.from_numpy(order[:count])
        order = order[count:]


def _padded(offsets: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
    """Positions of the documents of each query in a row, and which of the row are there."""
    first, size = offsets[queries], offsets[queries + 1] - offsets[queries]
    column = torch.arange(int(size.max()), device=offsets.device)
    there = column < size[:, None]
    return torch.where(there, first[:, None] + column, first[:, None]), there


def _of_rows(rows: Tensor, weights: Tensor, grid: nodes.Grid) -> Tensor:
    """Exposures of queries x documents, where documents at -inf are not there."""
    scores, last, behind = _close_gaps(rows, weights.numel(), grid.tolerance)
    origin, window = _windows(scores.detach(), last, behind, grid)
    count = int(torch.ceil(window.max() / grid.step))
    step = (window / count)[:, None]
    omega = torch.zeros_like(rows)
    at_a_time = max(1, _VALUES_AT_A_TIME // (rows.numel() * weights.numel()))
    for times in torch.split(torch.arange(count, device=rows.device), at_a_time):
        y = grid.left + (times + 0.5) * step
        curve = torch.exp(nodes.BEND - y)
        share = _at_times(scores, y - curve - origin[:, None], weights)
        omega = omega + (share * ((1 + curve) * step)[:, :, None]).sum(dim=1)
    return omega


def _close_gaps(rows: Tensor, ranks: int, tolerance: float) -> tuple[Tensor, Tensor, Tensor]:
    """Scores from 0 down with wide gaps between the top ones closed, as in `nodes.close_gaps`.

    No wider than the tolerance asks for, as memory grows with the window. Also the score of the
    last that gets a rank, and how many get one before it.
    """
    sizes = torch.isfinite(rows).sum(dim=1, keepdim=True)
    top = torch.topk(rows.detach(), min(ranks, rows.shape[1]), dim=1).values
    final = torch.clamp(sizes, max=top.shape[1]) - 1
    top = torch.where(torch.isfinite(top), top, top.gather(1, final))
    gaps = torch.clamp(top[:, :-1] - top[:, 1:], max=12 - np.log(tolerance))
    place = pad(-torch.cumsum(gaps, dim=1), (1, 0))
    rank = ((top[:, None, :] >= rows.detach()[:, :, None]).sum(dim=2) - 1).clamp(min=0)
    closed = place.gather(1, rank) - (top.gather(1, rank) - rows)
    return closed, place.gather(1, final), final


def _windows(
    scores: Tensor, last: Tensor, behind: Tensor, grid: nodes.Grid
) -> tuple[Tensor, Tensor]:
    """Log of the sum of the rates of each query, and the length of its window in y."""
    origin = torch.logsumexp(scores, dim=1)
    rest = torch.exp(torch.clamp(scores - last, max=0)).sum(dim=1) - behind[:, 0]
    end = np.log(grid.rho) - torch.log(rest) - last[:, 0] + origin
    return origin, end + torch.exp(nodes.BEND - end) - grid.left


def _at_times(scores: Tensor, tau: Tensor, weights: Tensor) -> Tensor:
    """x q times the expected weight of each document's rank: queries x times x documents."""
    x = torch.exp(torch.clamp(scores[:, None, :] + tau[:, :, None], max=6.5))
    q = torch.exp(-x)
    leaves = torch.stack([q, -torch.expm1(-x)], dim=3)
    leaves = pad(leaves, (0, max(0, weights.numel() - 2)))[..., : weights.numel()]
    return x * q * _others(leaves, weights)[:, :, : scores.shape[1]]


def _others(leaves: Tensor, weights: Tensor) -> Tensor:
    """sum_b w_b times coefficient b of the product of all other leaves, at each leaf."""
    levels = [leaves]
    while levels[-1].shape[2] > 1:
        if levels[-1].shape[2] % 2:  # an odd one out is multiplied by 1
            unit = torch.zeros_like(levels[-1][:, :, :1])
            unit[..., 0] = 1
            levels[-1] = torch.cat([levels[-1], unit], dim=2)
        levels.append(_product(levels[-1][:, :, 0::2], levels[-1][:, :, 1::2]))
    carried = weights.expand_as(levels.pop())
    for level in reversed(levels):
        carried = carried[:, :, : level.shape[2] // 2]
        pair = [_carry(level[:, :, 1::2], carried), _carry(level[:, :, 0::2], carried)]
        carried = torch.stack(pair, dim=3).flatten(2, 3)
    return carried[..., 0]


def _product(first: Tensor, second: Tensor) -> Tensor:
    """Product of polynomials, cut at as many coefficients as they have."""
    ranks = first.shape[-1]
    terms = [pad(first[..., b : b + 1] * second[..., : ranks - b], (b, 0)) for b in range(ranks)]
    return torch.stack(terms).sum(dim=0)


def _carry(sibling: Tensor, above: Tensor) -> Tensor:
    """below[a] = sum_b sibling[b] above[a + b]."""
    ranks = above.shape[-1]
    terms = [pad(sibling[..., b : b + 1] * above[..., b:], (0, b)) for b in range(ranks)]
    return torch.stack(terms).sum(dim=0)
