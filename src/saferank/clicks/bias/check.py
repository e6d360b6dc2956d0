r"""Whether counts speak against a click model that was not fitted to them.

Three tests, each valid whatever the relevance of documents is; their p-values are joined by
Bonferroni. All are conditional on where documents were shown.

- *Range.* Clicks at rank k are at least those of a binomial with :math:`\beta_k`, and at most those
  of one with :math:`\alpha_k + \beta_k`.
- *Ranks.* The clicks of a document at all its ranks estimate its relevance without bias,
  :math:`\tilde R = (\sum_k c_k - n_k \beta_k) / \sum_k n_k \alpha_k`, so that
  :math:`e_k = c_k - n_k(\alpha_k \tilde R + \beta_k)` has mean 0 at every rank. Needs no document
  with many clicks. Sums of e are compared with how they vary over queries (or over documents, if
  a few queries have most of the sessions).
- *Documents.* The :math:`X^2` of `misfit`, for deviations that cancel over documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saferank._core import flat
from saferank._core.flat import Floats, Ints
from saferank._core.tails import binomial_at_least, binomial_at_most, student_tail
from saferank.clicks.bias.misfit import Misfit, misfit
from saferank.clicks.models import ClickModel
from saferank.counts import Counts
from saferank.errors import require

REJECTED = 0.01
"""The p-value below which counts reject a click model."""
FEWEST_QUERIES = 10.0
_TESTED_DOCUMENTS = 20_000


@dataclass(frozen=True)
class Gap:
    """The clearest deviation of click rates at one rank: what the log has, what the model says."""

    rank: int
    observed: float
    expected: float
    p_value: float
    """Of all ranks together."""
    size: float
    """Deviation of click rates over ranks (root mean square, by impressions)."""
    rule: str
    """How the expected rate is meant: `at least`, `at most`, or `on average`."""


@dataclass(frozen=True)
class ClickModelCheck:
    """What counts say of a click model."""

    gaps: tuple[Gap, ...]
    """Of the tests of the range and of the ranks, where they can be made."""
    documents: Misfit

    @property
    def p_value(self) -> float:
        """How likely so clear a deviation is if the model holds; 1 where nothing can be tested."""
        values = [gap.p_value for gap in self.gaps] + [self.documents.p_value]
        return min(1.0, 3 * min(values))

    @property
    def rejected(self) -> bool:
        """Whether the counts speak against the model."""
        return self.p_value < REJECTED

    @property
    def size(self) -> float:
        """Typical distance of click rates from the model, of the test that finds it largest."""
        return max(self.documents.size, *(gap.size for gap in self.gaps), 0.0)

    @property
    def verdict(self) -> str:
        """One sentence."""
        if not self.gaps and self.documents.cells == 0:
            return "The counts are too few to test the click model."
        chance = "p < 1e-6" if self.p_value < 1e-6 else f"p = {self.p_value:.2g}"
        if not self.rejected:
            return f"Nothing in the counts speaks against the click model ({chance})."
        clear = [gap for gap in self.gaps if 3 * gap.p_value < REJECTED]
        if not clear:
            return (
                f"The counts reject the click model ({chance}): click probabilities of documents "
                f"typically lie {self.documents.size:.3f} from it."
            )
        clearest = max(clear, key=lambda gap: abs(gap.observed - gap.expected))
        return (
            f"The counts reject the click model ({chance}): at rank {clearest.rank} it expects "
            f"{clearest.rule} {clearest.expected:.3f} clicks per impression, and the log has "
            f"{clearest.observed:.3f}."
        )

    def to_dict(self) -> dict[str, Any]:
        """The check for JSON."""
        return {
            "rejected": self.rejected,
            "p_value": self.p_value,
            "size": self.size,
            "verdict": self.verdict,
        }


def check_click_model(counts: Counts, click_model: ClickModel, *, seed: int = 0) -> ClickModelCheck:
    """Whether counts reject a click model, whatever the relevance of documents is.

    Meant for a model from elsewhere. A model that was fitted to the same counts has `fit.misfit`.

    Parameters
    ----------
    counts
        Of as many ranks as the click model has.
    click_model
        Its alpha and beta are taken as known.
    seed
        For the documents that are drawn where there are many, and for what chance makes of them.

    Returns
    -------
    ClickModelCheck
        With `rejected` (at 1 %), `p_value`, `size` and one sentence, `verdict`.

    Raises
    ------
    InputError
        If the numbers of ranks differ.

    Examples
    --------
    >>> from saferank.clicks import position_bias, trust_bias
    >>> rare = Counts([0, 1], impressions=[[900, 100]], clicks=[[90, 5]])
    >>> check_click_model(rare, position_bias(2)).rejected
    False
    >>> print(check_click_model(rare, trust_bias(2)).verdict)
    The counts reject the click model (p < 1e-6): at rank 1 it expects at least 0.650 clicks per \
impression, and the log has 0.100.
    """
    rule = f"of {counts.ranks} ranks, as the counts"
    require(click_model.ranks == counts.ranks, "click_model", rule, click_model.ranks)
    seen = np.flatnonzero(counts.impressions.any(axis=1))
    shown, clicked = (
        table[seen].astype(np.float64) for table in (counts.impressions, counts.clicks)
    )
    query = flat.query_of(counts.offsets)[seen]
    gaps = (_range_gap(shown, clicked, click_model), _rank_gap(shown, clicked, query, click_model))
    documents = misfit(shown, clicked, click_model, seed=seed, most_documents=_TESTED_DOCUMENTS)
    return ClickModelCheck(tuple(gap for gap in gaps if gap is not None), documents)


def _range_gap(shown: Floats, clicked: Floats, model: ClickModel) -> Gap | None:
    """Click rates of ranks below those of irrelevant or above those of relevant documents."""
    n, c = shown.sum(axis=0), clicked.sum(axis=0)
    at = np.flatnonzero(n > 0)
    if at.size == 0:
        return None
    n, c, low, high = n[at], c[at], model.beta[at], np.minimum(model.exposure_weights[at], 1.0)
    too_few, too_many = binomial_at_most(c, n, low), binomial_at_least(c, n, high)
    chance = np.minimum(too_few, too_many)
    rate = c / n
    outside = np.maximum(0.0, np.maximum(low - rate, rate - high))
    worst = _clearest(chance, outside, 2 * at.size)
    few = bool(too_few[worst] <= too_many[worst])
    return Gap(
        rank=int(at[worst]) + 1,
        observed=float(rate[worst]),
        expected=float(low[worst] if few else high[worst]),
        p_value=min(1.0, 2 * at.size * float(chance.min())),
        size=float(np.sqrt(n @ outside**2 / n.sum())),
        rule="at least" if few else "at most",
    )


def _rank_gap(shown: Floats, clicked: Floats, query: Ints, model: ClickModel) -> Gap | None:
    """Click rates of ranks beside what the clicks on the same documents at all ranks suggest."""
    several = np.count_nonzero(shown * model.alpha, axis=1) > 1
    n, c, query = shown[several], clicked[several], query[several]
    if n.shape[0] < 2:
        return None
    weight = n * model.alpha
    relevance = (c - n * model.beta).sum(axis=1, keepdims=True) / weight.sum(axis=1, keepdims=True)
    excess = c - n * (model.alpha * relevance + model.beta)
    # How much a rank could differ from the others: what its share of a document leaves over.
    matter = weight * (1 - weight / weight.sum(axis=1, keepdims=True))
    at = np.flatnonzero(matter.any(axis=0))
    unit = query if _effective(_sums(matter.sum(axis=1), query)) >= FEWEST_QUERIES else None
    chance, total = np.ones(at.size), excess[:, at].sum(axis=0)
    for index, rank in enumerate(at.tolist()):
        chance[index] = _unlikely(excess[:, rank], matter[:, rank], unit)
    impressions = n[:, at].sum(axis=0)
    observed, gap = c[:, at].sum(axis=0) / impressions, total / impressions
    worst = _clearest(chance, np.abs(gap), at.size)
    return Gap(
        rank=int(at[worst]) + 1,
        observed=float(observed[worst]),
        expected=float(observed[worst] - gap[worst]),
        p_value=min(1.0, at.size * float(chance.min())),
        size=float(np.sqrt(impressions @ gap**2 / impressions.sum())),
        rule="on average",
    )


def _clearest(chance: Floats, gap: Floats, tests: int) -> int:
    """The rank of the widest gap among those that chance does not explain, else the least likely.

    With many sessions every gap is beyond chance, and the widest says most.
    """
    clear = chance * tests * 3 < REJECTED
    return int(np.argmax(np.where(clear, gap, -1.0)) if clear.any() else np.argmin(chance))


def _unlikely(excess: Floats, matter: Floats, unit: Ints | None) -> float:
    """The two-sided p-value of a sum whose mean is 0, by how it varies over units (documents)."""
    if unit is not None:
        excess, matter = _sums(excess, unit), _sums(matter, unit)
    share = matter / matter.sum()
    total = excess.sum()
    # Around what each unit would have of a common deviation, so that a large one stays visible.
    variance = np.sum((excess - share * total) ** 2)
    freedom = _effective(matter) - 1
    if freedom <= 0 or variance <= 0:
        return 1.0
    error = np.sqrt(variance * (1 + 1 / freedom))
    return float(2 * student_tail(abs(total) / error, freedom))


def _sums(values: Floats, unit: Ints) -> Floats:
    """Sums over the units, those without any left out."""
    _, place = np.unique(unit, return_inverse=True)
    total: Floats = np.bincount(place, values).astype(np.float64)
    return total


def _effective(weight: Floats) -> float:
    """How many units of equal weight vary as much: (sum w)^2 / sum w^2."""
    return float(weight.sum() ** 2 / np.sum(weight**2))
