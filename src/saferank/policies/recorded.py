r"""Propensities that production has recorded in the log, and whether the log agrees with them.

A log records :math:`P_0(d, k)` of what it shows. Propensities are believed where they tell nearly
all of what production may show, where those of a rank are at most 1 in all, and where documents
were shown as often as they say. Cells are compared that should have been seen at least ten times:
so few of these are never shown that those that were stand for all.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import binom, norm

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank.counts import Counts
from saferank.errors import InputError
from saferank.policies.production import ProductionPolicy
from saferank.policies.production_fit import ProductionFit

LEVEL = 0.01
"""Of each of the two tests."""
TOLD = 0.95
"""Share of what production shows that must have a propensity."""
_LEAST = 10.0
_BINS = 10
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
    policy = ProductionPolicy.recorded(recorded, counts.offsets)
    told, most = _told(counts, recorded)
    if most > 1.001:
        problem = f"those of one rank add up to {most:.3g}"
    elif told < TOLD:
        problem = (
            f"they tell {told:.1%} of what production may show, as the log has them only for what "
            f"was shown"
        )
    else:
        p = min(1.0, 2 * min(_by_cell(counts, recorded), _by_size(counts, recorded)))
        if p > LEVEL:
            sentence = "Production's propensities are those recorded in the log, which fits them."
            return policy, ProductionFit("recorded", True, sentence)
        problem = f"documents were not shown as often as they say (p = {p:.2g})"
    sentence = f"Recorded propensities are not shown to fit: {problem}."
    return policy, ProductionFit("recorded", False, sentence)


def _told(counts: Counts, recorded: Floats) -> tuple[float, float]:
    """Share of what is shown that has a propensity, and the largest sum of a rank of a query."""
    sums = flat.query_sums(recorded, counts.offsets)
    shown = flat.query_sums(counts.impressions, counts.offsets).astype(np.float64)
    if counts.outside is not None:
        shown += counts.outside[0]
    told = float((np.minimum(sums, 1) * shown).sum() / max(shown.sum(), 1.0))
    return told, float(sums.max(initial=0.0))


def _cells(counts: Counts, recorded: Floats) -> tuple[Ints, Ints, Floats]:
    """Impressions, those of the query's rank, and propensity of cells that should be seen often.

    The propensity is that of the documents of the rank: logs may lack whole rows of a session.
    """
    sums, shown = (flat.query_sums(each, counts.offsets) for each in (recorded, counts.impressions))
    at_rank = flat.spread(shown, counts.offsets)
    chance = recorded / np.maximum(flat.spread(sums, counts.offsets), _TINY)
    often = at_rank * chance >= _LEAST
    return counts.impressions[often], at_rank[often], np.minimum(chance[often], 1.0)


def _by_cell(counts: Counts, recorded: Floats) -> float:
    """The smallest p-value of a cell, times their number (Bonferroni); 1 where there is none."""
    shown, trials, chance = _cells(counts, recorded)
    if shown.size == 0:
        return 1.0
    tail = np.minimum(binom.sf(shown - 1, trials, chance), binom.cdf(shown, trials, chance))
    return float(min(1.0, 2 * tail.min() * shown.size))


def _by_size(counts: Counts, recorded: Floats) -> float:
    """Cells of propensities of like size together, which tells where each was seen a few times."""
    shown, trials, chance = _cells(counts, recorded)
    if shown.size == 0:
        return 1.0
    edges = np.quantile(chance, np.linspace(0, 1, _BINS + 1)[1:-1])
    bins = np.searchsorted(edges, chance)
    off = np.bincount(bins, shown - trials * chance, _BINS)
    variance = np.bincount(bins, trials * chance * (1 - chance), _BINS)
    tested = variance > 0
    if not tested.any():
        return 1.0
    surprise = np.abs(off[tested]) / np.sqrt(variance[tested])
    return float(min(1.0, 2 * norm.sf(surprise.max()) * int(tested.sum())))
