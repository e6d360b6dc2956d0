r"""Position bias by intervention harvesting: the clicks of a document, shared out over its ranks.

No relevance is fitted. A document with n_k impressions at rank k has :math:`n_k \alpha_k R` clicks
there on average, so of its clicks C, whatever R is, a share

.. math:: \pi_k = \frac{n_k \alpha_k}{\sum_j n_j \alpha_j}

belongs to rank k. Alpha is where the clicks at every rank are what these shares say:
:math:`\sum_d c_{dk} = \sum_d C_d \pi_{dk}`, which maximises the concave
:math:`\sum_{d,k} c_{dk} \log \pi_{dk}` in :math:`\log \alpha`. The equations hold on average
however few clicks a document has. A finite maximum exists if and only if, from any rank to any
other, there is a chain of documents shown at one and clicked at the next (Ford, 1957).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from saferank._core.flat import Array, Floats, Ints
from saferank.clicks.bias.em import Cells
from saferank.clicks.bias.folds import Folds
from saferank.clicks.bias.scale import Canonical, LeftOut
from saferank.errors import InputError

_MOST_STEPS = 100


def harvest_position(
    cells: Cells, reference: int, folds: Folds | None
) -> tuple[Canonical, LeftOut | None]:
    """Slopes of ranks against the reference, and those without each part of the log."""
    shown_at = np.flatnonzero(cells.shown.any(axis=0))
    table = _Table.of(cells, shown_at, folds)
    base = int(np.searchsorted(shown_at, reference - 1))
    _check_chain(table.chains().sum(axis=0), shown_at, base)
    logs = _maximum(table, base)
    ranks = cells.shown.shape[1]
    estimate = Canonical(_at(np.exp(logs), shown_at, ranks), np.zeros(ranks))
    if folds is None:
        return estimate, None
    without = _without_each(table, logs, base)
    return estimate, LeftOut(_at(np.exp(without), shown_at, ranks), np.zeros((folds.count, ranks)))


class _Table:
    """Documents clicked and seen at several ranks, ordered by part, at the ranks shown."""

    def __init__(self, shown: Floats, clicked: Floats, fold: Ints, folds: int) -> None:
        order = np.argsort(fold, kind="stable")
        self.shown, self.clicked = shown[order], clicked[order]
        self.clicks = self.clicked.sum(axis=1)
        cuts = np.searchsorted(fold[order], np.arange(folds + 1))
        self.parts = [slice(*pair) for pair in pairwise(cuts.tolist())]

    @classmethod
    def of(cls, cells: Cells, shown_at: Ints, folds: Folds | None) -> _Table:
        several = np.count_nonzero(cells.shown, axis=1) > 1
        used = np.flatnonzero(several & cells.clicked.any(axis=1))
        fold = np.zeros(used.size, dtype=np.int64) if folds is None else folds.of_document[used]
        at = np.ix_(used, shown_at)
        return cls(cells.shown[at], cells.clicked[at], fold, 1 if folds is None else folds.count)

    def chains(self) -> Floats:
        """Of each part: documents shown at one rank (rows) and clicked at another (columns)."""
        shown, clicked = (self.shown > 0).astype(float), (self.clicked > 0).astype(float)
        return np.array([shown[part].T @ clicked[part] for part in self.parts])

    def shares(self, logs: Floats) -> Floats:
        """Of the clicks on each document, the share of each rank."""
        weight = self.shown * np.exp(logs - logs.max())
        share: Floats = weight / weight.sum(axis=1, keepdims=True)
        return share

    def value(self, logs: Floats) -> float:
        """What is maximised."""
        share = self.shares(logs)
        return float(np.sum(self.clicked * np.log(np.where(share > 0, share, 1.0))))

    def derivatives(self, logs: Floats) -> tuple[Floats, Floats]:
        """Of each part: clicks at each rank beyond what shares say, and minus the Hessian."""
        share = self.shares(logs)
        expected = self.clicks[:, None] * share
        excess = self.clicked - expected
        slope = np.array([excess[part].sum(axis=0) for part in self.parts])
        bend = np.array([-expected[part].T @ share[part] for part in self.parts])
        diagonal = np.arange(logs.size)
        bend[:, diagonal, diagonal] += [expected[part].sum(axis=0) for part in self.parts]
        return slope, bend


def _maximum(table: _Table, base: int) -> Floats:
    """Logarithms of alpha, 0 at the base, by Newton's steps, halved where they overshoot."""
    free = np.flatnonzero(np.arange(table.shown.shape[1]) != base)
    logs: Floats = np.log(table.clicked.sum(axis=0) / table.shown.sum(axis=0))
    logs -= logs[base]
    value = table.value(logs)
    for _ in range(_MOST_STEPS):
        slope, bend = (part.sum(axis=0) for part in table.derivatives(logs))
        step = np.zeros(logs.size)
        step[free] = np.linalg.solve(bend[np.ix_(free, free)], slope[free])
        if np.abs(step).max() < 1e-10:
            return logs + step
        for _ in range(40):
            after = table.value(logs + step)
            if after >= value - 1e-12 * abs(value):
                break
            step /= 2
        logs, value = logs + step, after
    raise InputError(
        f"the fit of position bias did not come to rest in {_MOST_STEPS} steps: there are too few "
        "clicks on documents seen at several ranks."
    )


def _without_each(table: _Table, logs: Floats, base: int) -> Floats:
    """Logarithms of alpha without each part, one Newton step away; NaN where there is none."""
    free = np.flatnonzero(np.arange(logs.size) != base)
    slope, bend = table.derivatives(logs)
    chains = table.chains()
    whole, total = bend.sum(axis=0), chains.sum(axis=0)
    without = np.full((len(table.parts), logs.size), np.nan)
    for part in range(len(table.parts)):
        if _groups(total - chains[part])[0] > 1:
            continue
        rest = (whole - bend[part])[np.ix_(free, free)]
        without[part] = logs
        without[part, free] -= np.linalg.solve(rest, slope[part, free])
    return without


def _groups(chains: Floats) -> tuple[int, Array]:
    """Ranks between which there are chains both ways."""
    from scipy.sparse.csgraph import connected_components

    count, group = connected_components(chains > 0, directed=True, connection="strong")
    return int(count), group


def _check_chain(chains: Floats, shown_at: Ints, base: int) -> None:
    count, group = _groups(chains)
    if count > 1:
        apart = ", ".join(str(rank + 1) for rank in shown_at[group != group[base]])
        raise InputError(
            f"alpha cannot be told at rank {apart} beside rank {shown_at[base] + 1}: of documents "
            "seen at several ranks there are clicks on one side only, or none; take more "
            "sessions, count fewer ranks, or let features describe relevance."
        )


def _at(values: Floats, shown_at: Ints, ranks: int) -> Floats:
    """Values of all ranks: NaN where nothing was shown."""
    full = np.full((*values.shape[:-1], ranks), np.nan)
    full[..., shown_at] = values
    return full
