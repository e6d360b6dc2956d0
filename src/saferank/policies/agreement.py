"""Does a log fit the policy that is said to have made it?

Under a Plackett-Luce policy with known scores, document d is at rank k of a session with
probability P(d, k), so the documents that were shown at one rank of a query are multinomial and

.. math:: X_k = \\sum_d \\frac{(n_{dk} - n_k P(d, k))^2}{n_k P(d, k)},
          \\qquad n_k = \\sum_d n_{dk}

is nearly chi-square. Documents that are expected less than five times share one cell; where that
cell too is expected less than five times, it is left to a binomial test of its own, and the others
are compared among themselves. The ranks of a session depend on each other, so a query's p-value is
the smallest of its tests times their number (Bonferroni), which holds whatever the dependence.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import bdtrc, chdtrc

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank._core.kernels import kernel
from saferank.counts.arrays import Counts
from saferank.errors import require
from saferank.plackett_luce import rank_probabilities

EXPECTED = 5.0
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class ProductionCheck:
    """How well a log fits the policy that is said to have made it."""

    p_values: Floats
    """One per query; NaN where it was shown too little to tell."""
    distance: Floats
    """Share of a query's impressions that would have to move to fit; NaN if it has none."""
    impossible: int
    """Impressions of documents that the policy would practically never put there."""
    weight: Ints
    """Impressions of each query."""
    level: float
    one_list: float
    """Share of the seen queries that show one document per rank, always the same."""

    @property
    def tested(self) -> int:
        """Queries that were shown often enough to tell."""
        return int(np.count_nonzero(~np.isnan(self.p_values)))

    @property
    def rejected(self) -> int:
        """Queries whose log does not fit at the level of the test."""
        return int(np.count_nonzero(self.p_values < self.level))

    @property
    def mean_distance(self) -> float:
        """The distance over all impressions."""
        seen = self.weight > 0
        if not seen.any():
            return float("nan")
        return float(np.average(self.distance[seen], weights=self.weight[seen]))

    @property
    def fits(self) -> bool | None:
        """Whether rejections are as few as chance allows; none where nothing could be tested."""
        if self.tested == 0 and self.impossible == 0:
            return None
        surprise = bdtrc(self.rejected - 1, max(1, self.tested), self.level)
        return bool(self.impossible == 0 and surprise > self.level * (1 + 1e-9))

    def to_dict(self) -> dict[str, Any]:
        """The check for JSON."""
        scalars = {k: v for k, v in asdict(self).items() if not isinstance(v, np.ndarray)}
        return {
            **scalars,
            "tested": self.tested,
            "rejected": self.rejected,
            "mean_distance": self.mean_distance,
            "fits": self.fits,
        }

    def sentence(self) -> str:
        """The outcome in one sentence."""
        if self.fits is None:
            return "No query was shown often enough to compare the log with production's scores."
        verdict = "fits" if self.fits else "does not fit"
        text = (
            f"The log {verdict} production's scores: {self.rejected:,} of {self.tested:,} queries "
            f"differ at level {self.level:g} (by chance about {self.level * self.tested:.3g}), "
            f"{self.mean_distance:.1%} of the impressions lie elsewhere than expected"
        )
        if self.impossible:
            text += f", and {self.impossible:,} where the scores put them practically never"
        if not self.fits and self.one_list > 0.5:
            text += (
                f"; {self.one_list:.0%} of the queries always show the same list, so production "
                f"seems to sort rather than to draw"
            )
        return text + "."


def check_production(
    counts: Counts, scores: npt.ArrayLike, *, temperature: float = 1.0, level: float = 0.01
) -> ProductionCheck:
    """Compare a log with the Plackett-Luce policy of production's scores, query by query.

    `temperature` divides the scores; `level` is that of each query's test.

    Parameters
    ----------
    counts
        What was shown.
    scores
        Production's, one per document.
    temperature
        What the scores are divided by.
    level
        Of each query's test.

    Returns
    -------
    ProductionCheck
        `fits`, and a sentence on it.

    Examples
    --------
    >>> fair = Counts([0, 2], [[52, 48], [48, 52]], [[0, 0], [0, 0]])
    >>> check_production(fair, [0.0, 0.0]).fits
    True
    >>> check_production(fair, [3.0, 0.0]).fits
    False
    """
    require(temperature > 0, "temperature", "positive", temperature)
    require(0 < level < 1, "level", "in (0, 1)", level)
    values = flat.check_values("scores", scores, counts.offsets)
    return check_table(
        counts, rank_probabilities(values / temperature, counts.ranks, counts.offsets), level
    )


def check_table(counts: Counts, claimed: Floats, level: float = 0.01) -> ProductionCheck:
    """The same for any policy that is known: P(document at rank), documents x ranks."""
    observed = counts.impressions.astype(np.float64)
    at_rank = flat.repeat_per_document(flat.query_sums(observed, counts.offsets), counts.offsets)
    p_values = _p_values(observed, at_rank * claimed, counts.offsets)
    tests = np.count_nonzero(~np.isnan(p_values), axis=1)
    smallest = np.fmin.reduce(p_values, axis=1)
    moved = flat.query_sums(np.abs(observed - at_rank * claimed).sum(axis=1) / 2, counts.offsets)
    shown = flat.query_sums(counts.impressions.sum(axis=1), counts.offsets)
    return ProductionCheck(
        p_values=np.minimum(1.0, smallest * tests),
        distance=np.divide(moved, shown, out=np.full(shown.size, np.nan), where=shown > 0),
        impossible=int(counts.impressions[claimed < _TINY].sum()),
        weight=shown,
        level=level,
        one_list=_one_list(counts),
    )


def _one_list(counts: Counts) -> float:
    """Share of the queries with several sessions that show one document at each rank."""
    different = flat.query_sums((counts.impressions > 0).astype(np.int64), counts.offsets)
    several = counts.sessions > 1
    if not several.any():
        return 0.0
    return float(np.mean(np.all(different[several] <= 1, axis=1)))


def _p_values(observed: Floats, expected: Floats, offsets: Ints) -> Floats:
    """Two tests of each rank of each query, side by side; NaN where there is nothing to test."""
    statistic, freedom, seen, chance, shown = _cells(observed, expected, offsets)
    common = np.where(freedom > 0, chdtrc(np.maximum(freedom, 1), statistic), np.nan)
    rare = np.where(
        chance > 0, bdtrc(seen - 1, shown.astype(np.int64), np.maximum(chance, _TINY)), np.nan
    )
    return np.hstack([common, rare])


@kernel
def _cells(
    observed: Floats, expected: Floats, offsets: Ints
) -> tuple[Floats, Ints, Floats, Floats, Floats]:
    """Of each query and rank: chi-square and its freedom; rare documents, their chance, and all."""
    shape = (offsets.size - 1, observed.shape[1])
    statistic, freedom = np.zeros(shape), np.zeros(shape, dtype=np.int64)
    seen, chance, shown = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for query in range(shape[0]):
        first, last = offsets[query], offsets[query + 1]
        for rank in range(shape[1]):
            o, e = observed[first:last, rank], expected[first:last, rank]
            common = e >= EXPECTED
            total, rare_seen, rare = o.sum(), o[~common].sum(), e[~common].sum()
            alone = rare < EXPECTED
            cells = common.sum() if alone else common.sum() + 1
            shown[query, rank] = total
            freedom[query, rank] = max(0, cells - 1)
            if alone and total >= EXPECTED and rare > 0:
                seen[query, rank], chance[query, rank] = rare_seen, rare / total
            scale = (total - rare_seen) / (total - rare) if alone and total > rare else 1.0
            for document in range(e.size):
                if common[document]:
                    wanted = e[document] * scale
                    if wanted > 0:
                        statistic[query, rank] += (o[document] - wanted) ** 2 / wanted
            if not alone:
                statistic[query, rank] += (rare_seen - rare) ** 2 / rare
    return statistic, freedom, seen, chance, shown
