r"""Click models from documents with like features, where no document was seen at several ranks.

Documents that features expect at the same place of their lists (a group g) stand at different
ranks for other reasons than relevance: by what else was in the list. If features say all that
production knew of relevance, then given x the rank is independent of it, and with
:math:`P_{gk}` the share of the group's impressions at rank k

.. math:: \sum_i f(x_i)\,\bigl(1\{k_i = j\} - P_{g_i j}\bigr)
          \Bigl(\frac{c_i - B_{k_i}}{A_{k_i}} - \hat m(x_i)\Bigr) = 0 \quad\text{for every rank } j,

where :math:`A_k, B_k` tell the click rate at rank k from that at the reference. The equations are
linear in :math:`1/A_k` and :math:`B_k/A_k`; f = 1 gives those of position bias (B = 0), f = 1 and
:math:`f = \hat m` those of trust bias. They are doubly robust (g-estimation of a structural nested
mean model; Robins, 1994): right if groups describe ranks, whatever :math:`\hat m` predicts of the
click rate at the reference; or if predictions are right, whatever the groups; what is wrong of both
counts only by its product. With a document for a group and without predictions it is harvesting.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

from saferank._core.flat import Floats, Ints
from saferank._core.tails import chi_square_quantile
from saferank.clicks.bias.em import Cells
from saferank.clicks.bias.folds import Folds
from saferank.clicks.bias.scale import Canonical, LeftOut
from saferank.counts import Counts
from saferank.errors import InputError

LEAST_OVERLAP = 0.05
"""Overlap of two ranks, from 0 (no like documents) to 1 (the same), below which they are apart."""
LEAST_WORTH = 20.0
"""Sessions that a link between ranks has to be worth."""
FEWEST = 20
"""Documents of a group."""
_DEPTH = 7
_CUTS = 128


@dataclass(frozen=True, eq=False)
class LikeDocuments:
    """What features say of documents; one value per document, none of which saw its own clicks.

    Attributes
    ----------
    place : where in the list features expect it, on any scale.
    rate : predicted click rate at the reference rank.
    why : how both were predicted, in one sentence.

    See Also
    --------
    fit_position_bias : takes one as `like`.

    Examples
    --------
    >>> like = LikeDocuments(np.array([1.0, 2.0]), np.array([0.3, 0.1]), "by price")
    >>> like.rows(np.array([1])).rate
    array([0.1])
    """

    place: Floats
    rate: Floats
    why: str = ""

    def rows(self, documents: Ints) -> LikeDocuments:
        """The same for some documents."""
        return replace(self, place=self.place[documents], rate=self.rate[documents])


def place_groups(place: Floats, shown: Floats) -> Ints:
    """Groups of documents with like `place`, cut where the ranks that were shown differ most.

    Cuts go on while they tell ranks apart by more than chance: lists in random order are one group.

    >>> apart = np.repeat(np.eye(2), 30, axis=0)
    >>> np.unique(place_groups(np.arange(60.0), apart)).size
    2
    """
    order = np.argsort(place, kind="stable")
    values = place[order]
    sums = np.concatenate([np.zeros((1, shown.shape[1])), np.cumsum(shown[order], axis=0)])
    surprise = 0.5 * float(chi_square_quantile(1e-3 / _CUTS, max(1, shown.shape[1] - 1)))
    starts, waiting = [], [(0, place.size, 0)]
    while waiting:
        first, last, depth = waiting.pop()
        cut = None if depth == _DEPTH else _best_cut(sums, values, first, last, surprise)
        if cut is None:
            starts.append(first)
        else:
            waiting += [(first, cut, depth + 1), (cut, last, depth + 1)]
    group = np.empty(place.size, dtype=np.int64)
    group[order] = np.searchsorted(np.sort(starts), np.arange(place.size), side="right") - 1
    return group


def group_impressions(place: Floats, shown: Floats) -> Floats:
    """Impressions of each group of like documents, groups x ranks."""
    group = place_groups(place, shown)
    return np.array([np.bincount(group, at_rank) for at_rank in shown.T]).T


def _best_cut(sums: Floats, values: Floats, first: int, last: int, surprise: float) -> int | None:
    """Where the ranks on both sides differ most; None where they do not, beyond chance."""
    low, high = first + FEWEST, last - FEWEST
    if high < low:
        return None
    whole = _log_likelihood(sums[last] - sums[first])
    best, gain = None, surprise
    while True:  # candidates over the range, then ever closer around the best
        at = np.unique(np.linspace(low, high, _CUTS).astype(np.int64))
        at = at[values[at - 1] < values[np.minimum(at, values.size - 1)]]
        if at.size:
            sides = _log_likelihood(sums[at] - sums[first]), _log_likelihood(sums[last] - sums[at])
            gains = sides[0] + sides[1] - whole
            if gains.max() > gain:
                best, gain = int(at[np.argmax(gains)]), float(gains.max())
        step = (high - low) // (_CUTS - 1)
        if best is None or step <= 1:
            return best
        low, high = max(low, best - step), min(high, best + step)


def _log_likelihood(shown: Floats) -> Floats:
    """Of impressions by rank, with their own shares as probabilities."""
    total = shown.sum(axis=-1)
    found: Floats = xlogy(shown, shown).sum(axis=-1) - xlogy(total, total)
    return found


@dataclass(frozen=True, eq=False)
class FeatureOverlap:
    """How alike the documents of different ranks are, by groups of them."""

    share: Floats
    """0 where no documents are alike, 1 where they are the same: ranks x ranks."""
    worth: Floats
    """Sessions that comparing two ranks through them is worth."""
    shown: tuple[int, ...]

    @classmethod
    def of(cls, shown: Floats) -> FeatureOverlap:
        """Of impressions, groups x ranks."""
        n, m = shown[:, :, None], shown[:, None, :]
        worth = np.divide(n * m, n + m, out=np.zeros(np.broadcast(n, m).shape), where=n + m > 0)
        total = shown.sum(axis=0)
        most = np.maximum(total[:, None] + total, 1e-300)
        both = worth.sum(axis=0)
        share = np.divide(both * most, np.multiply.outer(total, total),
                          out=np.zeros(both.shape), where=both > 0)  # fmt: skip
        return cls(share, both, tuple((np.flatnonzero(total) + 1).tolist()))

    def components(self, least: float = LEAST_OVERLAP) -> list[list[int]]:
        """Ranks (from 1) that like documents connect, directly or not."""
        from scipy.sparse.csgraph import connected_components

        at = np.array(self.shown) - 1
        linked = (self.share >= least) & (self.worth >= LEAST_WORTH)
        _, part = connected_components(linked[np.ix_(at, at)], directed=False)
        return [(at[part == number] + 1).tolist() for number in np.unique(part)]

    def check(self) -> None:
        """`InputError` where features tell ranks apart."""
        groups = self.components()
        if len(groups) > 1:
            first, second = (_ranks(group) for group in groups[:2])
            raise InputError(
                "alpha cannot be told from relevance: features do not overlap across ranks, "
                f"{first} show other documents than {second}. Say so if lists were in random order "
                "(--policy uniform), serve chance (saferank explore), or bring a click model."
            )

    @property
    def sentence(self) -> str:
        """How much the ranks that are least alike overlap."""
        if len(self.shown) < 2:
            return "Only one rank was shown."
        at = np.array(self.shown) - 1
        apart = np.ix_(at, at)[0] < np.ix_(at, at)[1]
        levels = np.unique(self.share[np.ix_(at, at)][apart])
        weakest = max(level for level in levels.tolist() if len(self.components(level)) == 1)
        first, second = next(
            (int(a), int(b)) for a, b in np.argwhere(self.share == weakest) + 1 if a < b
        )
        worth = self.worth[first - 1, second - 1]
        return (
            f"Features overlap across ranks: in the weakest link that is needed, between ranks "
            f"{first} and {second}, by {weakest:.0%}, which is worth {worth:,.0f} sessions."
        )


def _ranks(group: list[int]) -> str:
    if len(group) == 1:
        return f"rank {group[0]}"
    whole = group == list(range(group[0], group[-1] + 1))
    said = f"{group[0]} to {group[-1]}" if whole else " ".join(map(str, group[:6]))
    return f"ranks {said}"


class GroupSums(NamedTuple):
    """Of each part of the log, group and rank: impressions and clicks, with and without f and m.

    f is the prediction less its mean, m the prediction.
    """

    shown: Floats
    clicked: Floats
    shown_f: Floats
    clicked_f: Floats
    shown_m: Floats
    shown_fm: Floats

    def whole(self) -> GroupSums:
        """Of all parts together."""
        return GroupSums(*(part.sum(axis=0) for part in self))

    def without(self, part: int) -> GroupSums:
        """Of all parts but one."""
        return GroupSums(*(each.sum(axis=0) - each[part] for each in self))


def group_sums(cells: Cells, group: Ints, rate: Floats, folds: Folds | None) -> GroupSums:
    """The sums that the equations are made of."""
    document, rank = np.nonzero(cells.shown)
    parts = 1 if folds is None else folds.count
    part = np.zeros_like(document) if folds is None else folds.of_document[document]
    shape = (parts, int(group.max(initial=0)) + 1, cells.shown.shape[1])
    at = np.ravel_multi_index((part, group[document], rank), shape)
    n, c = cells.shown[document, rank], cells.clicked[document, rank]
    m = rate[document]
    f = m - float(np.average(m, weights=n))
    sums = np.zeros((6, int(np.prod(shape))))
    for total, values in zip(sums, (n, c, n * f, c * f, n * m, n * f * m), strict=True):
        total += np.bincount(at, values, total.size)
    return GroupSums(*sums.reshape(6, *shape))


def solve(sums: GroupSums, *, trust: bool, reference: int) -> tuple[Floats, Floats]:
    """Slopes and intercepts against the reference; NaN where they cannot be told."""
    ranks = sums.shown.shape[1]
    slope, intercept = np.full((2, ranks), np.nan)
    at = np.flatnonzero(sums.shown.any(axis=0))
    others = at[at != reference - 1]
    total = sums.shown.sum(axis=1, keepdims=True)
    shares = np.divide(sums.shown, total, out=np.zeros_like(sums.shown), where=total > 0)

    def centred(values: Floats) -> Floats:
        """sum over impressions at k of (1{k = j} - P_j) times a value: ranks j x ranks k."""
        matrix: Floats = np.diag(values.sum(axis=0)) - shares.T @ values
        return matrix

    def equations(clicked: Floats, shown: Floats, predicted: Floats) -> tuple[Floats, Floats]:
        own, plain = centred(clicked), centred(shown)
        right = centred(predicted).sum(axis=1) - own[:, reference - 1]
        left = own[np.ix_(others, others)]
        if trust:
            left = np.hstack([left, -plain[np.ix_(others, others)]])
        return left, right[others]

    left, right = equations(sums.clicked, sums.shown, sums.shown_m)
    if trust:
        more = equations(sums.clicked_f, sums.shown_f, sums.shown_fm)
        left, right = np.vstack([left, more[0]]), np.concatenate([right, more[1]])
    slope[reference - 1], intercept[reference - 1] = 1.0, 0.0
    try:
        solved = np.linalg.solve(left, right)
    except np.linalg.LinAlgError:
        return slope, intercept
    inverse = solved[: others.size]
    identified = inverse > 0
    slope[others] = np.divide(1.0, inverse, out=np.full(others.size, np.nan), where=identified)
    intercept[others] = solved[others.size :] * slope[others] if trust else 0.0 * slope[others]
    return slope, intercept


def fit_like_documents(
    cells: Cells, like: LikeDocuments, *, trust: bool, reference: int, folds: Folds | None
) -> tuple[Canonical, LeftOut | None]:
    """Slopes and intercepts against the reference, and those without each part of the log."""
    sums = group_sums(cells, place_groups(like.place, cells.shown), like.rate, folds)
    whole = sums.whole()
    FeatureOverlap.of(whole.shown).check()
    estimate = Canonical(*solve(whole, trust=trust, reference=reference))
    lost = np.flatnonzero(whole.shown.any(axis=0) & ~np.isfinite(estimate.slope))
    if lost.size:
        raise InputError(
            f"alpha cannot be told at rank {lost[0] + 1}: documents with like features are clicked "
            "too seldom there; take more sessions, count fewer ranks, or other features."
        )
    if folds is None:
        return estimate, None
    rest = [solve(sums.without(part), trust=trust, reference=reference)
            for part in range(folds.count)]  # fmt: skip
    return estimate, LeftOut(*(np.array(each) for each in zip(*rest, strict=True)))


def matched_curve(like: LikeDocuments, counts: Counts, reference: int) -> Floats:
    """Position bias through like documents without predictions: where predicting begins.

    1 at ranks where nothing can be told.
    """
    shown, clicked = (table.astype(np.float64) for table in (counts.impressions, counts.clicks))
    group = place_groups(like.place, shown)
    cells = Cells(shown, clicked, np.ones(group.size))
    sums = group_sums(cells, group, np.zeros(group.size), None).whole()
    FeatureOverlap.of(sums.shown).check()
    slope, _ = solve(sums, trust=False, reference=reference)
    return np.where(np.isfinite(slope), slope, 1.0)
