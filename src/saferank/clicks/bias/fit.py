"""Fitting click models to counts: position bias or trust bias, with intervals and verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from saferank._core import flat
from saferank._core.files import write_json
from saferank._core.flat import Array, Floats
from saferank.clicks.bias import fit_methods
from saferank.clicks.bias.em import Cells
from saferank.clicks.bias.folds import make_folds
from saferank.clicks.bias.harvest_trust import LEAST_SHOWN
from saferank.clicks.bias.identifiability import Identifiability, identifiability
from saferank.clicks.bias.misfit import Misfit, best_relevance, misfit
from saferank.clicks.bias.scale import Canonical
from saferank.clicks.bias.uncertainty import Uncertainty, uncertainty
from saferank.clicks.models import ClickModel
from saferank.counts import Counts
from saferank.errors import InputError, require

Method = Literal["em", "harvest"]
METHODS = ("em", "harvest")
FEW_IMPRESSIONS = 100.0
"""Per document, below which EM with a relevance for each document is noticeably biased."""
_VAGUE = 10.0


@dataclass(frozen=True, eq=False)
class FittedBias:
    """A click model fitted to counts, on the scale that clicks identify and on one that is usable.

    `canonical` is what the log tells: click probability at each rank from that at `reference`.
    `model` is the same with the widest range of relevance (see `Canonical.widest`); another range
    is `canonical.model(low, high)`. `uncertainty` has errors and intervals of both.
    """

    kind: str
    method: str
    reference: int
    model: ClickModel
    canonical: Canonical
    level_at: float
    """Clicks per impression at the reference rank, to two digits: a document to speak of."""
    uncertainty: Uncertainty
    relevance: Floats
    """Of each document on the scale of `model`; NaN where it was never shown."""
    misfit: Misfit
    identifiability: Identifiability
    by_features: bool = False
    impressions_per_document: float = np.inf

    @property
    def slope_error(self) -> Floats:
        """Standard errors of `canonical.slope` (NaN where unknown)."""
        return self.uncertainty.slope_error

    @property
    def intercept_error(self) -> Floats:
        """Standard errors of `canonical.intercept` (NaN where unknown)."""
        return self.uncertainty.intercept_error

    @property
    def level(self) -> Floats:
        """Click probability at each rank of a document that has `level_at` at the reference."""
        return self.canonical.level(self.level_at)

    def sentences(self) -> list[str]:
        """What the log could tell, how surely, and whether clicks deviate from the model."""
        links = self.identifiability
        said = [links.verdict]
        if self.by_features:
            said = [
                "Ranks are compared through documents with like features: this holds as far as "
                "relevance is a logistic function of the features. " + links.finding
            ]
        said.append(self.uncertainty.sentence)
        if self.uncertainty.known:
            said.append(self._precision())
        if self.method == "em" and not self.by_features:
            said += self._bias_of_em()
        said.append(self.misfit.verdict)
        if self.misfit.found and self.uncertainty.known:
            said.append("The intervals are of the closest click model; they do not allow for that.")
        return said

    def _precision(self) -> str:
        low, high = self.uncertainty.slope.T
        others = np.flatnonzero(np.isfinite(low) & (np.arange(low.size) != self.reference - 1))
        if others.size == 0:
            return "Only one rank was shown: there is nothing to compare."
        worst = others[np.argmax(high[others] / low[others])]
        ends = f"between {low[worst]:.3g} and {high[worst]:.3g}"
        where = f"rank {worst + 1}: {ends} of that at rank {self.reference}"
        if high[worst] > _VAGUE * low[worst]:
            return (
                f"The log can hardly tell alpha at {where}; take more sessions, count fewer ranks, "
                "or do not rely on it."
            )
        return f"Alpha is least certain at {where}."

    def _bias_of_em(self) -> list[str]:
        if self.impressions_per_document >= FEW_IMPRESSIONS:
            return []
        return [
            f"Documents were shown {self.impressions_per_document:.0f} times on average: EM with a "
            "relevance for each is biased then, and its intervals do not show it; harvest instead."
        ]

    def to_dict(self) -> dict[str, Any]:
        """The fit for JSON; `ClickModel.load` reads it as a click model."""
        sure = self.uncertainty
        return {
            **self.model.to_dict(),
            "alpha_error": _finite(sure.alpha_error),
            "beta_error": _finite(sure.beta_error),
            "canonical": {
                "reference": self.reference,
                "slope": _finite(self.canonical.slope),
                "slope_error": _finite(sure.slope_error),
                "slope_interval": _finite(sure.slope),
                "intercept": _finite(self.canonical.intercept),
                "intercept_error": _finite(sure.intercept_error),
                "intercept_interval": _finite(sure.intercept),
                "level_at": self.level_at,
                "level": _finite(self.level),
                "level_error": _finite(sure.level_error),
                "level_interval": _finite(sure.level),
                "intervals": sure.to_dict(),
            },
            "kind": self.kind,
            "method": self.method,
            "misfit": self.misfit.to_dict(),
            "identifiability": self.identifiability.to_dict(),
            "sentences": self.sentences(),
        }

    def save(self, path: str | Path) -> None:
        """Write the fit as JSON (`bias.json`)."""
        write_json(Path(path), self.to_dict(), "click model")


def fit_position_bias(
    counts: Counts,
    *,
    method: Method | None = None,
    features: npt.ArrayLike | None = None,
    reference: int = 1,
    folds: int = 50,
    seed: int = 0,
    progress: bool | None = None,
) -> FittedBias:
    r"""Fit :math:`P(C) = \alpha_k R`; only ratios of alphas are identified: the largest is made 1.

    Parameters
    ----------
    counts
        Documents must have been seen, and clicked, at several ranks, unless `features` are given.
        Sessions to judge by are left out.
    method
        `"harvest"` compares the clicks of documents seen at several ranks; it fits no relevance and
        so is not misled by documents that were shown rarely. `"em"` fits a relevance for each
        document or, with `features`, a logistic model of them. By default EM is used with features,
        harvesting without.
    features
        Of shape (documents, features).
    reference
        The rank that others are compared with, from 1.
    folds
        Parts of the log that are left out in turn for errors and intervals; 0 for none.
    seed
        For what chance makes of the misfit.
    progress
        Whether to show a bar; by default where a person looks.

    Returns
    -------
    FittedBias
        The click model, its canonical form, and what the log could tell.

    Raises
    ------
    InputError
        If the counts cannot tell alpha at every rank that was shown; the message says why.

    Examples
    --------
    >>> seen = Counts(range(21), [[40, 40]] * 20, [[20, 10], [10, 5]] * 10)
    >>> fit_position_bias(seen).canonical.slope.round(6)
    array([1. , 0.5])
    """
    options = _Options("position", method, features is not None, reference, folds, seed, progress)
    return _fit(counts, features, options)


def fit_trust_bias(
    counts: Counts,
    *,
    method: Method | None = None,
    features: npt.ArrayLike | None = None,
    reference: int = 1,
    folds: int = 50,
    seed: int = 0,
    progress: bool | None = None,
) -> FittedBias:
    r"""Fit :math:`P(C) = \alpha_k R + \beta_k`, which is identified up to an affine map of R.

    The canonical form does not depend on that map; `model` has the widest range of R. Parameters
    are those of `fit_position_bias`; documents must differ in clicks at every rank.

    Examples
    --------
    >>> seen = Counts(range(21), [[4000, 4000]] * 20, [[2800, 1200], [1200, 400]] * 10)
    >>> fit = fit_trust_bias(seen)
    >>> fit.canonical.slope.round(2), fit.canonical.intercept.round(2)
    (array([1. , 0.5]), array([ 0.  , -0.05]))
    """
    options = _Options("trust", method, features is not None, reference, folds, seed, progress)
    return _fit(counts, features, options)


@dataclass(frozen=True)
class _Options:
    kind: str
    given_method: str | None
    by_features: bool
    reference: int
    folds: int
    seed: int
    progress: bool | None

    @property
    def trust(self) -> bool:
        return self.kind == "trust"

    @property
    def method(self) -> str:
        return self.given_method or ("em" if self.by_features else "harvest")

    def check(self, counts: Counts, links: Identifiability) -> None:
        """`InputError` unless the counts can be fitted this way."""
        require(self.method in METHODS, "method", f"one of {METHODS}", self.method)
        sane = not self.by_features or self.method == "em"
        require(sane, "method", "em where features describe relevance", self.method)
        require(self.folds == 0 or self.folds >= 2, "folds", "0 or at least 2", self.folds)
        require(bool(links.shown), "counts", "of some impressions", repr(counts))
        shown = self.reference in links.shown
        require(shown, "reference", f"one of the ranks shown, {links.shown}", self.reference)
        require(bool(counts.clicks.any()), "counts", "of some clicks", repr(counts))
        if not links.identified and not self.by_features:
            raise InputError(links.verdict)

    def fit(self, features: Array | None) -> fit_methods.Fit:
        """The way to fit."""
        if self.method == "harvest":
            return fit_methods.harvest(trust=self.trust, reference=self.reference)
        if features is None:
            return fit_methods.em_by_document(
                trust=self.trust, reference=self.reference, progress=self.progress
            )
        return fit_methods.em_by_features(
            features, trust=self.trust, reference=self.reference, progress=self.progress
        )

    def model(self, found: Canonical, shown: tuple[int, ...]) -> ClickModel:
        """The click model of a canonical form that has all the ranks shown."""
        missing = [rank for rank in shown if not np.isfinite(found.slope[rank - 1])]
        if missing:
            raise InputError(f"the fit has no finite alpha at rank {missing[0]}, which was shown.")
        return found.widest(through_zero=not self.trust)


def _fit(counts: Counts, features: npt.ArrayLike | None, options: _Options) -> FittedBias:
    counts = counts.part("learn")  # what judges a ranker has no part in what it learns by
    # A line through noisy click rates needs a document twice at both of its ranks.
    links = identifiability(counts, least=LEAST_SHOWN if options.trust else 1)
    options.check(counts, links)
    documents = np.flatnonzero(counts.impressions.any(axis=1))
    cells = Cells(
        counts.impressions[documents].astype(np.float64),
        counts.clicks[documents].astype(np.float64),
        np.ones(documents.size),
    )
    rows = None if features is None else _matching(features, counts.documents)[documents]
    fit = options.fit(rows)
    query = flat.query_of(counts.offsets)[documents]
    folds = None
    if options.folds:
        folds = make_folds(cells, query, options.folds, linked=not options.by_features)
    found, left_out = fit(cells, folds)
    model = options.model(found, links.shown)
    level_at = _two_digits(counts, options.reference)
    sure = Uncertainty.unknown(counts.ranks)
    if folds is not None and left_out is not None:
        sure = uncertainty(found, left_out, folds, level_at, trust=options.trust)
    relevance = np.full(counts.documents, np.nan)
    relevance[documents] = best_relevance(*cells[:2], model.alpha, model.beta)

    def refit(clicked: Floats) -> ClickModel:
        return options.model(fit(cells._replace(clicked=clicked), None)[0], links.shown)

    # EM comes closer to the clicks than the truth does, so without it the test is only too mild.
    again = refit if options.method == "harvest" else None
    return FittedBias(
        kind=options.kind,
        method=options.method,
        reference=options.reference,
        model=model,
        canonical=found,
        level_at=level_at,
        uncertainty=sure,
        relevance=relevance,
        misfit=misfit(*cells[:2], model, seed=options.seed, refit=again),
        identifiability=links,
        by_features=options.by_features,
        impressions_per_document=float(cells.shown.sum() / documents.size),
    )


def _matching(features: npt.ArrayLike, documents: int) -> Array:
    given = np.asarray(features)
    require(given.shape[:1] == (documents,), "features", f"{documents} rows", given.shape)
    return given


def _two_digits(counts: Counts, reference: int) -> float:
    """Clicks per impression at the reference rank, rounded: it serves as a given number."""
    shown, clicked = (
        table[:, reference - 1].sum() for table in (counts.impressions, counts.clicks)
    )
    return float(f"{clicked / shown:.1e}")


def _finite(values: Floats) -> list[Any]:
    if values.ndim > 1:
        return [_finite(row) for row in values]
    return [float(value) if np.isfinite(value) else None for value in values]
