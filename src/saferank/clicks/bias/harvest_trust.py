r"""Trust bias by intervention harvesting: click rates of the same documents at two ranks.

No relevance is fitted. Click probabilities x, y of documents at two ranks lie on a line. Their
moments over documents are estimated without bias from noisy click rates (:math:`c(c-1)/n(n-1)` has
mean :math:`x^2`; rates at different ranks are independent), a document weighing nm/(n+m). With x
and y measured in units of their noise, the 2 x 2 matrix of variances and covariance S of a pair
would have rank one, in the direction

.. math:: u(\varphi) = (\cos\varphi, \sin\varphi), \qquad
          \tan\varphi_{jk} = \frac{\alpha_k / \sigma_k}{\alpha_j / \sigma_j}.

The slopes are those whose directions explain most: they maximise
:math:`\sum_{j<k} u(\varphi_{jk})^T S_{jk}\, u(\varphi_{jk})` over all pairs of ranks at once.
Intercepts follow from the means by weighted least squares. Nothing is divided by an estimated
variance, so that weak pairs do no harm.
"""

from __future__ import annotations

import numpy as np

from saferank._core.flat import Floats, Ints
from saferank.clicks.bias.em import Cells
from saferank.clicks.bias.folds import Folds
from saferank.clicks.bias.scale import Canonical, LeftOut
from saferank.errors import InputError

LEAST_SHOWN = 2
"""Impressions of a document at each of two ranks: a variance needs two."""
_LARGEST = np.log(1e4)


def harvest_trust(
    cells: Cells, reference: int, folds: Folds | None
) -> tuple[Canonical, LeftOut | None]:
    """Slopes and intercepts against the reference, and those without each part of the log."""
    moments = _moments(cells, folds)
    pairs = _Pairs(cells, moments[0], reference - 1)
    whole = pairs.standardise(moments[1].sum(axis=0))
    logs = pairs.maximum(whole)
    ranks = cells.shown.shape[1]
    estimate = Canonical(*_full(pairs, logs, pairs.intercepts(whole, logs), ranks))
    if folds is None:
        return estimate, None
    rest = pairs.standardise(moments[1].sum(axis=0) - moments[1])
    without = pairs.nearby(rest, np.repeat(logs[None], folds.count, axis=0), steps=3)
    return estimate, LeftOut(*_full(pairs, without, pairs.intercepts(rest, without), ranks))


def _moments(cells: Cells, folds: Folds | None) -> tuple[Ints, Floats]:
    """Pairs of ranks with documents at both; of each part and pair w, wx, wy, wxx, wyy, wxy."""
    ranks, parts = cells.shown.shape[1], 1 if folds is None else folds.count
    enough = cells.shown >= LEAST_SHOWN
    pairs, sums = [], []
    for first in range(ranks):
        for second in range(first + 1, ranks):
            at = np.flatnonzero(enough[:, first] & enough[:, second])
            if at.size == 0:
                continue
            n, m, c, d = (
                table[at, rank]
                for table in (cells.shown, cells.clicked)
                for rank in (first, second)
            )
            x, y, w = c / n, d / m, n * m / (n + m)
            terms = (1.0, x, y, x * (c - 1) / (n - 1), y * (d - 1) / (m - 1), x * y)
            part = np.zeros(at.size, dtype=np.int64) if folds is None else folds.of_document[at]
            sums.append([np.bincount(part, w * term, minlength=parts) for term in terms])
            pairs.append((first, second))
    # (pair, term, part) to (part, pair, term)
    return np.array(pairs, dtype=np.int64), np.array(sums).transpose(2, 0, 1)


class _Moments:
    """Weights, means, and variances in units of the noise, of each pair (last axis)."""

    def __init__(self, sums: Floats, first: Floats, second: Floats) -> None:
        self.weight = sums[..., 0]
        weight = np.where(self.weight > 0, self.weight, 1.0)
        self.x, self.y = sums[..., 1] / weight, sums[..., 2] / weight
        self.xx = (sums[..., 3] - self.weight * self.x**2) / first**2
        self.yy = (sums[..., 4] - self.weight * self.y**2) / second**2
        self.xy = (sums[..., 5] - self.weight * self.x * self.y) / (first * second)
        self.total = self.weight.sum(axis=-1)


class _Pairs:
    """The pairs of ranks that documents connect, and what is maximised over them."""

    def __init__(self, cells: Cells, pairs: Ints, reference: int) -> None:
        self.ranks = np.flatnonzero(cells.shown.any(axis=0))
        self.free = np.flatnonzero(self.ranks != reference)
        shown, clicked = (table[:, self.ranks].sum(axis=0) for table in cells[:2])
        rate = (clicked + 0.5) / (shown + 1)
        noise = np.sqrt(rate * (1 - rate))
        self.first, self.second = np.searchsorted(self.ranks, pairs).T
        self.noise = noise[self.first], noise[self.second]
        row = np.arange(len(pairs))
        self.ends = np.zeros((len(pairs), self.ranks.size))
        self.ends[row, self.second], self.ends[row, self.first] = 1.0, -1.0
        start = np.log(rate)
        self.start = start - start[np.searchsorted(self.ranks, reference)]

    def standardise(self, sums: Floats) -> _Moments:
        return _Moments(sums, *self.noise)

    def explained(self, moments: _Moments, logs: Floats) -> tuple[Floats, Floats, Floats]:
        """What the directions explain; its slope and curvature in the free log slopes."""
        apart = np.clip(logs @ self.ends.T, -50.0, 50.0)
        angle = np.arctan(np.exp(apart) * self.noise[0] / self.noise[1])
        sine, cosine = np.sin(2 * angle), np.cos(2 * angle)
        gap = moments.xx - moments.yy
        value = (moments.xx + moments.yy + gap * cosine) / 2 + moments.xy * sine
        turn = 2 * moments.xy * cosine - gap * sine  # derivative in the angle
        bend = -2 * gap * cosine - 4 * moments.xy * sine
        rate = sine / 2  # of the angle, in the logarithm of its tangent
        slope = turn * rate
        curvature = bend * rate**2 + turn * rate * cosine
        ends, total = self.ends[:, self.free], moments.total
        return (
            value.sum(axis=-1) / total,
            slope @ ends / total[..., None],
            (curvature[..., None, :] * ends.T) @ ends / total[..., None, None],
        )

    def maximum(self, moments: _Moments) -> Floats:
        """Log slopes; `InputError` if there is no finite maximum."""
        from scipy import optimize

        def logs_of(free: Floats) -> Floats:
            logs = np.zeros(self.ranks.size)
            logs[self.free] = free
            return logs

        def loss(free: Floats) -> tuple[float, Floats]:
            value, slope, _ = self.explained(moments, logs_of(free))
            return -float(value), -slope

        optimum = optimize.minimize(
            loss,
            self.start[self.free],
            jac=True,
            hess=lambda free: -self.explained(moments, logs_of(free))[2],
            method="trust-exact",
            options={"gtol": 1e-10, "maxiter": 500, "max_trust_radius": 4.0},
        )
        logs = logs_of(optimum.x)
        self._check(moments, logs)
        polished: Floats = self.nearby(moments, logs[None], steps=2)[0]
        return polished

    def _check(self, moments: _Moments, logs: Floats) -> None:
        _, slope, curvature = self.explained(moments, logs)
        level, direction = np.linalg.eigh(curvature)
        scale = float(np.sum(np.abs(moments.xx) + np.abs(moments.yy)) / moments.total)
        # A flat direction, or one that leads to 0 or infinity: documents do not differ there.
        rest = np.abs(slope).max() <= 1e-6 * scale
        if rest and level[-1] < -1e-9 * scale and np.abs(logs).max() < _LARGEST:
            return
        lost = np.abs(logs) >= _LARGEST
        index = np.argmax(lost) if lost.any() else self.free[np.abs(direction[:, -1]).argmax()]
        raise InputError(
            f"trust bias cannot be told at rank {self.ranks[index] + 1}: with the noise taken out, "
            "documents seen there and at other ranks do not differ in clicks; take more sessions, "
            "count fewer ranks, or fit position bias."
        )

    def nearby(self, moments: _Moments, logs: Floats, *, steps: int) -> Floats:
        """Log slopes of slightly different moments (rows), by Newton's steps; NaN if they fail."""
        near, lost = logs.copy(), np.zeros(len(logs), dtype=bool)
        for _ in range(steps):
            _, slope, curvature = self.explained(moments, near)
            slope, curvature = np.atleast_2d(slope), curvature.reshape(-1, *curvature.shape[-2:])
            lost |= np.linalg.eigvalsh(curvature)[:, -1] >= 0
            curvature[lost] = -np.eye(self.free.size)
            step = -np.linalg.solve(curvature, slope[..., None])[..., 0]
            lost |= np.abs(step).max(axis=1) > 1
            near[np.ix_(~lost, self.free)] += step[~lost]
        near[lost] = np.nan
        return near

    def intercepts(self, moments: _Moments, logs: Floats) -> Floats:
        """B of each rank, by weighted least squares over the pairs' means."""
        slope = np.exp(logs @ self.ends.T)
        weight = moments.weight / (self.noise[1] ** 2 + slope**2 * self.noise[0] ** 2)
        design = np.where(self.ends > 0, 1.0, -slope[..., None] * (self.ends < 0))[..., self.free]
        square = np.swapaxes(design * weight[..., None], -1, -2) @ design
        right = ((weight * (moments.y - slope * moments.x))[..., None, :] @ design)[..., 0, :]
        intercept = np.zeros(logs.shape)
        intercept[..., self.free] = np.linalg.solve(square, right[..., None])[..., 0]
        return intercept


def _full(pairs: _Pairs, logs: Floats, intercept: Floats, ranks: int) -> tuple[Floats, Floats]:
    """Slopes and intercepts of all ranks: NaN where nothing was shown."""
    slope = np.full((*logs.shape[:-1], ranks), np.nan)
    level = slope.copy()
    slope[..., pairs.ranks], level[..., pairs.ranks] = np.exp(logs), intercept
    return slope, level
