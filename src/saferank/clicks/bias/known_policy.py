r"""Click models from a production policy that is known, even where every list was seen once.

Chance puts documents at ranks, so ranks can be compared whatever relevance is: with
:math:`P_0(d, k)` known, what is shown at rank k, weighted by

.. math:: w(d, k) = \frac{g(d)}{P_0(d, k)}, \qquad g(d) = \Big(\sum_j \frac{1}{P_0(d, j)}\Big)^{-1},

stands for the same documents at every rank: those that could be at any of them. (No weight is
larger than 1; for uniformly random lists all are equal.) Two moments at each rank, of clicks alone
and of clicks with a prediction f of relevance that has not seen them, tell alpha and beta:

.. math:: m_k = E_w[c \mid k] = \alpha_k \bar R + \beta_k, \qquad
          b_k = \frac{\mathrm{Cov}_w(c, f \mid k)}{\mathrm{Var}_w(f)} =
          \alpha_k \frac{\mathrm{Cov}_w(R, f)}{\mathrm{Var}_w(f)}.

Position bias is the ratio of the first, trust bias that of the second with intercepts from the
first. f may be any function of the document: only the errors depend on how good it is. What chance
has left of f at a rank is taken out of its click rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from saferank._core.flat import Floats, Ints
from saferank._core.tails import student_tail
from saferank.clicks.bias.em import Cells
from saferank.clicks.bias.folds import Folds
from saferank.clicks.bias.scale import Canonical, LeftOut
from saferank.errors import InputError

LEVEL = 1e-5
"""Of the test whether ranks show the same documents, as the policy says."""

FEW = 0.2
"""Share of the impressions of a rank that their weights are worth, below which it is told."""


@dataclass(frozen=True, eq=False)
class KnownPolicy:
    """What production is known to do, and a prediction of relevance by features.

    Attributes
    ----------
    propensity : P(document at rank) in a session, documents x ranks.
    why : how it is known, in one sentence.
    predicted : one value per document that has not seen the document's own clicks; trust bias
        cannot be told without it.
    complete : whether the table has every document at every rank, and not only what was shown.

    See Also
    --------
    fit_trust_bias : takes one as `policy`.

    Examples
    --------
    >>> uniform = KnownPolicy(np.full((2, 2), 0.5), "rankings were shuffled")
    >>> uniform.rows(np.array([1])).propensity
    array([[0.5, 0.5]])
    """

    propensity: Floats
    why: str
    predicted: Floats | None = None
    complete: bool = True

    def rows(self, documents: Ints) -> KnownPolicy:
        """The same for some documents."""
        predicted = None if self.predicted is None else self.predicted[documents]
        return KnownPolicy(self.propensity[documents], self.why, predicted, self.complete)

    def weights(self, has: Floats) -> Floats:
        """w(d, k), documents x ranks; `has` is 1 at the ranks of a document's list, else 0.

        Of an incomplete table they are 1 / P0 over the length of the list: that every document can
        be at every rank is then an assumption, which `balance_p_value` tests.

        >>> even = KnownPolicy(np.array([[0.5, 0.5], [0.25, 0.75]]), "")
        >>> even.weights(np.ones((2, 2)))
        array([[0.5 , 0.5 ],
               [0.75, 0.25]])
        """
        possible = (self.propensity > 0) & (has > 0)
        inverse = np.divide(1.0, self.propensity, out=np.zeros(has.shape), where=possible)
        if not self.complete:
            plain: Floats = inverse / np.maximum(has.sum(axis=1, keepdims=True), 1)
            return plain
        total = inverse.sum(axis=1, keepdims=True)
        # 1 / P0 may overflow: such a document says nothing of the other ranks
        anywhere = np.isfinite(total) & np.all(possible | (has == 0), axis=1, keepdims=True)
        share = np.zeros(has.shape)
        np.divide(inverse, total, out=share, where=anywhere & (total > 0))
        return share


class Sums(NamedTuple):
    """Of each part of the log, rank, and side (that rank, and the reference on the same lists).

    Sums of the weights w, and of w c, w f, w f^2 and w c f over what was shown.
    """

    w: Floats
    c: Floats
    f: Floats
    ff: Floats
    cf: Floats

    def whole(self) -> Sums:
        """Of all parts together."""
        return Sums(*(part.sum(axis=0) for part in self))

    def without_each(self) -> Sums:
        """Of all parts but one, for each of them."""
        return Sums(*(part.sum(axis=0) - part for part in self))

    def mean_prediction(self) -> Floats:
        """The mean of f at each rank and side."""
        return _ratio(self.f, self.w)

    def slope(self) -> Floats:
        """b: of clicks in f, at each rank and side."""
        mean = self.mean_prediction()
        return _ratio(self.cf - mean * self.c, self.ff - mean * self.f)

    def rate(self) -> Floats:
        """m: clicks per impression, as of documents with the mean f of both sides."""
        mean = self.mean_prediction()
        common = _ratio(self.f.sum(axis=-1, keepdims=True), self.w.sum(axis=-1, keepdims=True))
        slope = np.nan_to_num(self.slope())  # f that does not vary has nothing to take out
        adjusted: Floats = _ratio(self.c, self.w) + slope * (common - mean)
        return adjusted


def _ratio(above: Floats, below: Floats) -> Floats:
    ratio = np.full(above.shape, np.nan)
    np.divide(above, below, out=ratio, where=below > 0)
    return ratio


def policy_sums(
    cells: Cells, policy: KnownPolicy, query: Ints, reference: int, folds: Folds | None
) -> Sums:
    """The moments of each part of the log; ranks are compared on lists that have both."""
    documents, ranks = cells.shown.shape
    lists = np.zeros((int(query.max(initial=-1)) + 1, ranks))
    np.add.at(lists, query, cells.shown)
    has = (lists > 0)[query].astype(np.float64)
    weight = policy.weights(has)
    f = np.zeros(documents) if policy.predicted is None else policy.predicted
    f = f - f.mean()  # nothing depends on it, but squares of large numbers would cancel
    fold = np.zeros(documents, dtype=np.int64) if folds is None else folds.of_document
    parts = 1 if folds is None else folds.count
    sums = Sums(*np.zeros((5, parts, ranks, 2)))
    for rank in np.flatnonzero(lists.any(axis=0)).tolist():
        both = has[:, rank] * has[:, reference - 1]
        for side, at in enumerate((rank, reference - 1)):
            w = weight[:, at] * both
            n, c = w * cells.shown[:, at], w * cells.clicked[:, at]
            for total, values in zip(sums, (n, c, n * f, n * f * f, c * f), strict=True):
                total[:, rank, side] = np.bincount(fold, values, minlength=parts)
    return sums


def weight_sentence(cells: Cells, policy: KnownPolicy, query: Ints) -> str:
    """How few impressions of equal weight those of some rank are worth, where that is few."""
    lists = np.zeros((int(query.max(initial=-1)) + 1, cells.shown.shape[1]))
    np.add.at(lists, query, cells.shown)
    weight = policy.weights((lists > 0)[query].astype(np.float64))
    total = (weight * cells.shown).sum(axis=0)
    worth = _ratio(total**2, (weight**2 * cells.shown).sum(axis=0))
    shown = cells.shown.sum(axis=0)
    rank = int(np.nanargmin(_ratio(worth, shown)))
    if worth[rank] >= FEW * shown[rank]:
        return ""
    return (
        f"Small propensities weigh much: the {shown[rank]:,.0f} impressions at rank {rank + 1} are "
        f"worth {worth[rank]:,.0f} of equal weight."
    )


def canonical_of(sums: Sums, *, trust: bool) -> tuple[Floats, Floats]:
    """Slopes and intercepts against the reference; NaN where they cannot be told."""
    rate = sums.rate()
    level = sums.slope() if trust else rate
    slope = _ratio(level[..., 0], level[..., 1])
    slope = np.where(slope > 0, slope, np.nan)
    return slope, rate[..., 0] - slope * rate[..., 1] if trust else np.where(slope > 0, 0.0, np.nan)


def balance_p_value(sums: Sums, folds: Folds) -> float:
    """How surprising it is that ranks show documents of different weight or different f.

    If production does what it is said to do, they are the same on average at every rank.
    """
    whole, rest = sums.whole(), sums.without_each()
    tests = []
    for value, without in ((whole.w, rest.w), (whole.mean_prediction(), rest.mean_prediction())):
        gap, gaps = value[:, 0] - value[:, 1], without[..., 0] - without[..., 1]
        error = folds.error(gap, gaps)
        # rounding alone is no error to compare with
        real = error > 1e-9 * np.abs(value).max(axis=1)
        tests.append(np.abs(gap[real]) / error[real])
    surprise = np.concatenate(tests)
    if surprise.size == 0:
        return 1.0
    return float(min(1.0, 2 * student_tail(surprise.max(), folds.freedom) * surprise.size))


def fit_known_policy(
    cells: Cells,
    policy: KnownPolicy,
    query: Ints,
    *,
    trust: bool,
    reference: int,
    folds: Folds | None,
) -> tuple[Canonical, LeftOut | None]:
    """Slopes and intercepts against the reference, and those without each part of the log."""
    if trust and policy.predicted is None:
        raise InputError(
            "trust bias cannot be told from click rates alone: let features describe relevance "
            "(--items), or fit position bias (--kind position)."
        )
    sums = policy_sums(cells, policy, query, reference, folds)
    estimate = Canonical(*canonical_of(sums.whole(), trust=trust))
    _check_told(estimate, sums.whole(), reference, trust=trust)
    if folds is None:
        return estimate, None
    p_value = balance_p_value(sums, folds)
    if p_value < LEVEL:
        raise InputError(
            "the production policy must be what made the log, but ranks do not show the same "
            f"documents when weighted by it (p = {p_value:.1g}): {policy.why}"
        )
    return estimate, LeftOut(*canonical_of(sums.without_each(), trust=trust))


def _check_told(estimate: Canonical, sums: Sums, reference: int, *, trust: bool) -> None:
    shown = np.flatnonzero(sums.w.any(axis=-1))
    if not sums.w[reference - 1].all():
        raise InputError(
            "the production policy leaves nothing to compare ranks by: no document could be at "
            "every rank of its list; count fewer ranks (--top), or choose another way."
        )
    lost = shown[~np.isfinite(estimate.slope[shown])]
    if lost.size and trust:
        raise InputError(
            f"trust bias cannot be told at rank {lost[0] + 1}: predicted relevance says nothing of "
            "the clicks there; take more sessions, other features, or fit position bias."
        )
    if lost.size:
        raise InputError(f"alpha cannot be told at rank {lost[0] + 1}: there are no clicks.")
