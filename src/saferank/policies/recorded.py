r"""Propensities that production has recorded in the log, and whether the log agrees with them.

A log records :math:`P_0(d, k)` of what it shows. Propensities are believed where they tell nearly
all of what production may show, where those of a rank are at most 1 in all, and where documents
were shown as often as they say: one by one where they were seen often, and over all queries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank._core.tails import binomial_at_least, binomial_at_most, normal_tail, student_tail
from saferank.counts import Counts
from saferank.errors import InputError
from saferank.policies.production import ProductionPolicy, filled_ranks
from saferank.policies.production_fit import ProductionFit

LEVEL = 0.01
"""Of all tests together."""
TOLD = 0.95
"""Share of what production shows that must have a propensity."""
_LEAST = 10.0
_BINS = 10
_QUERIES = 20
_TINY = 1e-300


def by_propensities(counts: Counts) -> tuple[ProductionPolicy, ProductionFit]:
    """Production as recorded in the counts, and whether the log agrees.

    >>> even = Counts([0, 2], [[48, 52], [52, 48]], [[9, 9], [9, 9]],
    ...               propensity=[[0.5, 0.5], [0.5, 0.5]])
    >>> by_propensities(even)[1].fits
    True
    """
    recorded = counts.propensity
    if recorded is None:
        raise InputError(
            "`production policy` recorded needs propensities, which the counts do not have; count "
            "the log with --column propensity=NAME."
        )
    filled = filled_ranks(counts)
    most = float(flat.query_sums(recorded, counts.offsets).max(initial=0.0))
    recorded = of_sessions(recorded, counts, filled)
    policy = replace(ProductionPolicy.recorded(recorded, counts.offsets), filled=filled)
    share = told_share(counts, recorded, filled)
    if most > 1.001:
        problem = f"those of one rank add up to {most:.3g}"
    elif share < TOLD:
        problem = (
            f"they tell {share:.1%} of what production may show, as the log has them only for what "
            f"was shown"
        )
    else:
        cells = _Cells.of(counts, recorded)
        tests = (_by_cell(cells), _by_size(cells), _by_spread(cells, counts.queries))
        made = [p for p in tests if p is not None]
        p = min(1.0, len(made) * min(made, default=1.0))
        if made and p > LEVEL:
            sentence = "Production's propensities are those recorded in the log, which fits them."
            return policy, ProductionFit("recorded", True, sentence)
        if made:
            problem = f"documents were not shown as often as they say (p = {p:.2g})"
        else:
            problem = "the log is too small to tell"
    sentence = f"Recorded propensities are not shown to fit: {problem}."
    return policy, ProductionFit("recorded", False, sentence)


def of_sessions(recorded: Floats, counts: Counts, filled: Floats | None) -> Floats:
    """Propensities per session, also where they were recorded given that the rank is shown.

    Where lists are not always full the two differ by the share of sessions that fill a rank; their
    sums over the documents of a rank tell which was meant.
    """
    if filled is None:
        return recorded
    sums = flat.query_sums(recorded, counts.offsets)
    there = flat.query_sums(counts.impressions, counts.offsets)
    given, whole = (float((there * np.abs(sums - to)).sum()) for to in (1.0, filled))
    if given >= whole:
        return recorded
    return recorded * flat.repeat_per_document(filled, counts.offsets)


def told_share(counts: Counts, recorded: Floats, filled: Floats | None) -> float:
    """Share of what is shown that has a propensity."""
    sums = flat.query_sums(recorded, counts.offsets)
    if filled is not None:
        sums = sums / np.maximum(filled, _TINY)
    shown = flat.query_sums(counts.impressions, counts.offsets).astype(np.float64)
    if counts.outside is not None:
        shown += counts.outside[0]
    return float((np.minimum(sums, 1) * shown).sum() / max(shown.sum(), 1.0))


def moments_if_seen(part: Floats, trials: Floats, chance: Floats) -> tuple[Floats, Floats]:
    r"""Mean and variance of impressions in some of the trials, given one in any of them.

    Only what was shown has a recorded propensity. With n of N trials and
    :math:`s = 1 - (1 - p)^N`, the mean is :math:`np/s` and that of the square
    :math:`(np(1-p) + (np)^2)/s`; where p is 0 both are 0.

    >>> moments_if_seen(np.array([1.0]), np.array([1.0]), np.array([0.5]))
    (array([1.]), array([0.]))
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # of propensities 1 and 0
        seen = np.where(chance > 0, -np.expm1(trials * np.log1p(-chance)), 1.0)
    mean = part * chance / seen
    square = (part * chance * (1 - chance) + (part * chance) ** 2) / seen
    return mean, np.maximum(square - mean**2, 0.0)


@dataclass(frozen=True, eq=False)
class _Cells:
    """Documents and ranks that have a propensity: how often they were shown, of how many rows.

    Only what was shown has one, so a cell's impressions follow the binomial law given that they are
    at least 1. The propensity is that of the documents of the rank: logs may lack rows.
    """

    query: Ints
    shown: Ints
    trials: Ints
    chance: Floats

    @classmethod
    def of(cls, counts: Counts, recorded: Floats) -> _Cells:
        at_rank = flat.query_sums(counts.impressions, counts.offsets)
        # What was never shown has its share of the rank, too: recorded ones do not add up to all.
        filled = at_rank / np.maximum(counts.sessions, 1)[:, None]
        total = np.maximum(flat.query_sums(recorded, counts.offsets), filled)
        sums, trials = (flat.repeat_per_document(x, counts.offsets) for x in (total, at_rank))
        chance = np.minimum(recorded / np.maximum(sums, _TINY), 1.0)
        seen = (recorded > 0) & (counts.impressions > 0) & (chance < 1)
        query = np.broadcast_to(flat.query_of(counts.offsets)[:, None], recorded.shape)
        return cls(
            query[seen],
            counts.impressions[seen],
            trials[seen],
            chance[seen],
        )

    def moments(self) -> tuple[Floats, Floats]:
        """Mean and variance of impressions, given that there is one."""
        trials = self.trials.astype(np.float64)
        return moments_if_seen(trials, trials, self.chance)

    def often(self) -> _Cells:
        """Those that should have been seen ten times: nearly all such cells were."""
        chosen = self.trials * self.chance >= _LEAST
        return _Cells(
            self.query[chosen], self.shown[chosen], self.trials[chosen], self.chance[chosen]
        )


def _by_cell(cells: _Cells) -> float | None:
    """The smallest p-value of a cell, times their number (Bonferroni); none where there is none."""
    often = cells.often()
    if often.shown.size == 0:
        return None
    of = often.trials, often.chance
    tail = np.minimum(binomial_at_least(often.shown, *of), binomial_at_most(often.shown, *of))
    return float(min(1.0, 2 * tail.min() * often.shown.size))


def _by_size(cells: _Cells) -> float | None:
    """Cells of propensities of like size together."""
    mean, variance = cells.moments()
    if cells.shown.size < _BINS:
        return None
    edges = np.quantile(cells.chance, np.linspace(0, 1, _BINS + 1)[1:-1])
    bins = np.searchsorted(edges, cells.chance)
    off = np.bincount(bins, cells.shown - mean, _BINS)
    spread = np.bincount(bins, variance, _BINS)
    tested = spread >= _LEAST
    if not tested.any():
        return None
    surprise = np.abs(off[tested]) / np.sqrt(spread[tested])
    return float(min(1.0, 2 * normal_tail(surprise.max()) * int(tested.sum())))


def _by_spread(cells: _Cells, queries: int) -> float | None:
    """Whether impressions of cells of a query differ more than by chance, over all queries.

    Squared distances from the mean, less the variance and in units of it, have mean 0 if the
    propensities are right. Cells of a query depend on each other, so that queries are summed
    first and their own spread is taken: it needs a number of them.
    """
    mean, variance = cells.moments()
    varies = variance > _TINY
    excess = ((cells.shown - mean) ** 2 - variance)[varies] / variance[varies]
    sums = np.bincount(cells.query[varies], excess, queries)
    seen = np.bincount(cells.query[varies], minlength=queries) > 0
    each = sums[seen]
    if each.size < _QUERIES or not each.any():
        return None
    return float(2 * student_tail(abs(each.sum()) / np.sqrt(each @ each), each.size - 1))
